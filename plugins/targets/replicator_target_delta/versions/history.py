"""Writes each change of a table as a version: ends the current version of its key, and opens one where a row is there afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from replicator_sdk.batch import TableChanges, combined
from replicator_sdk.event import DMLOperation
from replicator_sdk.failpoint import failpoint
from replicator_sdk.net_change import Chains, NetPlan, Upserts
from replicator_target_delta.apply.key_lookup import Place, find
from replicator_target_delta.apply.keyed import in_several_partitions, lost_updates, refuse_moved
from replicator_target_delta.apply.row_matching import Sought, look_up
from replicator_target_delta.apply.row_removal import Found, Written
from replicator_target_delta.config import END_SEQUENCE
from replicator_target_delta.files.file_writer import FileWriter
from replicator_target_delta.merge_on_read.append import Numbering
from replicator_target_delta.schema.encoding import encode_keys, encode_rows
from replicator_target_delta.schema.metadata_columns import Spans, Stamper
from replicator_target_delta.versions.version_columns import FIRST_COPY, VersionColumns

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
_NOWHERE: Final = -1
_BEFORE_ALL: Final = np.iinfo(np.int64).min


@dataclass(frozen=True, slots=True)
class _Ended:
    """The current versions that the changes end.

    Attributes:
        removed: Where they are.
        floors: For each chain from when its version was valid; a very early time where there is none.
        keys: The keys that were looked for.
        place: For each of them the index in `rows`, -1 where the table has no current version.
        rows: Columns of these versions that updates may lack.
    """

    removed: Found
    floors: Int64s
    keys: pa.Table
    place: Int64s
    rows: pa.Table


class VersionsApply:
    """One run of changes of a table of versions; made for it, used once.

    Args:
        place: Where and how.
        changes: The changes.
        stamper: Makes the metadata columns.
        columns: The table's columns.
        numbering: How versions are numbered.
        now: Is taken for commit times that the source does not report; microseconds since 1970 UTC.
        partitions: As for `KeyedApply`.
        collects_new: Whether `new_keys` is wanted.

    Attributes:
        new_keys: Keys of the changes that the table has no current version of, each once.
        missing: Rows that are taken away and were not there, and updates that are dropped since their row is gone by now.
        highest: The highest number of a change.
    """

    def __init__(
        self,
        place: Place,
        changes: TableChanges,
        stamper: Stamper,
        columns: VersionColumns,
        numbering: Numbering,
        *,
        now: int,
        partitions: Sequence[int] = (),
        collects_new: bool = False,
    ) -> None:
        self._place, self._changes, self._stamper, self._columns = place, changes, stamper, columns
        self._schema, self._layout = changes.schema, place.state.layout
        self._added = numbering.added
        self._now = now
        self._partitions = partitions
        self._collects_new = collects_new
        self.new_keys: list[pa.Table] = []
        self.missing = 0
        self.highest = numbering.highest

    def write(self) -> Written:
        """Write new files and find the rows that they replace; the caller writes the deletion vectors.

        Raises:
            DataError: When an update lacks values of a row that the table does not have; or when a key has changes in several partitions.
            SnapshotNeededError: As `refuse_moved`.
        """
        changes = self._changes
        plan = NetPlan(
            changes.batches,
            self._schema,
            overlap=changes.overlap,
            partitions=self._partitions,
            keeps_each=True,
            with_chains=True,
        )
        if plan.keys_in_several:
            raise in_several_partitions(changes.table, changes.identity.position, plan.keys_in_several)
        assert plan.chains is not None
        self._read_stamps()
        size = self._place.target_bytes
        with FileWriter(self._place.storage, size) as current, FileWriter(self._place.storage, size) as past:
            ended = self._end_current(plan, plan.chains, past)
            spans, start = self._spans(plan.chains, ended.floors), 0
            for part in plan.parts():
                stop = start + len(part)
                self._take(part, plan.op[start:stop], _slice(spans, start, stop), ended, current, past)
                start = stop
            files = [*current.finish(), *past.finish()]
        failpoint("delta.files.written")
        return Written(files, ended.removed)

    def _read_stamps(self) -> None:
        """Note number and time of every change, and which columns updates may lack."""
        sequence, times, unsent = [np.empty(0, np.int64)], [np.empty(0, np.int64)], set[str]()
        for batch in self._changes.batches():
            assert batch.sequence_numbers is not None
            sequence.append(batch.sequence_numbers)
            known = np.full(len(batch), -1, np.int64) if batch.timestamps is None else batch.timestamps
            times.append(np.where(known < 0, self._now, known))
            unsent |= batch.unchanged.keys()
        self._sequence = np.concatenate(sequence) + self._added
        self._times = np.concatenate(times)
        self._unsent = [column.physical for column in self._layout.columns if column.name in unsent]
        self.highest = max(self.highest, int(self._sequence.max(initial=0)))

    def _end_current(self, plan: NetPlan, chains: Chains, past: FileWriter) -> _Ended:
        """End the versions that the table has of the changes' keys. Of several current versions of a key, as a resumed copy may have read
        a row twice, one stays as an ended version.
        """
        wanted = np.flatnonzero(np.ones(len(chains.first), np.bool_) if self._changes.overlap else ~chains.fresh)
        keys = encode_keys(plan.chain_keys.take(pa.array(wanted)), self._schema, self._layout)
        if self._collects_new and len(wanted) < len(chains.first):
            others = np.setdiff1d(np.arange(len(chains.first)), wanted, assume_unique=True)
            self.new_keys.append(encode_keys(plan.chain_keys.take(pa.array(others)), self._schema, self._layout))
        fetch, only_null = tuple(self._layout.physical), self._columns.field(END_SEQUENCE)
        sought = Sought(keys, np.ones(len(wanted), np.bool_), fetch, only_null)
        floors = np.full(len(chains.first), _BEFORE_ALL, np.int64)
        place, removed, rows, count = np.full(len(wanted), _NOWHERE, np.int64), [], [], 0
        for file, match in find(self._place, sought):
            removed.append((file, match.rows, match.positions))
            assert match.fetched is not None
            found, at = np.unique(match.keys, return_index=True)
            is_first = place[found] == _NOWHERE
            found, at = found[is_first], at[is_first]
            versions = match.fetched.take(pa.array(at))
            chain, change = wanted[found], chains.change[chains.first[wanted[found]]]
            floors[chain] = starts = self._starts(versions, self._times[change])
            past.add(self._columns.ended(versions, self._sequence[change], self._times[change], starts))
            place[found] = count + np.arange(len(found))
            rows.append(versions.select(self._unsent))
            count += len(found)
        lost = place == _NOWHERE
        if self._collects_new and lost.any():
            self.new_keys.append(keys.take(pa.array(np.flatnonzero(lost))))
        if not self._changes.overlap:
            self.missing += int(np.count_nonzero(lost & ~chains.opens[chains.first[wanted]]))
        nothing = pa.schema([self._layout.physical.field(name) for name in self._unsent]).empty_table()
        return _Ended(removed, floors, keys, place, pa.concat_tables([nothing, *rows]))

    def _starts(self, versions: pa.Table, times: Int64s) -> Int64s:
        """From when versions are valid that changes of these times end: a row of the first copy was there before them, whenever it was read,
        unless it may have them already.
        """
        starts = self._columns.starts(versions)
        if self._changes.overlap:
            return starts
        return np.where(self._columns.numbers(versions) == FIRST_COPY, np.minimum(starts, times), starts)

    def _spans(self, chains: Chains, floors: Int64s) -> Spans:
        """For each change when the version was valid that it opens; without meaning where it opens none."""
        times = self._times[chains.change]
        times[chains.first] = np.maximum(times[chains.first], floors)
        valid = rising(times, chains.chain)
        following = chains.next
        opens = np.flatnonzero(chains.opens)
        change, ends = chains.change[opens], following[opens] >= 0
        start, end, number = (np.full(len(self._times), -1, np.int64) for _ in range(3))
        start[change] = valid[opens]
        end[change[ends]] = valid[opens[ends] + 1]
        number[change[ends]] = self._sequence[following[opens[ends]]]
        return Spans(start, end, number)

    def _take(
        self,
        part: Upserts,
        codes: npt.NDArray[np.int8],
        spans: Spans,
        ended: _Ended,
        current: FileWriter,
        past: FileWriter,
    ) -> None:
        """Write the versions that the changes of `part` open, ended and current ones in files of their own."""
        there = codes != DMLOperation.DELETE
        stamps = self._stamper.versions(part.sequence + self._added, part.timestamp, codes, spans)
        rows = encode_rows(part.rows, self._layout, stamps)
        if len(part.origin_rows):
            if self._changes.overlap:
                refuse_moved(part, self._changes)
            rows, lost = self._completed(part, rows, there, ended)
            there[lost] = False
        for writer, which in ((current, there & spans.is_current), (past, there & ~spans.is_current)):
            writer.add(rows if which.all() else rows.filter(pa.array(which)))

    def _completed(self, part: Upserts, rows: pa.Table, writes: Bools, ended: _Ended) -> tuple[pa.Table, Int64s]:
        """`rows` with what they lack from the versions before, and which of those that are written have none.

        Raises:
            DataError: When there is none of a row that should have one.
        """
        origin = encode_keys(part.origin, self._schema, self._layout)
        key = look_up([combined(column) for column in origin.columns], ended.keys)
        place = np.where(key >= 0, ended.place[key], _NOWHERE)
        lost = part.origin_rows[(place == _NOWHERE) & writes[part.origin_rows]]  # a DELETE lacks nothing
        if len(lost) and not self._changes.drops_lost_updates:
            raise lost_updates(self._changes, len(lost), int(part.sequence[lost[0]]))
        self.missing += len(lost)
        before = np.full(len(part), _NOWHERE, np.int64)
        before[part.origin_rows] = place
        for name, mask in part.unresolved.items():
            field = self._layout[name].arrow
            index = np.arange(len(part))
            known = mask & (before != _NOWHERE)
            index[known] = len(part) + before[known]
            both = pa.concat_arrays([combined(rows.column(field.name)), combined(ended.rows.column(field.name))])
            rows = rows.set_column(rows.schema.get_field_index(field.name), field, both.take(pa.array(index)))
        return rows, lost


def rising(times: Int64s, chain: Int64s) -> Int64s:
    """The times, none of them lower than one before it of its chain: clocks may be set back.

    Args:
        times: By chain.
        chain: For each the number of its chain, ascending.
    """
    values, rank = np.unique(times, return_inverse=True)
    high = np.maximum.accumulate(chain * len(values) + rank)
    found: Int64s = values[high - chain * len(values)]
    return found


def _slice(spans: Spans, start: int, stop: int) -> Spans:
    return Spans(spans.start[start:stop], spans.end[start:stop], spans.end_sequence[start:stop])
