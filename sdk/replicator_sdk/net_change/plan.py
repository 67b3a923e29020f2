"""Which change decides each key: the part of a net change that looks at keys only, never at whole rows.

Every change is one or two *records* at a point in time: at the even time `2 i` an UPDATE that moves a row takes it away
from its old key, at the odd time `2 i + 1` change `i` writes its row, or a DELETE takes it away. The last record at a
key decides; what the first one is tells whether the target can hold the key already. Time orders by the source, so
chains (0→1→2), swaps through a third key and the reuse of a key need no case of their own.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from replicator_sdk.batch import ChangeBatch
from replicator_sdk.errors import BugError
from replicator_sdk.event import DMLOperation
from replicator_sdk.net_change.keys import Bools, Int64s, encode_rows, join
from replicator_sdk.schema import TableSchema

_UPDATE = DMLOperation.UPDATE
_DELETE = DMLOperation.DELETE


@dataclass(frozen=True, slots=True)
class History:
    """What a plan needs to know of a run of changes: all of it but the rows.

    Attributes:
        op: int8 operation codes.
        key: Key columns each change writes at, or deletes.
        old_key: Key columns before the change; only for `with_old`.
        with_old: Indexes of the UPDATEs that tell a key before.
        unchanged: Column → mask of the changes that did not send it; only columns with at least one.
        sequence: Sequence numbers.
        timestamp: Commit times at the source, microseconds; -1 unknown.
        starts: Index of the first change of each batch, and the total at the end.
    """

    op: npt.NDArray[np.int8]
    key: list[pa.Array]
    old_key: list[pa.Array]
    with_old: Int64s
    unchanged: dict[str, Bools]
    sequence: Int64s
    timestamp: Int64s
    starts: Int64s

    def __len__(self) -> int:
        return len(self.op)


@dataclass(slots=True)
class _Pieces:
    """The history under construction, one entry a batch."""

    op: list[npt.NDArray[np.int8]] = field(default_factory=list)
    key: list[list[pa.Array]] = field(default_factory=list)
    old_key: list[list[pa.Array]] = field(default_factory=list)
    with_old: list[Int64s] = field(default_factory=list)
    unchanged: list[dict[str, Bools]] = field(default_factory=list)
    sequence: list[Int64s] = field(default_factory=list)
    timestamp: list[Int64s] = field(default_factory=list)
    rows: int = 0

    def add(self, batch: ChangeBatch, key_names: tuple[str, ...]) -> None:
        """Note one batch."""
        if batch.sequence_numbers is None:
            raise BugError("changes without sequence numbers", code="RPL-9020", table=str(batch.table))
        op = batch.op.to_numpy(zero_copy_only=False)
        deletes = op == _DELETE
        told = _told(batch, op, deletes)
        with_old = np.flatnonzero(told)
        self.op.append(op)
        self.key.append([_written_key(batch, name, deletes) for name in key_names])
        self.old_key.append([_old_key(batch, name, with_old) for name in key_names])
        self.with_old.append(with_old + self.rows)
        self.unchanged.append({n: m.to_numpy(zero_copy_only=False) for n, m in batch.unchanged.items()})
        self.sequence.append(batch.sequence_numbers)
        self.timestamp.append(np.full(len(op), -1, np.int64) if batch.timestamps is None else batch.timestamps)
        self.rows += len(op)


def _told(batch: ChangeBatch, op: npt.NDArray[np.int8], deletes: Bools) -> Bools:
    """Which UPDATEs tell a key before; checks that every DELETE does."""
    valid: Bools
    if batch.before is None:
        valid = np.zeros(len(op), np.bool_)
    elif batch.before.null_count == 0:
        valid = np.ones(len(op), np.bool_)
    else:
        valid = pc.is_valid(batch.before).to_numpy(zero_copy_only=False)
    if bool((deletes & ~valid).any()):
        raise BugError("a DELETE without a key before", code="RPL-9021", table=str(batch.table))
    told: Bools = valid & (op == _UPDATE)
    return told


def _written_key(batch: ChangeBatch, name: str, deletes: Bools) -> pa.Array:
    after = batch.row.field(name)
    if batch.before is None or not deletes.any():
        return after
    before = batch.before.field(name)
    return before if deletes.all() else pc.if_else(pa.array(deletes), before, after)


def _old_key(batch: ChangeBatch, name: str, with_old: Int64s) -> pa.Array:
    if batch.before is None or len(with_old) == 0:
        return batch.row.field(name).slice(0, 0)
    before = batch.before.field(name)
    return before if len(with_old) == len(before) else before.take(pa.array(with_old))


def read_history(batches: Iterable[ChangeBatch], schema: TableSchema) -> History:
    """Read what a plan needs from `batches`; keeps none of their rows.

    Raises:
        BugError: When changes are not numbered or a DELETE has no key.
    """
    pieces = _Pieces()
    for batch in batches:
        pieces.add(batch, schema.primary_key)
    lengths = [len(op) for op in pieces.op]
    columns = schema.key_columns()
    return History(
        op=join(pieces.op, np.int8),
        key=[_concat([k[i] for k in pieces.key], c.type.arrow) for i, c in enumerate(columns)],
        old_key=[_concat([k[i] for k in pieces.old_key], c.type.arrow) for i, c in enumerate(columns)],
        with_old=join(pieces.with_old, np.int64),
        unchanged=_join_masks(pieces.unchanged, lengths),
        sequence=join(pieces.sequence, np.int64),
        timestamp=join(pieces.timestamp, np.int64),
        starts=np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]).astype(np.int64),
    )


def _concat(pieces: list[pa.Array], kind: pa.DataType) -> pa.Array:
    return pa.concat_arrays(pieces) if pieces else pa.array([], kind)


def _join_masks(pieces: list[dict[str, Bools]], lengths: list[int]) -> dict[str, Bools]:
    names = {name: None for piece in pieces for name, mask in piece.items() if mask.any()}
    return {
        name: np.concatenate([piece.get(name, np.zeros(n, np.bool_)) for piece, n in zip(pieces, lengths, strict=True)])
        for name in names
    }


@dataclass(frozen=True, slots=True)
class KeyOutcome:
    """What becomes of the keys of a history; indexes are indexes of changes unless said otherwise.

    Attributes:
        written: Ascending: the change that writes the final row, one for each key that is there in the end.
        written_fresh: For each of them, whether the key was certainly not there before the history.
        removed_by: Ascending by time: the change that took a key away for good.
        removed_key: For each of them, where its key stands in `keys`.
        removed_fresh: For each of them, whether the key was certainly not there before the history.
        moved: Indexes of UPDATEs that changed the key.
        key: Code of the key each change writes at, or deletes.
        old_key: Code of the key before the change; for an INSERT and where the key did not change the same as `key`.
        keys: Key columns: those of every change, then those of `History.with_old`.
    """

    written: Int64s
    written_fresh: Bools
    removed_by: Int64s
    removed_key: Int64s
    removed_fresh: Bools
    moved: Int64s
    key: Int64s
    old_key: Int64s
    keys: list[pa.Array]


def decide_keys(history: History) -> KeyOutcome:
    """Which change decides each key of `history`."""
    size = len(history)
    keys = [pa.concat_arrays([a, b]) for a, b in zip(history.key, history.old_key, strict=True)]
    codes, count = encode_rows(keys) if size else (np.empty(0, np.int64), 0)
    key, told = codes[:size], codes[size:]
    moves = told != key[history.with_old]
    moved, left = history.with_old[moves], told[moves]
    old_key = key.copy()
    old_key[moved] = left

    first, last = _first_and_last(key, moved, left, count)
    arrives = history.op == DMLOperation.INSERT
    arrives[moved] = True
    fresh = (first % 2 == 1) & arrives[first // 2]

    gone = (last % 2 == 0) | (history.op[last // 2] == _DELETE)
    written, written_key = _by_time(last, ~gone)
    removed, removed_key = _by_time(last, gone)
    place = removed // 2
    taken = removed % 2 == 0  # by a move: the key stands among the old keys
    place[taken] = size + np.searchsorted(history.with_old, place[taken])
    return KeyOutcome(
        written // 2, fresh[written_key], removed // 2, place, fresh[removed_key], moved, key, old_key, keys
    )


def _first_and_last(key: Int64s, moved: Int64s, left: Int64s, count: int) -> tuple[Int64s, Int64s]:
    """Time of the first and of the last record at each key."""
    times = np.arange(len(key), dtype=np.int64) * 2 + 1
    last = np.full(count, -1, np.int64)
    first = np.full(count, 2 * len(key) + 2, np.int64)
    last[key] = times  # of equal indexes numpy keeps the last assignment
    first[key[::-1]] = times[::-1]
    np.maximum.at(last, left, moved * 2)
    np.minimum.at(first, left, moved * 2)
    return first, last


def _by_time(last: Int64s, chosen: Bools) -> tuple[Int64s, Int64s]:
    """The chosen keys' last times in ascending order, and the keys in that order."""
    key = np.flatnonzero(chosen)
    key = key[np.argsort(last[key], kind="stable")]
    return last[key], key
