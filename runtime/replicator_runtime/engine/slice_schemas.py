"""Changes of structure of a distributed log: executors tell other schemas, tables follow between two slices."""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from replicator_runtime.engine.gather import TableFloor
from replicator_runtime.engine.picked import Picked
from replicator_runtime.engine.progress import TableState
from replicator_runtime.engine.schema_changes import blacklisted_alter
from replicator_sdk import DDLEvent, DDLOperation, Position
from replicator_sdk.errors import BugError
from replicator_sdk.failpoint import failpoint, register

if TYPE_CHECKING:
    from collections.abc import Sequence

    from replicator_runtime.engine.run import Run
    from replicator_runtime.engine.slice_book import SliceBook
    from replicator_runtime.engine.taking_tables import TakingTables
    from replicator_sdk import Alter, DistributedLog, Offset, RangeConsumer, TableId, TableSchema

register("engine.slice.schema_announced", "engine.slice.schema_applied")
log = structlog.get_logger()


class SliceSchemas:
    """Used by the engine's main thread.

    An event is kept in state before it is applied: a replay may cut slices otherwise and meet the same columns in other
    company, so that it could not tell by itself what was applied at a position.

    Args:
        run: The run.
        source: Tells what becomes of a table.
        consumer: Applies.
        tables: The tables that take changes; new ones join here.
        book: Keeps the events.
    """

    def __init__(
        self, run: Run, source: DistributedLog, consumer: RangeConsumer, tables: TakingTables, book: SliceBook
    ) -> None:
        self._run = run
        self._source = source
        self._consumer = consumer
        self._tables = tables
        self._book = book

    def finish(self) -> None:
        """Apply what an earlier run announced, if it did not; applied twice it changes nothing."""
        self._apply_all()

    def follow(self, seen: Sequence[TableSchema], current: Offset, wanted: frozenset[TableId]) -> bool:
        """Let tables become what `seen` needs.

        Args:
            seen: Schemas of records that were not delivered.
            current: Where the slice begins that holds them; all before it is applied.
            wanted: The tables whose changes were to be delivered.

        Returns:
            Whether any did, so that the slice is to be read again.
        """
        events = []
        for table in dict.fromkeys(schema.table for schema in seen):
            try:
                event = self._event(table, [s for s in seen if s.table == table], current, is_wanted=table in wanted)
            except BugError:
                raise
            except Exception as error:  # noqa: BLE001 - the policy decides
                self._tables.failed(table, error)
                continue
            if event is not None:
                events.append(event)
        if events:
            self._book.announce(events)
            failpoint("engine.slice.schema_announced")
            self._apply_all()
        return bool(events)

    def _event(
        self, table: TableId, seen: Sequence[TableSchema], current: Offset, *, is_wanted: bool
    ) -> DDLEvent | None:
        """What becomes of a table that is replicated, or is to be."""
        selected = self._run.pipeline.selection.matches(table)
        record = self._run.book.records.get(table)
        floor = self._tables.floors.get(table)
        if selected is None or (record is not None and floor is None):
            return None
        known = None if record is None else record.schema
        steps: list[Alter] = []
        for schema in seen:
            step = self._source.reconcile(known, schema)
            if step is not None:
                known = step.schema
                steps += step.alters
        if record is not None and known == record.schema:
            if is_wanted:
                raise BugError(
                    "the source delivers no changes of a table whose schema it knows", code="RPL-9407", table=str(table)
                )
            return None
        same_place = floor is not None and floor.position.offset == current
        position = Position(current, 1 + (floor.position.events_after if floor is not None and same_place else 0))
        operation = DDLOperation.CREATE_TABLE if record is None else DDLOperation.ALTER_TABLE
        event = DDLEvent(current, operation, table, known, alters=tuple(steps) if record else (), position=position)
        if record is not None and operation in selected.ddl_blacklist:
            raise blacklisted_alter(event)
        return event

    def _apply_all(self) -> None:
        """Apply what is announced; what fails with its table stays announced, since it may be done all the same."""
        failed = []
        for event in self._book.pending:
            if event.table not in self._tables.floors and event.table in self._run.book.records:
                failed.append(event)  # the table stands still
                continue
            try:
                self._apply(event)
            except Exception as error:
                if event.table not in self._tables.floors:
                    raise
                self._tables.failed(event.table, error)
                failed.append(event)
        self._book.pending = failed

    def _apply(self, event: DDLEvent) -> None:
        assert event.position is not None
        assert event.schema is not None
        self._consumer.apply_ddl(event)
        failpoint("engine.slice.schema_applied")
        record = self._run.book.record(event.table)
        record.learn(event.position, event.schema)
        selected = self._run.pipeline.selection.matches(event.table)
        if record.picked is None and selected is not None:
            record.picked = Picked.of(selected)
        record.created = True
        self._run.book.save()
        floor = self._tables.floors.setdefault(event.table, TableFloor(event.position))
        floor.position = max(floor.position, event.position)
        self._run.progress.set_table(event.table, TableState.REPLICATING)
        self._run.metrics.count("ddl", table=event.table)
        log.info("ddl.applied", table=str(event.table), operation=str(event.operation), position=str(event.position))
