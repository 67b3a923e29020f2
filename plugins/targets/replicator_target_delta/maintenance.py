"""Keeps tables fast to read and to apply to: small files put together, deletion vectors worked in, old files deleted.

Neither touches the progress in the log, and a table that others compact as well stays right: an apply that meets a
compaction fails and is repeated.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import structlog

from replicator_sdk.context import DeltaTargetContext
from replicator_sdk.schema import TableId
from replicator_target_delta.config import GONE_SHARE, SMALL_BYTES, DeltaConfig
from replicator_target_delta.files import DataFile
from replicator_target_delta.log import translated
from replicator_target_delta.table import TargetTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = structlog.get_logger(__name__)
_MANY_SMALL_FILES: Final = 8
_MANY_COMMITS: Final = 20
_RETENTION_CHECK: Final = "spark.databricks.delta.retentionDurationCheck.enabled"


class Maintenance:
    """Compaction, vacuum and checkpoints of tables; called by one thread, never beside an apply."""

    def __init__(self, config: DeltaConfig) -> None:
        self._config = config
        self._optimized: dict[TableId, float] = {}
        self._vacuumed: dict[TableId, float] = {}

    def run(self, context: DeltaTargetContext, tables: Sequence[TableId]) -> None:
        """Do what is due for `tables`; fenced like an apply."""
        spark = context.spark()
        for table in tables:
            target = TargetTable(table, self._config, context, spark)
            attempt = target.begin()
            if attempt.progress is None:
                continue
            path = target.log.path
            if self._due(self._optimized, table, self._config.optimize_interval_seconds) and worth_optimizing(
                list(attempt.state.files.values())
            ):
                self._statement(spark, path, "OPTIMIZE {}")
            if self._due(self._vacuumed, table, self._config.vacuum_interval_seconds):
                self._vacuum(spark, path)
            target.log.checkpoint(_MANY_COMMITS)
            target.begin()  # reads the new version now, so that the next apply finds it in the JVM

    def _due(self, last: dict[TableId, float], table: TableId, interval: float) -> bool:
        """Whether `interval` has passed; a table is first due one interval after it is first seen, but compacted at once."""
        now = time.monotonic()
        if interval <= 0:
            return False
        if table not in last:
            last[table] = now
            return last is self._optimized
        if now - last[table] < interval:
            return False
        last[table] = now
        return True

    def _vacuum(self, spark: SparkSession, path: str) -> None:
        hours = self._config.vacuum_retention_hours
        checked = spark.conf.get(_RETENTION_CHECK, "true")
        try:
            if hours < 168:  # Delta refuses less than a week, unless told that this is meant
                spark.conf.set(_RETENTION_CHECK, "false")
            self._statement(spark, path, "VACUUM {} RETAIN " + str(hours) + " HOURS")
        finally:
            spark.conf.set(_RETENTION_CHECK, str(checked))

    def _statement(self, spark: SparkSession, path: str, statement: str) -> None:
        started = time.monotonic()
        quoted = f"delta.`{path.replace('`', '``')}`"
        with translated(path):
            spark.sql(statement.format(quoted)).collect()
        log.info(
            "delta.maintained",
            path=path,
            what=statement.split(maxsplit=1)[0],
            seconds=round(time.monotonic() - started, 1),
        )


def worth_optimizing(files: list[DataFile]) -> bool:
    """Whether there are many small files, or files whose rows are largely gone."""
    small = sum(1 for f in files if int(f.add["size"]) < SMALL_BYTES)
    holed = any(f.deleted > GONE_SHARE * f.rows for f in files if f.rows > 0)
    return small >= _MANY_SMALL_FILES or holed
