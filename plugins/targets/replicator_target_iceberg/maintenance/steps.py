"""Which tasks of maintenance there are, and one step of one of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from replicator_sdk.context import DeltaTargetContext
from replicator_sdk.discovery.maintenance import MaintenanceReport, MaintenanceTask
from replicator_sdk.schema import TableId
from replicator_target_iceberg.config import IcebergConfig
from replicator_target_iceberg.jvm import Catalog
from replicator_target_iceberg.maintenance.compaction import compact
from replicator_target_iceberg.maintenance.expiry import expire
from replicator_target_iceberg.maintenance.following import say_again
from replicator_target_iceberg.maintenance.orphans import remove_orphans
from replicator_target_iceberg.table import TargetTable

COMPACT: Final = "compact"
EXPIRE: Final = "expire"
ORPHANS: Final = "orphans"


def tasks(config: IcebergConfig) -> Sequence[MaintenanceTask]:
    """The tasks that the settings ask for; each holds the applies of its table, which it would make fail."""
    intervals = {
        COMPACT: config.compact_interval_seconds,
        EXPIRE: config.expire_interval_seconds,
        ORPHANS: config.orphan_interval_seconds,
    }
    return tuple(MaintenanceTask(name, seconds) for name, seconds in intervals.items() if seconds > 0)


def maintain(config: IcebergConfig, context: DeltaTargetContext, task: str, table: TableId) -> MaintenanceReport:
    """Do one step of `task` for `table`; fenced like an apply. A table that is not there needs none.

    Raises:
        FencedError: When a newer run has written the table.
    """
    spark = context.spark()
    catalog = Catalog(spark, config)
    try:
        target = TargetTable(table, config, context, catalog)
        attempt = target.begin()
        if attempt.progress is None:
            return MaintenanceReport()
        if attempt.there.later:
            attempt = say_again(target, attempt, attempt.progress)
        if task == COMPACT:
            return compact(target, attempt, config)
        if task == EXPIRE:
            return expire(target, attempt, config, catalog)
        return remove_orphans(target, attempt, config, catalog, spark)
    finally:
        catalog.close()
