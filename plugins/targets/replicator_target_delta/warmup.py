"""Makes the JVM load and compile what a commit needs, before the first batch waits for it."""

from __future__ import annotations

import tempfile
import threading
from typing import TYPE_CHECKING

import structlog

from replicator_sdk.datatype import INT64
from replicator_sdk.schema import Column, TableId, TableSchema
from replicator_target_delta.definition import TableDefinition
from replicator_target_delta.log import TableLog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = structlog.get_logger(__name__)
_warmed = threading.Event()


def warm_up(spark: SparkSession) -> None:
    """Commit to a throw-away table in another thread, once a process; returns at once."""
    if not _warmed.is_set():
        _warmed.set()
        threading.Thread(target=_commit_once, args=(spark,), name="delta-warm-up", daemon=True).start()


def _commit_once(spark: SparkSession) -> None:
    try:
        with tempfile.TemporaryDirectory(prefix="replicator-warm-up-") as folder:
            table = TableLog(spark, folder)
            schema = TableSchema(TableId("warm", "up"), (Column("id", INT64),), ("id",))
            definition = TableDefinition.create(schema, {})
            table.begin().commit({}, writer="warm-up", metadata=definition.to_metadata())
            for _ in range(2):
                table.begin().commit({}, writer="warm-up")
    except Exception as error:  # noqa: BLE001 - only speed is at stake; a real fault shows in the first batch
        log.debug("delta.warm_up.failed", error=type(error).__name__)
