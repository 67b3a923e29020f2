"""Keeps tables fast to read and to apply to: small files put together, deletion vectors worked in, old files deleted.

None of it changes the progress in the log, and a table that another program also compacts stays correct: an apply that meets
such a compaction fails and is repeated.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from replicator_sdk.context import DeltaTargetContext
from replicator_sdk.discovery.maintenance import AppliesHeld, MaintenanceReport, MaintenanceTask
from replicator_sdk.failpoint import failpoint, register
from replicator_sdk.schema import TableId
from replicator_target_delta.config import DeltaConfig
from replicator_target_delta.maintenance.compaction import compact
from replicator_target_delta.maintenance.vacuum import vacuum
from replicator_target_delta.table import TargetTable

register("delta.log.checkpointed")
COMPACT: Final = "compact"
VACUUM: Final = "vacuum"
LOG: Final = "log"
_MANY_COMMITS: Final = 20


def tasks(config: DeltaConfig) -> Sequence[MaintenanceTask]:
    """The tasks that the settings ask for; the log is looked after as often as the more frequent one of the others."""
    optimize, vacuum_seconds = config.optimize_interval_seconds, config.vacuum_interval_seconds
    log_seconds = min((seconds for seconds in (optimize, vacuum_seconds) if seconds > 0), default=0.0)
    intervals = {COMPACT: optimize, VACUUM: vacuum_seconds, LOG: log_seconds}
    # A checkpoint lists every file removed within the retention, so it takes longer the more commits a week has.
    holds = {LOG: AppliesHeld.NONE}
    return tuple(
        MaintenanceTask(name, seconds, holds.get(name, AppliesHeld.TABLE))
        for name, seconds in intervals.items()
        if seconds > 0
    )


def maintain(config: DeltaConfig, context: DeltaTargetContext, task: str, table: TableId) -> MaintenanceReport:
    """Do one step of `task` for `table`; fenced like an apply. A table that is not there needs none.

    Raises:
        FencedError: When a newer run has written the table.
    """
    spark = context.spark()
    target = TargetTable(table, config, context, spark)
    if task == LOG:
        if target.is_there():
            _shorten_log(config, target)
        return MaintenanceReport()
    if target.begin().progress is None:
        return MaintenanceReport()
    if task == COMPACT:
        return compact(target, spark)
    return vacuum(target, spark, config.vacuum_retention_hours, lambda: context.is_stopping)


def _shorten_log(config: DeltaConfig, target: TargetTable) -> None:
    """Write a checkpoint when there are many commits since the last, and delete commits that are old."""
    if target.log.checkpoint(_MANY_COMMITS) and config.vacuum_interval_seconds > 0:
        failpoint("delta.log.checkpointed")
        target.log.clean_up(config.vacuum_retention_hours)
