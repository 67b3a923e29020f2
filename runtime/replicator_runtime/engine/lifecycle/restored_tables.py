"""Finds tables whose rows at the target and whose state are of different times, since one of the two was restored.

Such a table is copied again: no replay makes it whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

if TYPE_CHECKING:
    from replicator_runtime.engine.run_state.run import Run
    from replicator_runtime.engine.tables.last_positions import LastPositions
    from replicator_runtime.engine.tables.table_store import TableRecord
    from replicator_sdk import TableProgress

log = structlog.get_logger()
_OLDER_COPY, _OLDER_STATE = "RPL-4110", "RPL-4117"


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
    """Whether the state is older than the target's table, and may lack rows that were put aside since; the log says so.

    The table's last commit is then of a run that `KnownRuns` does not have.

    Raises:
        SnapshotNeededError: As `DeadLetters.may_have`.
        ReplicatorError: As the state's store fails.
    """
    if progress.generation != run.generation or run.known_runs.has(progress.epoch, record.copy_id):
        return False
    if not run.letters.may_have(record.copy_id):
        return False
    log.warning(
        "the state is older than the target's table (was a backup restored?), and may lack rows that were put aside: it is copied again",
        table=str(record.table),
        code=_OLDER_STATE,
        found=str(progress.position),
    )
    return True
