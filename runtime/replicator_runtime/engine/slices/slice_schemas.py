"""Schema changes of a distributed log: executors report new schemas, and tables are changed between two slices."""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from replicator_runtime.engine.apply.operation_filter import blacklisted_alter
from replicator_runtime.engine.lifecycle.old_schemas import forget_old_schemas
from replicator_runtime.engine.tables.table_creation import change_table, create_table
from replicator_runtime.engine.tables.table_scope import TableScope
from replicator_runtime.engine.tables.table_watermark import TableWatermark
from replicator_sdk import DDLEvent, DDLOperation, Position
from replicator_sdk.errors import BugError
from replicator_sdk.failpoint import failpoint, register

if TYPE_CHECKING:
    from collections.abc import Sequence

    from replicator_runtime.engine.apply.active_tables import ActiveTables
    from replicator_runtime.engine.lifecycle.table_lifecycle import TableLifecycle
    from replicator_runtime.engine.maintenance.table_locks import TableLocks
    from replicator_runtime.engine.slices.slice_store import SliceStore
    from replicator_sdk import Alter, DistributedLog, Offset, RangeConsumer, TableId, TableSchema

register("engine.slice.schema_announced", "engine.slice.schema_applied")
log = structlog.get_logger()


class SliceSchemas:
    """Used by the engine's main thread.

    An event is stored before it is applied: a replay may cut slices differently and read the same columns together with
    others, so that it could not derive what was applied at a position.

    Args:
        lifecycle: Of all tables.
        source: Derives the schema change from the schemas that executors read.
        consumer: Applies.
        tables: The tables that take changes; new ones join here.
        slice_store: Keeps the events.
        locks: Keep maintenance away from a table whose schema changes.
    """

    def __init__(
        self,
        lifecycle: TableLifecycle,
        source: DistributedLog,
        consumer: RangeConsumer,
        tables: ActiveTables,
        slice_store: SliceStore,
        locks: TableLocks,
    ) -> None:
        self._lifecycle = lifecycle
        self._run = lifecycle.run
        self._source = source
        self._consumer = consumer
        self._tables = tables
        self._slice_store = slice_store
        self._locks = locks

    def finish(self) -> None:
        """Apply what an earlier run announced, if it did not; applied twice it changes nothing."""
        self._apply_all()

    def follow(self, seen: Sequence[TableSchema], current: Offset, wanted: frozenset[TableId]) -> bool:
        """Change tables so that they fit `seen`.

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
            self._slice_store.announce(events)
            failpoint("engine.slice.schema_announced")
            self._apply_all()
        return bool(events)

    def _event(
        self, table: TableId, seen: Sequence[TableSchema], current: Offset, *, is_wanted: bool
    ) -> DDLEvent | None:
        """The schema change of a table that is replicated, or is to be."""
        selected = self._run.pipeline.selection.matches(table)
        record = self._lifecycle.records.get(table)
        watermark = self._tables.watermarks.get(table)
        if selected is None or (record is not None and watermark is None):
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
        same_place = watermark is not None and watermark.position.offset == current
        position = Position(
            current, 1 + (watermark.position.events_after if watermark is not None and same_place else 0)
        )
        operation = DDLOperation.CREATE_TABLE if record is None else DDLOperation.ALTER_TABLE
        event = DDLEvent(current, operation, table, known, alters=tuple(steps) if record else (), position=position)
        if record is not None and operation in selected.ddl_blacklist:
            raise blacklisted_alter(event)
        return event

    def _apply_all(self) -> None:
        """Apply what is announced; an event that fails with its table stays announced, since it may have been applied."""
        failed = []
        for event in self._slice_store.pending:
            if event.table not in self._tables.watermarks and event.table in self._lifecycle.records:
                failed.append(event)  # the table has stopped
                continue
            try:
                self._apply(event)
            except Exception as error:
                if event.table not in self._tables.watermarks:
                    raise
                self._tables.failed(event.table, error)
                failed.append(event)
        if len(failed) < len(self._slice_store.pending):
            self._run.totals.save()  # no one counts an event that is forgotten
            self._slice_store.keep(failed)

    def _apply(self, event: DDLEvent) -> None:
        assert event.position is not None
        assert event.schema is not None
        with self._locks.hold([event.table]):
            if event.operation is DDLOperation.CREATE_TABLE:
                known = self._lifecycle.records.get(event.table)
                is_new = known is None or not known.created
                create_table(self._consumer, event, self._lifecycle.run.generation, is_new=is_new)
            else:
                change_table(self._consumer, event)
        failpoint("engine.slice.schema_applied")
        record = self._lifecycle.take_in(event.table)
        record.learn(event.position, event.schema)
        forget_old_schemas(self._lifecycle.run, [record])
        selected = self._run.pipeline.selection.matches(event.table)
        if record.scope is None and selected is not None:
            record.scope = TableScope.of(selected)
        record.created = True
        self._lifecycle.save()
        watermark = self._tables.watermarks.setdefault(event.table, TableWatermark(event.position))
        watermark.position = max(watermark.position, event.position)
        if record.pause is None:
            self._lifecycle.create(record)
        if not self._run.totals.has(event.table, event.position):  # else it was applied and counted before a kill
            self._run.totals.add(event.table, record.copy_id, event.position, {"ddl": 1})
        log.info("ddl.applied", table=str(event.table), operation=str(event.operation), position=str(event.position))
