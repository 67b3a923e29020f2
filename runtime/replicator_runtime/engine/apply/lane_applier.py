"""Puts the changes of paused tables into their lanes, and has the target take those of the others, as its tables are."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

from replicator_runtime.engine.apply.applier import Applier
from replicator_runtime.engine.run_state.error_policy import error_of_table
from replicator_runtime.engine.structure.kept_columns import changes_for_target, event_for_target
from replicator_sdk.errors import FencedError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from replicator_runtime.engine.batching.batching import TableBatch
    from replicator_runtime.engine.lanes.lanes import Lanes
    from replicator_runtime.engine.tables.table_store import TableRecord
    from replicator_sdk import DDLEvent, DeferredConsumer, Offset, TableId


class LaneApplier(Applier):
    """Used as the applier that it wraps. Lanes are written beside the target's commits.

    Args:
        applier: For the tables that have no lane; its owner closes it.
        lanes: Those of the attempt.
        records: What is known of all tables; read when changes are applied.
    """

    def __init__(self, applier: Applier, lanes: Lanes, records: Mapping[TableId, TableRecord]) -> None:
        self._applier = applier
        self._lanes = lanes
        self._records = records
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="lanes")  # starts its thread when used

    @property
    def deferred(self) -> DeferredConsumer | None:
        """That of the applier."""
        return self._applier.deferred

    def is_deferred(self, table: TableId) -> bool:
        """Not what is in a lane."""
        return table not in self._lanes and self._applier.is_deferred(table)

    @property
    def is_table_by_table(self) -> bool:
        """That of the applier."""
        return self._applier.is_table_by_table

    def apply(self, batches: list[TableBatch], offset: Offset) -> dict[TableId, Exception]:
        """Apply the changes of each table or put them into its lane; those in lanes are durable on return."""
        kept = [item for item in batches if item.changes.table in self._lanes]
        others = [self._for_target(item) for item in batches if item.changes.table not in self._lanes]
        if not kept:
            return self._applier.apply(others, offset)
        writing = self._pool.submit(self._write, kept)
        try:
            failures = self._applier.apply(others, offset) if others else {}
        finally:
            written = writing.exception()
        if written is not None:
            raise written
        return {**failures, **writing.result()}

    def _for_target(self, item: TableBatch) -> TableBatch:
        changes = changes_for_target(item.changes, self._records.get(item.changes.table))
        return item if changes is item.changes else replace(item, changes=changes)

    def _write(self, batches: list[TableBatch]) -> dict[TableId, Exception]:
        failures: dict[TableId, Exception] = {}
        for item in batches:
            table = item.changes.table
            if table in failures:
                continue
            try:
                tally = item.tally
                self._lanes[table].write(item.changes, (tally.inserts, tally.updates, tally.deletes))
            except FencedError:
                raise
            except Exception as error:  # noqa: BLE001 - the policy decides, for this table
                failures[table] = error_of_table(error, table, str(item.changes.identity.position))
        return failures

    def apply_ddl(self, event: DDLEvent) -> None:
        """Apply the event, or put it into its table's lane."""
        if event.table in self._lanes:
            self._lanes[event.table].write_event(event)
        else:
            self._applier.apply_ddl(event_for_target(event, self._records.get(event.table)))

    def create_table(self, event: DDLEvent, generation: int, *, is_new: bool) -> None:
        """Create the event's table, or put the event into its lane."""
        if event.table in self._lanes:
            self._lanes[event.table].write_event(event)
        else:
            self._applier.create_table(event, generation, is_new=is_new)

    @property
    def follows_databases(self) -> bool:
        """That of the applier."""
        return self._applier.follows_databases

    def can_rename(self, former: TableId, table: TableId) -> bool:
        """That of the applier."""
        return self._applier.can_rename(former, table)

    def has_table(self, table: TableId) -> bool:
        """That of the applier."""
        return self._applier.has_table(table)

    def close(self) -> None:
        """End the thread that writes."""
        self._pool.shutdown(wait=True)
