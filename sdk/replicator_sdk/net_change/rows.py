"""The final rows of a run of changes, taken once the keys are decided."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from replicator_sdk.batch import ChangeBatch, Int64s
from replicator_sdk.errors import BugError, DataError
from replicator_sdk.event import DMLOperation
from replicator_sdk.net_change.chains import Chains, follow_chains
from replicator_sdk.net_change.keys import Bools, join
from replicator_sdk.net_change.plan import History, KeyOutcome, decide_keys, keep_each, read_history
from replicator_sdk.net_change.unchanged import find_origins
from replicator_sdk.schema import TableSchema

_OPERATIONS = (DMLOperation.INSERT, DMLOperation.UPDATE, DMLOperation.DELETE)


@dataclass(frozen=True, slots=True)
class Upserts:
    """Final rows, in the order of the changes that wrote them. All members that are arrays have the rows' length.

    Attributes:
        rows: The schema's columns. A value that no change of the run carries is NULL here and marked in `unresolved`.
        sequence: Sequence number of the change that wrote the row.
        timestamp: Its commit time at the source, microseconds since 1970 UTC; -1 unknown.
        fresh: Whether the key was certainly not in the target before the run: its first change was an INSERT or a row
            moved onto it. All false with `overlap`.
        unresolved: Column → mask of the rows whose value only the target has; only columns with at least one.
        origin_rows: Ascending indexes of the rows with at least one unresolved column.
        origin: For each of `origin_rows` the key (key columns only) under which the target held that row before the
            run; not always the row's own key.
    """

    rows: pa.Table
    sequence: Int64s
    timestamp: Int64s
    fresh: Bools
    unresolved: Mapping[str, Bools]
    origin_rows: Int64s
    origin: pa.Table

    def __len__(self) -> int:
        return len(self.sequence)


@dataclass(frozen=True, slots=True)
class NetChanges:
    """The outcome of each key of a run: written or deleted. No key is in both parts or in one twice.

    Attributes:
        written: The keys that are there in the end.
        deletes: Keys (key columns only) that are gone in the end; without those that came and went within the run,
            unless `overlap`.
        delete_sequence: Sequence number of the change that took the key away.
        delete_timestamp: Its commit time at the source, microseconds since 1970 UTC; -1 unknown.
        inserts: INSERTs seen.
        updates: UPDATEs seen.
        removals: DELETEs seen.
    """

    written: Upserts
    deletes: pa.Table
    delete_sequence: Int64s
    delete_timestamp: Int64s
    inserts: int
    updates: int
    removals: int

    @property
    def upserts(self) -> pa.Table:
        """The rows to write, as `written.rows`."""
        return self.written.rows


def net_changes(batches: Iterable[ChangeBatch], schema: TableSchema, *, overlap: bool) -> NetChanges:
    """The net change per key of `batches`.

    Args:
        batches: In source order, all of them under `schema`; held in memory until the function returns.
        schema: With a primary key.
        overlap: Whether the target may hold the effect of some of the changes already (`TableChanges.overlap`).

    Raises:
        DataError: When a value is needed of a row that was deleted before.
        BugError: When changes are not numbered, a DELETE has no key before, or the table has no key.
    """
    held = list(batches)
    plan = NetPlan(lambda: iter(held), schema, overlap=overlap)
    return NetChanges(
        plan.written(),
        plan.deletes,
        plan.delete_sequence,
        plan.delete_timestamp,
        plan.inserts,
        plan.updates,
        plan.removals,
    )


class NetPlan:
    """The net change of a run that may be larger than memory: keys first, rows batch by batch afterwards.

    Holds about 10 bytes for each row to be written, and 50 for each change while it is made; reads the batches once for
    it, and once more when keys are deleted. Members are as in `NetChanges`.

    Args:
        batches: Gives the batches in source order, the same ones at each call, as `TableChanges.batches` does.
        schema: With a primary key.
        overlap: As for `net_changes`.
        partitions: For each batch the partition of the log it is from, where the batches have no common order.
        keeps_each: Whether the row of each change is wanted, and not the last of each key only: for targets that append. The `row`
            of a DELETE then says what is written for it, and each batch that is not empty gives one part with all its rows in order.
        with_chains: Whether `chains` and `chain_keys` are wanted; about 40 bytes more for each change.

    Attributes:
        deletes: As in `NetChanges`; with `keeps_each` the keys that rows moved away from, in the order of the changes.
        removed_by: For each of `deletes` the index, among all changes, of the change that took the key away.
        op: With `keeps_each` the operation code of each change.
        chains: With `with_chains` what happens at each key, change by change.
        chain_keys: Their keys (key columns only).
        keys_in_several: How many keys have changes in more than one of `partitions`; their outcome is unknown.
    """

    def __init__(
        self,
        batches: Callable[[], Iterator[ChangeBatch]],
        schema: TableSchema,
        *,
        overlap: bool,
        partitions: Sequence[int] = (),
        keeps_each: bool = False,
        with_chains: bool = False,
    ) -> None:
        if not schema.primary_key:
            raise BugError("net changes by key of a table without one", code="RPL-9022", table=str(schema.table))
        self._batches = batches
        self._schema = schema
        self._overlap = overlap
        history = read_history(batches(), schema)
        self._starts = history.starts
        outcome = decide_keys(history)
        self.keys_in_several = _in_several(history, outcome, partitions)
        self.chains: Chains | None = follow_chains(history, outcome) if with_chains else None
        self.chain_keys = self._keys(history, np.empty(0, np.int64) if self.chains is None else self.chains.places)
        if keeps_each:
            outcome, self.op = keep_each(history, outcome), history.op
        self._written, self._fresh = outcome.written, outcome.written_fresh
        self._origins = find_origins(history, outcome, self._lost_value)
        self._origin = self._keys(history, _places_before(history, outcome, self._origins.target_key))
        removed = slice(None) if overlap else np.flatnonzero(~outcome.removed_fresh)
        self.removed_by = outcome.removed_by[removed]
        self.deletes: pa.Table = self._keys(history, outcome.removed_key[removed])
        self.inserts, self.updates, self.removals = (
            int(np.count_nonzero(history.op == operation)) for operation in _OPERATIONS
        )
        del history, outcome  # all keys of the run: nothing needs them from here on
        self.delete_sequence, self.delete_timestamp = self._stamps(self.removed_by)

    def __len__(self) -> int:
        """How many rows are to be written."""
        return len(self._written)

    @property
    def all_fresh(self) -> bool:
        """Whether no key, written or removed, can be in the target: the rows may simply be appended."""
        return not self._overlap and bool(self._fresh.all()) and len(self.deletes) == 0

    def written(self) -> Upserts:
        """All final rows at once."""
        parts = list(self.parts())
        offsets = np.cumsum([0, *map(len, parts)])
        names = {name for part in parts for name in part.unresolved}
        return Upserts(
            pa.concat_tables([self._schema.arrow.empty_table(), *(p.rows for p in parts)]),
            join([p.sequence for p in parts], np.int64),
            join([p.timestamp for p in parts], np.int64),
            join([p.fresh for p in parts], np.bool_),
            {
                name: np.concatenate([p.unresolved.get(name, np.zeros(len(p), np.bool_)) for p in parts])
                for name in self._schema.names
                if name in names
            },
            join([p.origin_rows + at for p, at in zip(parts, offsets, strict=False)], np.int64),
            pa.concat_tables([self._origin.slice(0, 0), *(p.origin for p in parts)]),
        )

    def parts(self) -> Iterator[Upserts]:
        """The final rows, batch by batch; batches that write none are left out.

        Reads the batches once more, and once more before that when values have to be carried between batches.
        """
        carried = self._carry()
        edges = np.searchsorted(self._written, self._starts)
        for number, batch in enumerate(self._batches()):
            first, last = int(edges[number]), int(edges[number + 1])
            if first < last:
                yield self._part(batch, int(self._starts[number]), slice(first, last), carried)

    def _part(self, batch: ChangeBatch, start: int, chosen: slice, carried: Mapping[str, _Carried]) -> Upserts:
        change = self._written[chosen]
        local = change - start
        whole = len(local) == len(batch)
        columns: list[pa.Array] = []
        unresolved: dict[str, Bools] = {}
        for name in self._schema.names:
            values = batch.row.field(name)
            source = self._origins.source.get(name)
            if source is None:
                columns.append(values if whole else values.take(pa.array(local)))
                continue
            columns.append(carried[name].fill(values, local, change, source[chosen]))
            missing = source[chosen] < 0
            if missing.any():
                unresolved[name] = missing
        low, high = np.searchsorted(self._origins.target_rows, [chosen.start, chosen.stop])
        fresh = self._fresh[chosen]
        return Upserts(
            pa.Table.from_arrays(columns, schema=self._schema.arrow),
            *_stamps(batch, local),
            np.zeros_like(fresh) if self._overlap else fresh,
            unresolved,
            self._origins.target_rows[low:high] - chosen.start,
            self._origin.slice(low, high - low),
        )

    def _carry(self) -> dict[str, _Carried]:
        """The values that written rows take from other changes than their own, by column."""
        written = self._written
        wanted = {
            name: np.unique(source[(source >= 0) & (source != written)])
            for name, source in self._origins.source.items()
        }
        taken: dict[str, list[pa.Array]] = {name: [] for name in wanted}
        if any(len(changes) for changes in wanted.values()):
            for number, batch in enumerate(self._batches()):
                start, stop = self._starts[number : number + 2]
                for name, changes in wanted.items():
                    here = changes[slice(*np.searchsorted(changes, [start, stop]))] - start
                    if len(here):
                        taken[name].append(batch.row.field(name).take(pa.array(here)))
        return {name: _Carried(changes, taken[name]) for name, changes in wanted.items()}

    def _keys(self, history: History, places: Int64s) -> pa.Table:
        chosen = pa.array(places)
        columns = [column.take(chosen) for column in history.keys]
        fields = [pa.field(c.name, c.type.arrow) for c in self._schema.key_columns()]
        return pa.Table.from_arrays(columns, schema=pa.schema(fields))

    def _stamps(self, changes: Int64s) -> tuple[Int64s, Int64s]:
        """Sequence numbers and commit times of some changes, in any order."""
        sequence, timestamp = np.empty((2, len(changes)), np.int64)
        order = np.argsort(changes, kind="stable")
        edges = np.searchsorted(changes[order], self._starts)
        for number, batch in enumerate(self._batches() if len(changes) else ()):
            here = order[edges[number] : edges[number + 1]]
            sequence[here], timestamp[here] = _stamps(batch, changes[here] - self._starts[number])
        return sequence, timestamp

    def _lost_value(self, column: str, change: int) -> DataError:
        sequence, _ = self._stamps(np.array([change]))
        return DataError(
            f"an UPDATE does not carry column {column!r}, and the row it changes was deleted before it in the same batch",
            code="RPL-5020",
            table=str(self._schema.table),
            position=f"sequence {sequence[0]}",
            hint="a filter (dmlBlacklist) drops the INSERT in between; let INSERTs through, then copy the table again: `replicator table resync NAME TABLE --in-place`",
        )


def _in_several(history: History, outcome: KeyOutcome, partitions: Sequence[int]) -> int:
    """How many keys have changes in several partitions."""
    if len(set(partitions)) < 2:
        return 0
    own = np.repeat(np.asarray(partitions, np.int64), np.diff(history.starts))
    keys = np.concatenate([outcome.key, outcome.left])
    where = np.concatenate([own, own[outcome.moved]])
    any_of = np.empty(int(keys.max(initial=-1)) + 1, np.int64)
    any_of[keys] = where
    return len(np.unique(keys[where != any_of[keys]]))


def _places_before(history: History, outcome: KeyOutcome, changes: Int64s) -> Int64s:
    """The indexes in `History.keys` of the keys before `changes`."""
    if len(changes) == 0 or len(outcome.moved) == 0:
        return changes
    moved = np.isin(changes, outcome.moved)
    places = changes.copy()
    places[moved] = len(history) + np.searchsorted(history.with_old, changes[moved])
    return places


class _Carried:
    """Values of one column taken from changes in ascending order."""

    def __init__(self, changes: Int64s, values: list[pa.Array]) -> None:
        self._changes = changes
        self._values = values

    def fill(self, own: pa.Array, local: Int64s, change: Int64s, source: Int64s) -> pa.Array:
        """The column for the rows at `local`: their own value, another change's, or NULL where `source` is -1."""
        place = local.copy()
        other = (source >= 0) & (source != change)
        place[other] = len(own) + np.searchsorted(self._changes, source[other])
        places = pa.array(place, mask=source < 0)
        return pa.chunked_array([own, *self._values], own.type).take(places).combine_chunks()


def _stamps(batch: ChangeBatch, local: Int64s) -> tuple[Int64s, Int64s]:
    """Sequence numbers and commit times of some changes of a batch."""
    assert batch.sequence_numbers is not None
    unknown = np.full(len(local), -1, np.int64)
    return batch.sequence_numbers[local], unknown if batch.timestamps is None else batch.timestamps[local]
