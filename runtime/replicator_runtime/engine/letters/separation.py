"""Separates changes of rows that are put aside from those that the target gets, and keeps account of the rows put aside.

What holds before and after: the target has the rows of the source but for those with a letter. So a change that is put aside
is a DELETE for the target. A later change with the whole row makes the row whole again, and its letter is gone; one that does
not carry all columns, of a row that the target does not have, is put aside too; a DELETE ends the letter.

Rows are looked at one by one only where a value is refused or their key has a letter.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from replicator_runtime.dead_letter import Key, Letter, Letters, key_texts, row_text
from replicator_sdk import ChangeBatch, DMLOperation, TableChanges
from replicator_sdk.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

_LEFT_OUT, _DELETED, _INSERTED = 1, 2, 3
_INSERT, _UPDATE, _DELETE = map(int, (DMLOperation.INSERT, DMLOperation.UPDATE, DMLOperation.DELETE))


@dataclass(slots=True)
class Separated:
    """The outcome.

    Attributes:
        changes: What the target gets; never empty.
        letters: All that are open afterwards.
        put_aside: How many changes were put aside.
    """

    changes: TableChanges
    letters: Letters
    put_aside: int


@dataclass(slots=True)
class _Actions:
    """What happens to single changes, by batch and row; the others are passed on as they are."""

    of_batches: dict[int, dict[int, int]] = field(default_factory=dict)
    rows: int = 0
    left_out: int = 0
    put_aside: int = 0

    def note(self, batch: int, row: int, action: int) -> None:
        """Note what happens to a change."""
        self.of_batches.setdefault(batch, {})[row] = action
        self.left_out += action == _LEFT_OUT

    def keep_one(self) -> bool:
        """Let the target have one change at least, since its position advances by a batch; returns whether none was left.

        The one is a DELETE of a row that is not there.
        """
        if self.rows and self.left_out == self.rows:
            batch, actions = next(iter(self.of_batches.items()))
            actions[min(actions)] = _DELETED
            self.of_batches[batch], self.left_out = actions, self.left_out - 1
            return True
        return False


def separate(changes: TableChanges, letters: Letters, kept: frozenset[str] = frozenset()) -> Separated:
    """Put refused rows aside, and those that need a row that was put aside.

    Args:
        changes: With what is refused (`ChangeBatch.refused`), of a table with a key.
        letters: Those open before; not changed.
        kept: Columns that the target has kept and the source has dropped: what updates do not say of them is not missing.

    Raises:
        DataError: When a value is refused and the table has no key to know the row by.
    """
    open_letters, actions = dict(letters), _Actions()
    for number, batch in enumerate(changes.batches()):
        actions.rows += len(batch)
        _look_at(changes, number, batch, open_letters, actions, kept)
    nothing_left = actions.keep_one()
    rewritten = _rewritten(changes, actions)
    rewritten.overlap |= nothing_left  # so that a DELETE of no row is no error
    return Separated(rewritten, open_letters, actions.put_aside)


def refusal_error(changes: TableChanges, batch: ChangeBatch, column: str) -> DataError:
    """The error that stops the table for what is refused of a column."""
    refusal = batch.refused[column]
    return DataError(
        refusal.what,
        code=refusal.code,
        table=str(changes.table),
        position=str(changes.identity.position),
        hint="fix the rows at the source; `onDataError` does not apply to rows without a key (`lane`), nor to columns that cannot"
        " be NULL (`null`)",
    )


def _look_at(
    changes: TableChanges,
    number: int,
    batch: ChangeBatch,
    letters: Letters,
    actions: _Actions,
    kept: frozenset[str],
) -> None:
    key = batch.schema.primary_key
    if batch.refused and not key:
        raise refusal_error(changes, batch, next(iter(batch.refused)))
    op = batch.op.to_numpy(zero_copy_only=False)
    bad = np.zeros(len(batch), np.bool_)
    for refusal in batch.refused.values():
        bad |= refusal.mask.to_numpy(zero_copy_only=False)
    bad &= op != _DELETE
    if not letters and not bad.any():
        return
    own, old = _keys(batch)
    index = np.flatnonzero(bad | _concerned(own, old, letters, bad))
    if not len(index):
        return
    chosen = pa.array(index)
    own_keys, old_keys = (list(zip(*(c.take(chosen).to_pylist() for c in keys), strict=True)) for keys in (own, old))
    rows = batch.row.take(chosen).to_pylist()
    lacks = {name: mask.to_numpy(zero_copy_only=False) for name, mask in batch.unchanged.items() if name not in kept}
    for place, (row, own_key, old_key) in enumerate(zip(index.tolist(), own_keys, old_keys, strict=True)):
        if op[row] == _DELETE:
            if letters.pop(own_key, None) is not None and not changes.overlap:
                actions.note(number, row, _LEFT_OUT)
            continue
        missing = tuple(name for name, mask in lacks.items() if mask[row])
        if bad[row] or (missing and old_key in letters):
            _put_aside(changes, number, batch, (row, own_key, old_key), letters, actions, missing, rows[place])
            continue
        was_aside = letters.pop(old_key, None) is not None
        letters.pop(own_key, None)
        if was_aside and op[row] == _UPDATE and (kept or not changes.overlap):
            actions.note(number, row, _INSERTED)


def _put_aside(
    changes: TableChanges,
    number: int,
    batch: ChangeBatch,
    where: tuple[int, Key, Key],
    letters: Letters,
    actions: _Actions,
    missing: tuple[str, ...],
    row: dict[str, object],
) -> None:
    """Open the letter of a row, or replace it, and take the row of its old key from the target.

    In an overlap a copy may have read the row at its new key. Then the log has what made it whole there, after this change.
    """
    index, own_key, old_key = where
    before = letters.pop(old_key, None)
    replaced = letters.pop(own_key, None)
    columns, code, reason = _why(batch, index, missing, before)
    letters[own_key] = Letter(
        key=own_key,
        operation=DMLOperation(int(batch.op[index].as_py())).name,
        columns=columns,
        code=code,
        reason=reason,
        position=str(changes.identity.position),
        sequence=0 if batch.sequence_numbers is None else int(batch.sequence_numbers[index]),
        timestamp=-1 if batch.timestamps is None else int(batch.timestamps[index]),
        changes=1 + max((letter.changes for letter in (before, replaced) if letter is not None), default=0),
        row=row_text({name: value for name, value in row.items() if name not in missing}),
    )
    actions.put_aside += 1
    is_there = changes.overlap or not (before is not None or batch.op[index].as_py() == _INSERT)
    actions.note(number, index, _DELETED if is_there else _LEFT_OUT)


def _why(
    batch: ChangeBatch, index: int, missing: tuple[str, ...], before: Letter | None
) -> tuple[tuple[str, ...], str, str]:
    """Columns, code and reason of a change that is put aside."""
    refused = tuple(name for name, refusal in batch.refused.items() if refusal.mask[index].as_py())
    if refused:
        return refused, batch.refused[refused[0]].code, batch.refused[refused[0]].what
    assert before is not None, "else the change would not be put aside"
    if still := tuple(name for name in before.columns if name in missing):
        return still, before.code, before.reason
    return missing, before.code, "an update does not carry these columns, and its row was put aside before"


def _keys(batch: ChangeBatch) -> tuple[list[pa.Array], list[pa.Array]]:
    """The texts of each change's key, and of the key that the row had before it."""
    names = batch.schema.primary_key
    row = [batch.row.field(name) for name in names]
    if batch.before is None:
        texts = key_texts(row)
        return texts, texts
    before = [batch.before.field(name) for name in names]
    is_delete, has_old = pc.equal(batch.op, _DELETE), pc.is_valid(batch.before)
    own = [pc.if_else(is_delete, b, r) for b, r in zip(before, row, strict=True)]
    old = [pc.if_else(has_old, b, r) for b, r in zip(before, own, strict=True)]
    return key_texts(own), key_texts(old)


