"""Writes each change of a table as a version: ends the current version of its key, and opens one where a row is there afterwards."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from replicator_sdk.batch import TableChanges, combined
from replicator_sdk.event import DMLOperation
from replicator_sdk.net_change import Chains, NetPlan, Upserts
from replicator_sdk.net_change.keyed_table import KeyedTable
from replicator_sdk.net_change.keys import look_up
from replicator_sdk.net_change.numbering import Numbering
from replicator_sdk.row_versions import FIRST_COPY
from replicator_sdk.row_versions.version_columns import Spans, VersionColumns

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Add = Callable[[pa.Table], None]
"""Takes rows as the table's files have them."""
_NOWHERE: Final = -1
_BEFORE_ALL: Final = np.iinfo(np.int64).min


@dataclass(frozen=True, slots=True)
class CurrentVersions:
    """Current versions of one file that were looked for. All members that are arrays have one length.

    Attributes:
        file: Which file it is.
        places: Where in the file they are.
        keys: For each which of the keys it has.
        rows: All their columns.
    """

    file: Hashable
    places: Int64s
    keys: Int64s
    rows: pa.Table


class VersionedTable(KeyedTable):
    """A table of versions, of which some are ended.

    Attributes:
        columns: The table's.
    """

    columns: VersionColumns

    @abstractmethod
    def encode(
        self, rows: pa.Table, sequence: Int64s, timestamp: Int64s, codes: npt.NDArray[np.int8], spans: Spans
    ) -> pa.Table:
        """Versions as the table's files have them.

        Args:
            rows: The source's columns.
            sequence: The number of the change that opened each.
            timestamp: Its commit time, microseconds since 1970 UTC; -1 for none.
            codes: Its `DMLOperation`.
            spans: When each was valid.
        """

    @abstractmethod
    def find_current(self, keys: pa.Table) -> Iterator[CurrentVersions]:
        """All current versions of keys, file by file, in no order; none of rows that are gone.

        Args:
            keys: As `encode_keys` returns them, each once.
        """

    @abstractmethod
    def remove(self, file: Hashable, places: Int64s) -> None:
        """Take versions of a file out of the table; in effect with the commit. No place comes twice."""


@dataclass(frozen=True, slots=True)
class _Ended:
    """The current versions that the changes end.

    Attributes:
        floors: For each chain from when its version was valid; a very early time where there is none.
        keys: The keys that were looked for.
        place: For each of them the index in `rows`, -1 where the table has no current version.
        rows: Columns of these versions that updates may lack.
    """

    floors: Int64s
    keys: pa.Table
    place: Int64s
    rows: pa.Table


