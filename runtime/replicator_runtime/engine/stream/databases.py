"""Has the target follow databases that the source creates and drops."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import structlog

from replicator_runtime.engine.run_state.error_policy import Verdict, verdict
from replicator_sdk import DDLEvent, DDLOperation, Position
from replicator_sdk.errors import ReplicatorError

if TYPE_CHECKING:
    from replicator_runtime.engine.apply.active_tables import ActiveTables
    from replicator_runtime.engine.apply.applier import Applier
    from replicator_runtime.engine.lifecycle.table_lifecycle import TableLifecycle

DATABASES = frozenset({DDLOperation.CREATE_DATABASE, DDLOperation.DROP_DATABASE})
log = structlog.get_logger()


class Databases:
    """Used by the engine's main thread.

    A database has no position of its own, so an event may come again at any replay. That does no harm: the target creates what
    does not exist, and drops only what holds no table.

    Args:
        lifecycle: Of all tables.
        applier: Knows the target.
        tables: The tables that take changes.
    """

    def __init__(self, lifecycle: TableLifecycle, applier: Applier, tables: ActiveTables) -> None:
        self._lifecycle = lifecycle
        self._applier = applier
        self._tables = tables

    def take(self, event: DDLEvent) -> None:
        """Take a CREATE_DATABASE or DROP_DATABASE; of one that is not selected nothing happens.

        Raises:
            Exception: When the target does not answer, or a newer run has taken over.
        """
        database = event.table.database
        left_out = self._lifecycle.run.pipeline.selection.left_out_of(database)
        if left_out is None or not self._applier.follows_databases:
            return
        if why := self._why_not(event, left_out):
            log.info("database.left", database=database, operation=str(event.operation), why=why)
            return
        position = Position(self._tables.batcher.offset, event.ordinal + 1)
        try:
            self._applier.apply_ddl(replace(event, position=position))
        except Exception as error:
            if verdict(_of_database(error, event), isolate=True) is not Verdict.TABLE:
                raise
            code = getattr(error, "code", "")
            log.warning("database.left", database=database, operation=str(event.operation), code=code, why=str(error))
            return
        self._lifecycle.run.metrics.count("ddl")
        log.info("ddl.applied", database=database, operation=str(event.operation), position=str(position))

    def _why_not(self, event: DDLEvent, left_out: frozenset[DDLOperation]) -> str:
        """Why the target is not to follow; empty when it is."""
        if event.operation in left_out:
            return f"{event.operation} is on the ddlBlacklist"
        known = (record.table for record in self._lifecycle.records.values())
        if event.operation is DDLOperation.DROP_DATABASE and any(t.database == event.table.database for t in known):
            return "it has tables that are replicated: they came after this, or are late and not dropped yet"
        return ""


def _of_database(error: Exception, event: DDLEvent) -> Exception:
    """The error, as one of the database alone."""
    if isinstance(error, ReplicatorError):
        error.table = error.table or str(event.table)
    return error
