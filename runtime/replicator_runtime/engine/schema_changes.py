"""Applies changes of structure where they stand among the rows."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import structlog

from replicator_runtime.engine.gather import TableFloor
from replicator_runtime.engine.progress import TableState
from replicator_runtime.engine.taking_tables import Rejoin
from replicator_sdk import DDLEvent, DDLOperation, Position
from replicator_sdk.errors import BugError, SchemaDriftError
from replicator_sdk.failpoint import failpoint, register

if TYPE_CHECKING:
    from replicator_runtime.engine.apply import Applier
    from replicator_runtime.engine.flights import Flights
    from replicator_runtime.engine.run import Run
    from replicator_runtime.engine.sequencer import CommitMark
    from replicator_runtime.engine.tables import TableRecord
    from replicator_runtime.engine.taking_tables import TakingTables

register("engine.ddl.before_apply", "engine.ddl.after_apply")
log = structlog.get_logger()


class SchemaChanges:
    """Used by the engine's main thread.

    Args:
        run: The run.
        applier: Applies.
        tables: What becomes of the tables.
        flights: What is in the air; it lands before a change of structure.
    """

    def __init__(self, run: Run, applier: Applier, tables: TakingTables, flights: Flights) -> None:
        self._run = run
        self._applier = applier
        self._tables = tables
        self._flights = flights
        self._known: list[tuple[DDLEvent, Position]] = []

    def apply(self, event: DDLEvent) -> None:
        """Apply what comes before the event in its table, then the event.

        Raises:
            Rejoin: When the table is to be copied, or is gone.
        """
        if event.operation is DDLOperation.RENAME_TABLE and event.prev_table is not None:
            self._leave(replace(event, table=event.prev_table))
            return
        floor = self._tables.floors.get(event.table)
        position = Position(self._tables.gathering.offset, event.ordinal + 1)
        created = event.operation is DDLOperation.CREATE_TABLE and event.table not in self._run.book.records
        new_table = created and self._run.pipeline.selection.matches(event.table) is not None
        if floor is None and not new_table:
            return
        event = replace(event, position=position)
        if not self._apply_before(event) and floor is not None:
            return
        if floor is not None and position <= floor.position:
            self._known.append((event, floor.position))
            return
        try:
            self._change_schema(event)
        except Rejoin:
            raise
        except Exception as error:  # noqa: BLE001 - the policy decides
            self._tables.failed(event.table, error)

    def commit(self, mark: CommitMark) -> None:
        """The open window ended: finish what an earlier run left undone of events that their tables have.

        Raises:
            BugError: When a table's position is inside the transaction of such an event: then the event was skipped
                although the table does not have it. Nothing of the transaction is applied to that table or saved.
            Rejoin: When the table is to be copied, or is gone.
        """
        known, self._known = self._known, []
        for event, floor in known:
            if mark.start < floor.offset < mark.commits.offset_at(0):
                raise BugError(
                    f"the position {floor} of the table is inside the transaction of a change of structure, which begins"
                    f" after {mark.start} and ends at {mark.commits.offset_at(0)}",
                    code="RPL-9013",
                    hint="report it with the log and the source's plugin; nothing of that transaction is saved",
                    table=str(event.table),
                    position=str(event.position),
                )
        for event, floor in known:
            self._finish(event, floor)

    def _finish(self, event: DDLEvent, floor: Position) -> None:
        """What comes after an event at the target, where a run may have ended before it."""
        assert event.position is not None
        record = self._run.book.records.get(event.table)
        if record is None:
            return
        if event.schema is not None and record.learn_older(event.position, event.schema, floor):
            self._run.book.save()
        if record.snapshot is None or not Position(record.snapshot.first) < event.position:
            return  # the table was copied after the event
        if event.operation is DDLOperation.DROP_TABLE:
            self._tables.forget(event.table)
            raise Rejoin
        if event.needs_snapshot:
            self._tables.copy_anew(record)
            raise Rejoin

    def _apply_before(self, event: DDLEvent) -> bool:
        """Apply what comes before the event in its table; the batch in the air ends first.

        Returns:
            Whether the table takes changes then. When it failed, the event must wait like the changes before it: the
            table's position would pass them, and they would never come again.
        """
        self._flights.land()
        before = self._tables.gathering.cut(event)
        failures = self._applier.apply(before, self._tables.gathering.offset)
        for item in before:
            item.close()
        self._flights.take(before, failures)
        self._flights.settle(event.table)
        return event.table in self._tables.floors

    def _leave(self, event: DDLEvent) -> None:
        """The table has another name now: what it was stays at the target; its new name joins like a new table.

        Moving the target's table along would break whoever reads it there, and a replay could not tell which name a
        change belongs to.
        """
        floor = self._tables.floors.get(event.table)
        position = Position(self._tables.gathering.offset, event.ordinal + 1)
        if floor is not None and position <= floor.position:
            self._known.append((replace(event, schema=None, needs_snapshot=False, position=position), floor.position))
            return
        if floor is None or not self._apply_before(event):
            return
        log.warning("table.renamed", table=str(event.table), position=str(self._tables.gathering.offset))
        self._tables.forget(event.table)
        raise Rejoin

    def _change_schema(self, event: DDLEvent) -> None:
        record = self._run.book.record(event.table)
        selected = self._run.pipeline.selection.matches(event.table)
        if selected is not None and event.operation in selected.ddl_blacklist:
            if event.operation is DDLOperation.ALTER_TABLE:
                raise blacklisted_alter(event)
            if event.operation is DDLOperation.DROP_TABLE:
                self._tables.forget(event.table)
                raise Rejoin
            if event.needs_snapshot:  # the rows are another table's by now: to leave that out would mix the two
                self._note(record, event)
                self._tables.copy_anew(record)
                raise Rejoin
            return
        assert event.position is not None
        self._note(record, event)
        failpoint("engine.ddl.before_apply")
        self._applier.apply_ddl(event)
        failpoint("engine.ddl.after_apply")
        if event.operation is DDLOperation.DROP_TABLE:
            self._tables.forget(event.table)  # a new table of that name joins like any other
            raise Rejoin
        self._run.metrics.count("ddl", table=event.table)
        log.info("ddl.applied", table=str(event.table), operation=str(event.operation), position=str(event.position))
        if event.operation is DDLOperation.CREATE_TABLE and event.table not in self._tables.floors:
            self._tables.floors[event.table] = TableFloor(event.position)
            self._run.progress.set_table(event.table, TableState.REPLICATING)
        elif event.table in self._tables.floors:
            self._tables.floors[event.table].position = event.position
        if event.needs_snapshot:
            self._tables.copy_anew(record)
            raise Rejoin

    def _note(self, record: TableRecord, event: DDLEvent) -> None:
        """Keep what a run needs to know that finds the event applied: this one may end before it can say so."""
        news = False
        if event.operation is DDLOperation.DROP_TABLE:
            record.dropping, news = event.position, True
        elif event.schema is not None:
            news = record.learn(event.position, event.schema)
        if news:
            self._run.book.save()


def blacklisted_alter(event: DDLEvent) -> SchemaDriftError:
    """What to say of an ALTER_TABLE that the pipeline keeps out: nothing behind it fits the target's table."""
    return SchemaDriftError(
        "the table was altered at the source and ALTER_TABLE is on the ddlBlacklist",
        code="RPL-6001",
        hint="take ALTER_TABLE off the ddlBlacklist to let the change through, then start again",
        table=str(event.table),
        position=str(event.position),
    )
