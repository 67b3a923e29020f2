"""The in-memory target with deferred commits: what it has taken is lost with the consumer that took it."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from replicator_sdk import DeferredConsumer, PluginConfig, TableChanges
from tests.runtime.engine import in_memory_target
from tests.runtime.engine.in_memory_target import InMemoryConsumer, InMemoryTarget

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from replicator_sdk import DDLEvent, DeltaTargetContext, Position, TableId

COMMITS_BY_ITSELF: list[Callable[[TableId], bool]] = []
"""When one of these holds, a table's commit comes without being asked for; empty for never."""
TAKEN: list[TableId] = []
"""The table of each batch that was taken, in order."""


class DeferredTarget(InMemoryTarget):
    name: ClassVar[str] = "late"
    config_type: ClassVar[type[PluginConfig]] = PluginConfig

    def create_consumer(self, context: DeltaTargetContext) -> InMemoryDeferredConsumer:
        return InMemoryDeferredConsumer(context)


class InMemoryDeferredConsumer(InMemoryConsumer, DeferredConsumer):
    def __init__(self, context: DeltaTargetContext) -> None:
        super().__init__(context)
        self._taken: dict[TableId, list[TableChanges]] = {}
        self._settled: dict[TableId, Position] = {}
        self._failed: dict[TableId, Exception] = {}

    def apply_batch(self, changes: TableChanges) -> None:
        in_memory_target.STORAGE.fault("take", changes.table)
        assert changes.table not in self._failed, "a table that failed takes no more"
        held = TableChanges(
            changes.schema,
            changes.identity,
            list(changes.batches()),
            rows=changes.rows,
            nbytes=changes.nbytes,
            overlap=changes.overlap,
            inserts_only=changes.inserts_only,
        )
        self._taken.setdefault(changes.table, []).append(held)
        TAKEN.append(changes.table)

    def apply_ddl(self, event: DDLEvent) -> None:
        assert not self._taken.get(event.table), "changes before a change of structure are durable"
        super().apply_ddl(event)

    def settled(self, table: TableId) -> Position | None:
        if any(wants(table) for wants in COMMITS_BY_ITSELF):
            self._commit(table)
        if table in self._failed:
            raise self._failed[table]
        return self._settled.get(table)

    def settle(self, tables: Collection[TableId]) -> None:
        for table in tables:
            self._commit(table)

    def _commit(self, table: TableId) -> None:
        for changes in self._taken.pop(table, ()):
            try:
                super().apply_batch(changes)
            except Exception as error:  # noqa: BLE001 - raised by `settled`
                self._failed[table] = error
                return
            self._settled[table] = changes.identity.position
