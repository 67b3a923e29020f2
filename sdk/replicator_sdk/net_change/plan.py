"""Which change decides each key: the part of a net change that looks at keys only, never at whole rows.

Every change is one or two *records* at a point in time: at the even time `2 i` an UPDATE that moves a row takes it away
from its old key, at the odd time `2 i + 1` change `i` writes its row, or a DELETE takes it away. The last record at a
key decides; the first one shows whether the target can hold the key already. Time orders by the source, so
chains (0→1→2), swaps through a third key and the reuse of a key need no case of their own.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from replicator_sdk.batch import ChangeBatch, Int64s
from replicator_sdk.errors import BugError
from replicator_sdk.event import DMLOperation
from replicator_sdk.net_change.keys import Bools, Codes, encode_keys, join
from replicator_sdk.schema import TableSchema

_UPDATE = DMLOperation.UPDATE
_DELETE = DMLOperation.DELETE
_SHORT_TIMES = 2**30 - 2
Times = npt.NDArray[np.int32 | np.int64]


@dataclass(frozen=True, slots=True)
class History:
    """What a plan needs to know of a run of changes: keys and operations, none of the rows.

    Attributes:
        op: int8 operation codes.
        keys: Key columns: the key each change writes at, or deletes, followed by the keys before `with_old`.
        with_old: Ascending indexes of the UPDATEs that carry a key before.
        unchanged: Column → mask of the changes that did not send it; only columns with at least one.
        starts: Index of the first change of each batch, and the total at the end.
    """

    op: npt.NDArray[np.int8]
    keys: list[pa.Array]
    with_old: Int64s
    unchanged: dict[str, Bools]
    starts: Int64s

    def __len__(self) -> int:
        return len(self.op)


@dataclass(slots=True)
class _Pieces:
    """The history under construction, one entry a batch. Copies what it keeps: a slice would hold its whole batch."""

    op: list[npt.NDArray[np.int8]] = field(default_factory=list)
    key: list[list[pa.Array]] = field(default_factory=list)
    old_key: list[list[pa.Array]] = field(default_factory=list)
    with_old: list[Int64s] = field(default_factory=list)
    unchanged: list[dict[str, Bools]] = field(default_factory=list)
    rows: int = 0

    def add(self, batch: ChangeBatch, key_names: tuple[str, ...]) -> None:
        """Note one batch."""
        if batch.sequence_numbers is None:
            raise BugError("changes without sequence numbers", code="RPL-9020", table=str(batch.table))
        op = np.array(batch.op.to_numpy(zero_copy_only=False))
        deletes = op == _DELETE
        with_old = np.flatnonzero(_with_key_before(batch, op, deletes))
        self.op.append(op)
        self.key.append([_written_key(batch, name, deletes) for name in key_names])
        self.old_key.append([_old_key(batch, name, with_old) for name in key_names])
        self.with_old.append(with_old + self.rows)
        self.unchanged.append({n: m.to_numpy(zero_copy_only=False) for n, m in batch.unchanged.items()})
        self.rows += len(op)


def _with_key_before(batch: ChangeBatch, op: npt.NDArray[np.int8], deletes: Bools) -> Bools:
    """Which UPDATEs carry a key before; checks that every DELETE does."""
    valid: Bools
    if batch.before is None:
        valid = np.zeros(len(op), np.bool_)
    elif batch.before.null_count == 0:
        valid = np.ones(len(op), np.bool_)
    else:
        valid = pc.is_valid(batch.before).to_numpy(zero_copy_only=False)
    if bool((deletes & ~valid).any()):
        raise BugError("a DELETE without a key before", code="RPL-9021", table=str(batch.table))
    carried: Bools = valid & (op == _UPDATE)
    return carried


def _written_key(batch: ChangeBatch, name: str, deletes: Bools) -> pa.Array:
    after = batch.row.field(name)
    if batch.before is None or not deletes.any():
        return _copy(after)
    before = batch.before.field(name)
    return _copy(before) if deletes.all() else pc.if_else(pa.array(deletes), before, after)


def _old_key(batch: ChangeBatch, name: str, with_old: Int64s) -> pa.Array:
    if batch.before is None or len(with_old) == 0:
        return pa.array([], batch.schema[name].type.arrow)
    return batch.before.field(name).take(pa.array(with_old))


def _copy(column: pa.Array) -> pa.Array:
    return column.take(pa.array(np.arange(len(column))))


def read_history(batches: Iterable[ChangeBatch], schema: TableSchema) -> History:
    """Read what a plan needs from `batches`; keeps none of their rows.

    Raises:
        BugError: When changes are not numbered or a DELETE has no key.
    """
    pieces = _Pieces()
    for batch in batches:
        pieces.add(batch, schema.primary_key)
    lengths = [len(op) for op in pieces.op]
    nothing = [pa.array([], column.type.arrow) for column in schema.key_columns()]
    return History(
        op=join(pieces.op, np.int8),
        keys=[pa.concat_arrays(parts) for parts in zip(nothing, *pieces.key, *pieces.old_key, strict=True)],
        with_old=join(pieces.with_old, np.int64),
        unchanged=_join_masks(pieces.unchanged, lengths),
        starts=np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]).astype(np.int64),
    )


def _join_masks(pieces: list[dict[str, Bools]], lengths: list[int]) -> dict[str, Bools]:
    names = {name: None for piece in pieces for name, mask in piece.items() if mask.any()}
    return {
        name: np.concatenate([piece.get(name, np.zeros(n, np.bool_)) for piece, n in zip(pieces, lengths, strict=True)])
        for name in names
    }


@dataclass(frozen=True, slots=True)
class KeyOutcome:
    """The outcome of the keys of a history; indexes are indexes of changes unless said otherwise.

    Attributes:
        written: Ascending: the change that writes the final row, one for each key that is there in the end.
        written_fresh: For each of them, whether the key was certainly not there before the history.
        removed_by: Ascending by time: the change that took a key away for good.
        removed_key: For each of them, the index of its key in `History.keys`.
        removed_fresh: For each of them, whether the key was certainly not there before the history.
        moved: Ascending: the UPDATEs that changed the key.
        left: For each of them the code of the key before.
        key: Code of the key each change writes at, or deletes.
    """

    written: Int64s
    written_fresh: Bools
    removed_by: Int64s
    removed_key: Int64s
    removed_fresh: Bools
    moved: Int64s
    left: Codes
    key: Codes


def decide_keys(history: History) -> KeyOutcome:
    """Which change decides each key of `history`."""
    size = len(history)
    codes, count = encode_keys(history.keys) if size else (np.empty(0, np.int32), 0)
    key, before = codes[:size], codes[size:]
    moves = before != key[history.with_old]
    moved, left = history.with_old[moves], before[moves]

    # One byte for each time: 0 decides nothing, else 1 + whether the key was fresh + 2 if no row is left there.
    decided = np.zeros(2 * size, np.int8)
    last, gone = _last(history, key, moved, left, count)
    decided[last] = 1 + _fresh(history, key, moved, left, count) + 2 * gone.astype(np.int8)
    del last, gone
    writes = decided[1::2]  # a row is written at odd times only
    written = np.flatnonzero((writes == 1) | (writes == 2))
    removed = np.flatnonzero(decided > 2)
    place = removed // 2
    taken = removed % 2 == 0  # by a move: the key is among the old keys
    place[taken] = size + np.searchsorted(history.with_old, place[taken])
    return KeyOutcome(written, writes[written] == 2, removed // 2, place, decided[removed] == 4, moved, left, key)


def keep_each(history: History, outcome: KeyOutcome) -> KeyOutcome:
    """The same for a target that keeps every change: each one is written, DELETEs too, and removes the key that it moved away from."""
    moved = outcome.moved
    return replace(
        outcome,
        written=np.arange(len(history), dtype=np.int64),
        written_fresh=np.zeros(len(history), np.bool_),
        removed_by=moved,
        removed_key=len(history) + np.searchsorted(history.with_old, moved),
        removed_fresh=np.zeros(len(moved), np.bool_),
    )


def _last(history: History, key: Codes, moved: Int64s, left: Codes, count: int) -> tuple[Times, Bools]:
    """Time of the last record at each key, and whether it took the row away."""
    kind = time_type(len(key))
    last = np.full(count, -1, kind)
    last[key] = np.arange(1, 2 * len(key), 2, dtype=kind)  # of equal indexes numpy keeps the last assignment
    np.maximum.at(last, left, (moved * 2).astype(kind))
    return last, (last & 1 == 0) | (history.op[last >> 1] == _DELETE)


def _fresh(history: History, key: Codes, moved: Int64s, left: Codes, count: int) -> Bools:
    """Whether the first record at each key put a row there."""
    kind = time_type(len(key))
    first = np.full(count, 2 * len(key) + 2, kind)
    first[key[::-1]] = np.arange(2 * len(key) - 1, 0, -2, dtype=kind)
    np.minimum.at(first, left, (moved * 2).astype(kind))
    arrives = history.op == DMLOperation.INSERT
    arrives[moved] = True
    came: Bools = (first & 1 == 1) & arrives[first >> 1]
    return came


def time_type(changes: int) -> type[np.int32 | np.int64]:
    """The smallest integers that hold the times of so many changes."""
    return np.int32 if changes < _SHORT_TIMES else np.int64