class VersionsWriter:
    """One run of changes of a table of versions; made for it, used once.

    Args:
        table: The table.
        changes: The changes.
        numbering: How versions are numbered.
        now: Is taken for commit times that the source does not report; microseconds since 1970 UTC.
        partitions: For each batch the partition of the log it is from; empty where the batches are in the source's order.
        collects_new: Whether `new_keys` is wanted.

    Attributes:
        new_keys: Keys of the changes that the table has no current version of, each once.
        missing: Rows that are taken away and were not there, and updates that are dropped since their row is gone by now.
        highest: The highest number of a change, or that the table had.
    """

    def __init__(
        self,
        table: VersionedTable,
        changes: TableChanges,
        numbering: Numbering,
        *,
        now: int,
        partitions: Sequence[int] = (),
        collects_new: bool = False,
    ) -> None:
        self._table, self._changes, self._columns, self._schema = table, changes, table.columns, changes.schema
        self._added = numbering.added
        self._now = now
        self._partitions = partitions
        self._collects_new = collects_new
        self.new_keys: list[pa.Table] = []
        self.missing = 0
        self.highest = numbering.highest

    def write(self, current: Add, past: Add) -> None:
        """Give current versions to `current` and ended ones to `past`, and have the table remove those that they replace.

        Raises:
            DataError: When an update lacks values of a row that the table does not have; or when a key has changes in several partitions.
            SnapshotNeededError: As `KeyedTable.refuse_moved`.
        """
        plan = NetPlan(
            self._changes.batches,
            self._schema,
            overlap=self._changes.overlap,
            partitions=self._partitions,
            keeps_each=True,
            with_chains=True,
        )
        if plan.keys_in_several:
            raise self._table.in_several_partitions(plan.keys_in_several)
        assert plan.chains is not None
        self._read_stamps()
        ended = self._end_current(plan, plan.chains, past)
        spans, start = self._spans(plan.chains, ended.floors), 0
        for part in plan.parts():
            stop = start + len(part)
            self._take(part, plan.op[start:stop], spans[start:stop], ended, current, past)
            start = stop

    def _read_stamps(self) -> None:
        """Note number and time of every change, and which columns updates may lack."""
        sequence, times, unsent = [np.empty(0, np.int64)], [np.empty(0, np.int64)], dict[str, None]()
        for batch in self._changes.batches():
            assert batch.sequence_numbers is not None
            sequence.append(batch.sequence_numbers)
            known = np.full(len(batch), -1, np.int64) if batch.timestamps is None else batch.timestamps
            times.append(np.where(known < 0, self._now, known))
            unsent.update(dict.fromkeys(batch.unchanged))
        self._sequence = np.concatenate(sequence) + self._added
        self._times = np.concatenate(times)
        self._unsent = [self._table.field(name) for name in unsent]
        self.highest = max(self.highest, int(self._sequence.max(initial=0)))

    def _end_current(self, plan: NetPlan, chains: Chains, past: Add) -> _Ended:
        """End the versions that the table has of the changes' keys. Of several current versions of a key, as a resumed copy may have read
        a row twice, one stays as an ended version.
        """
        wanted = np.flatnonzero(np.ones(len(chains.first), np.bool_) if self._changes.overlap else ~chains.fresh)
        keys = self._table.encode_keys(plan.chain_keys.take(pa.array(wanted)))
        if self._collects_new and len(wanted) < len(chains.first):
            others = np.setdiff1d(np.arange(len(chains.first)), wanted, assume_unique=True)
            self.new_keys.append(self._table.encode_keys(plan.chain_keys.take(pa.array(others))))
        floors = np.full(len(chains.first), _BEFORE_ALL, np.int64)
        place, rows, count = np.full(len(wanted), _NOWHERE, np.int64), [pa.schema(self._unsent).empty_table()], 0
        for match in self._table.find_current(keys) if len(wanted) else ():
            self._table.remove(match.file, match.places)
            found, at = np.unique(match.keys, return_index=True)
            is_first = place[found] == _NOWHERE
            found, at = found[is_first], at[is_first]
            versions = match.rows.take(pa.array(at))
            chain, change = wanted[found], chains.change[chains.first[wanted[found]]]
            floors[chain] = starts = self._starts(versions, self._times[change])
            past(self._columns.ended(versions, self._sequence[change], self._times[change], starts))
            place[found] = count + np.arange(len(found))
            rows.append(versions.select([field.name for field in self._unsent]))
            count += len(found)
        lost = place == _NOWHERE
        if self._collects_new and lost.any():
            self.new_keys.append(keys.take(pa.array(np.flatnonzero(lost))))
        if not self._changes.overlap:
            self.missing += int(np.count_nonzero(lost & ~chains.opens[chains.first[wanted]]))
        return _Ended(floors, keys, place, pa.concat_tables(rows))

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
        self, part: Upserts, codes: npt.NDArray[np.int8], spans: Spans, ended: _Ended, current: Add, past: Add
    ) -> None:
        """Write the versions that the changes of `part` open."""
        there = codes != DMLOperation.DELETE
        rows = self._table.encode(part.rows, part.sequence + self._added, part.timestamp, codes, spans)
        if len(part.origin_rows):
            if self._changes.overlap:
                self._table.refuse_moved(part)
            rows, lost = self._completed(part, rows, there, ended)
            there[lost] = False
        for add, which in ((current, there & spans.is_current), (past, there & ~spans.is_current)):
            add(rows if which.all() else rows.filter(pa.array(which)))

    def _completed(self, part: Upserts, rows: pa.Table, writes: Bools, ended: _Ended) -> tuple[pa.Table, Int64s]:
        """`rows` with what they lack from the versions before, and which of those that are written have none.

        Raises:
            DataError: When there is none of a row that should have one.
        """
        key = look_up(self._table.encode_keys(part.origin), ended.keys)
        place = np.where(key >= 0, ended.place[key], _NOWHERE)
        lost = part.origin_rows[(place == _NOWHERE) & writes[part.origin_rows]]  # a DELETE lacks nothing
        if len(lost) and not self._changes.drops_lost_updates:
            raise self._table.lost(len(lost), int(part.sequence[lost[0]]))
        self.missing += len(lost)
        before = np.full(len(part), _NOWHERE, np.int64)
        before[part.origin_rows] = place
        for name, mask in part.unresolved.items():
            field = self._table.field(name)
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