def _concerned(
    own: list[pa.Array], old: list[pa.Array], letters: Letters, bad: npt.NDArray[np.bool_]
) -> npt.NDArray[np.bool_]:
    """Which changes may be of a key that has a letter, or gets one in this batch, also by moving to another key."""
    wanted = {key[0] for key in letters} | set(own[0].take(pa.array(np.flatnonzero(bad))).to_pylist())
    while True:
        keys = pa.array(wanted, pa.string())
        found = pc.is_in(own[0], keys)
        if old is own:
            break
        found = pc.or_(found, pc.is_in(old[0], keys))
        moved = set(own[0].filter(found).to_pylist()) - wanted
        if not moved:
            break
        wanted |= moved
    return np.asarray(found.to_numpy(zero_copy_only=False), np.bool_)


# --- what the target gets


def _rewritten(changes: TableChanges, actions: _Actions) -> TableChanges:
    if not actions.of_batches:
        return changes

    def batches() -> Iterator[ChangeBatch]:
        for number, batch in enumerate(changes.batches()):
            found = actions.of_batches.get(number)
            kept = batch if found is None else _without(batch, found)
            if len(kept):
                yield kept

    noted = {action for found in actions.of_batches.values() for action in found.values()}
    inserts_only = changes.inserts_only and _DELETED not in noted
    return changes.with_batches(batches, rows=actions.rows - actions.left_out, inserts_only=inserts_only)


