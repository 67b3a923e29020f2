"""Makes the JVM load and compile what a commit needs, before the first batch waits for it."""

from __future__ import annotations

import tempfile
import threading
import weakref
from typing import TYPE_CHECKING, Final

import structlog

from replicator_sdk.datatype import INT64
from replicator_sdk.schema import Column, TableId, TableSchema
from replicator_target_delta.jvm_classes import JvmClasses
from replicator_target_delta.log.transaction_log import TableLog
from replicator_target_delta.schema.table_definition import TableDefinition
from replicator_target_delta.schema.table_form import TableForm

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = structlog.get_logger(__name__)
_QUIET_SECONDS: Final = 5.0
_warm: Final[weakref.WeakSet[JvmClasses]] = weakref.WeakSet()


class WarmUp:
    """Commits to a throw-away table once the target has had nothing to do for some seconds, once for each virtual machine.

    A run that has work at once warms up by its work, and would only share its cores with this.

    Args:
        spark: The session whose virtual machine is meant.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._timer = threading.Timer(_QUIET_SECONDS, _commit_once, (spark,))
        self._timer.name, self._timer.daemon = "delta-warm-up", True

    def start(self) -> None:
        """Begin to wait; returns at once."""
        self._timer.start()

    def cancel(self) -> None:
        """There is work, or the run ends. Returns at once; what has begun goes on. May be called again and again."""
        self._timer.cancel()


def _commit_once(spark: SparkSession) -> None:
    try:
        classes = JvmClasses.of(spark)
        if classes in _warm:
            return
        _warm.add(classes)
        with tempfile.TemporaryDirectory(prefix="replicator-warm-up-") as folder:
            table = TableLog(spark, folder)
            schema = TableSchema(TableId("warm", "up"), (Column("id", INT64),), ("id",))
            definition = TableDefinition.create(schema, TableForm())
            table.begin().commit({}, writer="warm-up", metadata=definition.to_metadata())
            for _ in range(2):
                table.begin().commit({}, writer="warm-up")
    except Exception as error:  # noqa: BLE001 - only speed is at stake; a real fault shows in the first batch
        log.debug("delta.warm_up.failed", error=type(error).__name__)
