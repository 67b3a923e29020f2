"""Finds tables whose rows at the target and whose state are of different times, since one of the two was restored.

Such a table is copied again: no replay makes it whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from replicator_runtime.engine.lifecycle.log_release import keeps_deleted_rows

if TYPE_CHECKING:
    from replicator_runtime.engine.run_state.run import Run
    from replicator_runtime.engine.tables.last_positions import LastPositions
    from replicator_runtime.engine.tables.table_store import TableRecord
    from replicator_sdk import TableProgress

log = structlog.get_logger()
_OLDER_COPY, _OLDER_STATE, _KEPT_ROWS = "RPL-4110", "RPL-4117", "RPL-4118"


def is_older_copy(run: Run, positions: LastPositions, record: TableRecord, progress: TableProgress) -> bool:
    """Whether the target's table went back to an older time than the state's; the log says so.

    Otherwise its position counts from now on, as `LastPositions.is_older_copy` says.
    """
    saved, found = run.saved_offset, progress.position
    if progress.replaced or positions.is_older_copy(record.table, record.copy_id, found, saved):
        log.warning(
            "the target's table is an older copy (was a backup restored?): it is copied again",
            table=str(record.table),
            code=_OLDER_COPY,
            found=str(found),
        )
        return True
    return False


def may_lack_letters(run: Run, record: TableRecord, progress: TableProgress) -> bool:
    """Whether the state is older than the target's table, which is to be copied again since it may lack rows put aside; the log says so.

    The table's last commit is then of a run that `KnownRuns` does not have. Where a copy would remove what is kept on purpose the table
    stays, and the log says what may be missing.

    Raises:
        SnapshotNeededError: As `DeadLetters.may_have`.
        ReplicatorError: As the state's store fails.
    """
    if progress.generation != run.generation or run.known_runs.has(progress.epoch, record.copy_id):
        return False
    if not run.letters.may_have(record.copy_id):
        return False
    if record.kept_columns or keeps_deleted_rows(record):
        log.warning(
            "the state is older than the target's table (was a backup restored?), and may lack rows that were put aside; a copy would remove what the table keeps",
            table=str(record.table),
            code=_KEPT_ROWS,
            hint="where that is not needed, copy the table again: `replicator table resync NAME TABLE`",
        )
        return False
    log.warning(
        "the state is older than the target's table (was a backup restored?), and may lack rows that were put aside: it is copied again",
        table=str(record.table),
        code=_OLDER_STATE,
        found=str(progress.position),
    )
    return True
