"""Keeps tables fast to read and to apply to: small files put together, deletion vectors worked in, old files deleted.

Neither changes the progress in the log, and a table that another program also compacts stays correct: an apply that meets
such a compaction fails and is repeated.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import structlog

from replicator_sdk.context import DeltaTargetContext
from replicator_sdk.errors import FencedError, ReplicatorError
from replicator_sdk.schema import TableId
from replicator_target_delta.config import DeltaConfig
from replicator_target_delta.log.transaction_log import translated
from replicator_target_delta.maintenance.compaction import compact
from replicator_target_delta.table import TargetTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = structlog.get_logger(__name__)
_MANY_COMMITS: Final = 20
_RETENTION_CHECK: Final = "spark.databricks.delta.retentionDurationCheck.enabled"


class Maintenance:
    """Compaction, vacuum and checkpoints of tables; called by one thread, never beside an apply."""

    def __init__(self, config: DeltaConfig) -> None:
        self._config = config
        self._optimized: dict[TableId, float] = {}
        self._vacuumed: dict[TableId, float] = {}

    def run(self, context: DeltaTargetContext, tables: Sequence[TableId]) -> None:
        """Do what is due for `tables`; fenced like an apply.

        A table that fails is logged and left to the next time; the others are maintained nevertheless.

        Raises:
            FencedError: When a newer run has written a table.
        """
        spark = context.spark()
        for table in tables:
            try:
                self._maintain(table, context, spark)
            except FencedError:
                raise
            except Exception as error:  # noqa: BLE001 - maintenance changes no rows, and one table must not stop the others
                text = str(error) if isinstance(error, ReplicatorError) else type(error).__name__
                log.warning("delta.maintenance_failed", table=str(table), error=text)

    def _maintain(self, table: TableId, context: DeltaTargetContext, spark: SparkSession) -> None:
        target = TargetTable(table, self._config, context, spark)
        if target.begin().progress is None:
            return
        if self._is_due(self._optimized, table, self._config.optimize_interval_seconds, at_once=True):
            self._compact(target, spark)
            self._optimized[table] = time.monotonic()
        if self._is_due(self._vacuumed, table, self._config.vacuum_interval_seconds, at_once=False):
            self._vacuum(spark, target.log.path)
            self._vacuumed[table] = time.monotonic()
        if target.log.checkpoint(_MANY_COMMITS) and self._config.vacuum_interval_seconds > 0:
            target.log.clean_up(self._config.vacuum_retention_hours)

    def _is_due(self, last: dict[TableId, float], table: TableId, interval: float, *, at_once: bool) -> bool:
        """Whether `interval` has passed since it was done; a table that is new here is due at once, or one interval later."""
        if interval <= 0 or (table not in last and at_once):
            return interval > 0
        return time.monotonic() - last.setdefault(table, time.monotonic()) >= interval

    def _compact(self, target: TargetTable, spark: SparkSession) -> None:
        started = time.monotonic()
        if count := compact(target, spark):
            seconds = round(time.monotonic() - started, 1)
            log.info("delta.compacted", table=str(target.table), files=count, seconds=seconds)

    def _vacuum(self, spark: SparkSession, path: str) -> None:
        hours = self._config.vacuum_retention_hours
        checked = spark.conf.get(_RETENTION_CHECK, "true")
        try:
            if hours < 168:  # Delta refuses less than a week unless this check is off
                spark.conf.set(_RETENTION_CHECK, "false")
            quoted = path.replace("`", "``")
            with translated(path):
                spark.sql(f"VACUUM delta.`{quoted}` RETAIN {hours} HOURS").collect()
        finally:
            spark.conf.set(_RETENTION_CHECK, str(checked))
