"""Checks whether a table's copy is meant to be equal to the source's table at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from replicator_runtime.engine.letters.letter_file import open_letters
from replicator_runtime.engine.tables.table_state import TableState
from replicator_sdk.errors import NeedsUserError

if TYPE_CHECKING:
    from replicator_runtime.engine.tables.table_store import TableRecord
    from replicator_runtime.engine.verification.reading import Reading
    from replicator_sdk import TableId
    from replicator_state import LaneFolder


def check_same(reading: Reading, record: TableRecord, left_out: frozenset[str]) -> None:
    """Check that the table is the copy that `record` names, and is comparable now.

    A table that passes has every change up to the offset that is saved now: one that is paused, or is resumed and has not joined
    yet, may have fewer, and does not pass.

    Args:
        reading: The replicator.
        record: The table as it was when the comparison began.
        left_out: The operations that the pipeline leaves out of it.

    Raises:
        NeedsUserError: As `check_comparable`, or RPL-1365 when it is another copy now, or is being rewound.
    """
    now = reading.records().get(record.table)
    if now is None or now.copy_id != record.copy_id:
        raise not_comparable(record.table, "was copied again, or is gone, since the comparison began")
    check_comparable(now, left_out)
    if reading.is_rewinding():
        raise not_comparable(record.table, "is being rewound")


def check_comparable(record: TableRecord, left_out: frozenset[str]) -> None:
    """Check that a table's copy is meant to be equal.

    Raises:
        NeedsUserError: RPL-1364 for one that the pipeline keeps different; RPL-1365 for one that is not replicated now.
    """
    if "UPDATE" in left_out:
        raise NeedsUserError(
            "the pipeline leaves updates out, so the copy differs on purpose",
            code="RPL-1364",
            hint="name the other tables; or take UPDATE off the `dmlBlacklist` and copy the table again: `replicator table resync NAME TABLE`",
            table=str(record.table),
        )
    if record.snapshot is not None and record.snapshot.where:
        raise NeedsUserError(
            'the table\'s copy has not all rows (`where`, or `snapshot.mode` "never"), so it differs on purpose',
            code="RPL-1364",
            hint='name the other tables; or take `where` off its entry in `tables`, `snapshot.mode` "never" off the pipeline, and copy the table'
            " again, with all rows: `replicator table resync NAME TABLE`",
            table=str(record.table),
        )
    if record.kept_columns:
        kept = ", ".join(column.name for column in record.kept_columns)
        raise NeedsUserError(
            f"the target has kept what the source has dropped ({kept}), so the copy differs on purpose",
            code="RPL-1364",
            hint="name the other tables; or copy the table again as the source has it, without these columns:"
            " `replicator table resync NAME TABLE`",
            table=str(record.table),
        )
    if record.needs_snapshot or record.wants_copy or record.released:
        raise not_comparable(record.table, "is still to be copied")
    if record.fails_in_lane:
        raise not_comparable(record.table, "fails, and its changes are in its lane")
    if record.pause is not None:
        raise not_comparable(record.table, "is paused, or is resumed and has not all changes yet")
    if record.state is not TableState.REPLICATING:
        raise not_comparable(record.table, f"is {record.state}")


def not_comparable(table: TableId, why: str) -> NeedsUserError:
    """The error for a table that cannot be compared now."""
    return NeedsUserError(
        f"the table {why}: there is nothing to compare",
        code="RPL-1365",
        hint="`replicator status` shows its state; give the command again when it is REPLICATING",
        table=str(table),
    )


def refuse_letters(folder: LaneFolder, record: TableRecord) -> None:
    """Refuse a table of which rows are put aside.

    Args:
        folder: The files of letters.
        record: The table, under whatever name its letters were written.

    Raises:
        NeedsUserError: RPL-1288; the copy lacks them on purpose, and a repair must not write a row that has a dead letter.
    """
    rows = len(open_letters(folder, record.copy_id))
    if rows:
        raise NeedsUserError(
            f"{rows} rows of the table are put aside, so the copy differs on purpose",
            code="RPL-1288",
            hint="`replicator dead-letters list NAME` lists them, `replicator dead-letters replay NAME TABLE` reads them again;"
            " `replicator explain-row` compares single rows",
            table=str(record.table),
        )