def _without(batch: ChangeBatch, actions: dict[int, int]) -> ChangeBatch:
    """The batch with what happens to single changes of it."""
    action = np.zeros(len(batch), np.int8)
    action[list(actions)] = list(actions.values())
    deleted, inserted = action == _DELETED, action == _INSERTED
    op = batch.op.to_numpy(zero_copy_only=False).copy()
    turned = deleted & (op != _DELETE)
    op[deleted], op[inserted] = _DELETE, _INSERT
    keep = pa.array(action != _LEFT_OUT)
    before = _before(batch, turned, inserted)
    lacking = {n: pc.and_not(mask, pa.array(deleted | inserted)).filter(keep) for n, mask in batch.unchanged.items()}
    kept = keep.to_numpy(zero_copy_only=False)
    return replace(
        batch,
        op=pa.array(op, pa.int8()).filter(keep),
        row=batch.row.filter(keep),
        before=None if before is None else before.filter(keep),
        ordinals=batch.ordinals[kept],
        unchanged={name: mask for name, mask in lacking.items() if mask.true_count},
        before_is_full=batch.before_is_full and not turned.any(),
        sequence_numbers=None if batch.sequence_numbers is None else batch.sequence_numbers[kept],
        timestamps=None if batch.timestamps is None else batch.timestamps[kept],
        refused={},
    )


def _before(
    batch: ChangeBatch, turned: npt.NDArray[np.bool_], inserted: npt.NDArray[np.bool_]
) -> pa.StructArray | None:
    """The images before: a change that became a DELETE has its old key, one that became an INSERT none."""
    if batch.before is None and not turned.any():
        return None
    rows = len(batch)
    has = np.zeros(rows, np.bool_) if batch.before is None else pc.is_valid(batch.before).to_numpy(zero_copy_only=False)
    from_row = pa.array(turned & ~has)
    columns = []
    for column in batch.schema.columns:
        old = pa.nulls(rows, column.type.arrow) if batch.before is None else batch.before.field(column.name)
        is_key = column.name in batch.schema.primary_key
        columns.append(pc.if_else(from_row, batch.row.field(column.name), old) if is_key else old)
    absent = pa.array(~(has | turned) | inserted)
    return pa.StructArray.from_arrays(columns, fields=list(batch.schema.struct), mask=absent)
