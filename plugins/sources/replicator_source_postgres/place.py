"""Where the reader is in the log, and events that are emitted just there."""

from __future__ import annotations

import structlog

from replicator_sdk.batch import Commits, single_commit
from replicator_sdk.event import DDLEvent, DDLOperation
from replicator_sdk.schema import TableId
from replicator_sdk.source import EventEmitter
from replicator_source_postgres.offset import PostgresOffset
from replicator_source_postgres.relations import StructureChange

log = structlog.get_logger(__name__)


class LogPlace:
    """A place in the log; used by the reader's thread.

    Attributes:
        offset: The last commit that was emitted.
        ordinal: How many events were emitted behind it.
        emitter: Where events go.
    """

    def __init__(self, emitter: EventEmitter) -> None:
        self.offset = PostgresOffset(0)
        self.ordinal = 0
        self.emitter = emitter

    def commit(self, commits: Commits) -> None:
        """Emit commits; the place is behind the last of them then."""
        self.emitter.emit_commits(commits)
        last = commits.last
        assert isinstance(last, PostgresOffset)
        self.offset, self.ordinal = last, 0

    def commit_at(self, lsn: int) -> None:
        """Emit the commit of what was emitted since the last one, at a position of the log."""
        self.commit(single_commit(self.ordinal, PostgresOffset(lsn)))

    def report(self, change: StructureChange) -> None:
        """Emit a change of structure as the next event."""
        self.emit_structure(change, self.ordinal)
        self.ordinal += 1

    def report_drop(self, table: TableId) -> None:
        """Emit that a table is gone as the next event."""
        log.warning("table dropped at the source", table=str(table))
        self.emitter.emit(DDLEvent(self.offset, DDLOperation.DROP_TABLE, table, ordinal=self.ordinal))
        self.ordinal += 1

    def emit_structure(self, change: StructureChange, ordinal: int) -> None:
        """Emit a change of structure as the event `ordinal` behind the last commit."""
        kinds = [alter.kind.value for alter in change.alters]
        log.info("structure changed", table=str(change.table), operation=change.operation.value, steps=kinds)
        self.emitter.emit(
            DDLEvent(
                offset=self.offset,
                operation=change.operation,
                table=change.table,
                schema=change.schema,
                prev_table=change.previous,
                alters=change.alters,
                ordinal=ordinal,
                needs_snapshot=change.needs_snapshot,
            )
        )
