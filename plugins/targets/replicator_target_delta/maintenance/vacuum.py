"""Deletes files that no version within the retention refers to, without a Spark job and without a commit.

Spark's VACUUM does the same in jobs of several seconds for the smallest table, writes two commits about it, and cannot be
stopped. It is still used for a log that `removed_names` does not read, and for tables with a change data feed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

from replicator_sdk.discovery.maintenance import MaintenanceReport
from replicator_sdk.failpoint import failpoint, register
from replicator_target_delta.files.storage import StoredFile
from replicator_target_delta.log.removed_names import names_of
from replicator_target_delta.log.table_state import State
from replicator_target_delta.log.transaction_log import translated
from replicator_target_delta.table import TargetTable
from replicator_target_delta.versions.version_columns import Aside

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

register("delta.vacuum.listed", "delta.vacuum.deleted")
_RETENTION_CHECK: Final = "spark.databricks.delta.retentionDurationCheck.enabled"
_CHANGE_FEED: Final = "delta.enableChangeDataFeed"
_STEP_SECONDS: Final = 5.0
_AT_ONCE: Final = 8


def vacuum(
    table: TargetTable, spark: SparkSession, retention_hours: int, is_stopping: Callable[[], bool]
) -> MaintenanceReport:
    """Delete what may be deleted, for some seconds.

    A file stays while the table's newest version has it, while it was removed less than `retention_hours` ago, and while
    it is younger than that: the commit that names it may be under way. Where the table's own
    `delta.deletedFileRetentionDuration` is longer, that counts.
    """
    state = table.begin().state
    retention_hours = max(retention_hours, table.log.own_retention_hours())
    since = time.time() - 3600 * retention_hours
    removed = table.log.removed_names(round(since * 1000))
    if removed is None or state.metadata["configuration"].get(_CHANGE_FEED, "").lower() == "true":
        if Aside.of(state) is not None:  # Spark does not know the files of a copy that is not finished
            return MaintenanceReport()
        _vacuum_by_spark(spark, table.log.path, retention_hours)
        return MaintenanceReport()
    files = list(table.log.storage.data_files())
    kept = removed | live_names(state)
    old = [file for file in files if file.modified_at < since and file.name not in kept]
    failpoint("delta.vacuum.listed")
    deleted = _delete(table, old, is_stopping)
    failpoint("delta.vacuum.deleted")
    size = sum(file.size for file in files)
    left = size - sum(file.size for file in deleted)
    return MaintenanceReport(len(deleted) == len(old), len(files), len(files) - len(deleted), size, left)


def live_names(state: State) -> set[str]:
    """The names, without folders, of the data files and deletion vectors of a version, and of the files of a copy that is not finished."""
    own = {name for file in state.files for name in names_of(file.path, file.vector)}
    aside = Aside.of(state)
    return own if aside is None else own.union(*(names_of(add["path"], None) for add in aside.files))


def _delete(table: TargetTable, files: Collection[StoredFile], is_stopping: Callable[[], bool]) -> list[StoredFile]:
    """Delete files until some seconds have passed or the run is to stop; returns those that are gone."""
    until = time.monotonic() + _STEP_SECONDS

    def delete(file: StoredFile) -> Iterator[StoredFile]:
        if time.monotonic() < until and not is_stopping():
            table.log.storage.delete(file)
            yield file

    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="vacuum") as pool:
        return [file for gone in pool.map(lambda file: list(delete(file)), files) for file in gone]


def _vacuum_by_spark(spark: SparkSession, path: str, hours: int) -> None:
    checked = spark.conf.get(_RETENTION_CHECK, "true")
    try:
        if hours < 168:  # Delta refuses less than a week unless this check is off
            spark.conf.set(_RETENTION_CHECK, "false")
        quoted = path.replace("`", "``")
        with translated(path):
            spark.sql(f"VACUUM delta.`{quoted}` RETAIN {hours} HOURS").collect()
    finally:
        spark.conf.set(_RETENTION_CHECK, str(checked))
