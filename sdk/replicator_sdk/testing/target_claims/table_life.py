"""Tables that come, take rows, are renamed and go, event by event, beside what they must hold."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from replicator_sdk.batch import BatchIdentity, TableChanges
from replicator_sdk.event import DDLEvent, DDLOperation, DMLOperation
from replicator_sdk.offset import Position
from replicator_sdk.schema import TableId, TableSchema, rename_table
from replicator_sdk.target import EventConsumer
from replicator_sdk.testing.histories.batches import to_batch, to_table_changes
from replicator_sdk.testing.histories.history import load_case
from replicator_sdk.testing.histories.reference import ReferenceTable, RowChange
from replicator_sdk.testing.in_memory.offset import MemoryOffset
from replicator_sdk.testing.target_claims.target_system import TargetSystem
from replicator_sdk.testing.target_script import Flush, apply

SHAPE = load_case("seed_with_primary_key").tables["customers"]
"""Columns and key of the tables."""
_EPOCH_2024 = 1_704_067_200_000_000


class TableLife:
    """Carries out one event after another at the target, each from a consumer of its own.

    Attributes:
        tables: What must be there.

    Args:
        system: The target.
        consumer: Makes a consumer.
        take_rename: Applies a RENAME_TABLE; when it returns, the table has its new name. A consumer of its own when left out.
        prefix: What the tables' names begin with at the target.
        epoch: Of the consumers.
        table_id: Where a table is, by its name with the prefix; `TargetSystem.table_id` when left out.
    """

    def __init__(
        self,
        system: TargetSystem,
        consumer: Callable[[], AbstractContextManager[EventConsumer]],
        take_rename: Callable[[DDLEvent], None] | None = None,
        *,
        prefix: str = "",
        epoch: int = 1,
        table_id: Callable[[str], TableId] | None = None,
    ) -> None:
        self.tables: dict[TableId, ReferenceTable] = {}
        self._consumer, self._epoch = consumer, epoch
        self._take = take_rename or self.apply
        self._table_id, self._prefix = table_id or system.table_id, prefix
        self._done, self._rows = 0, 0

    def table_id(self, name: str) -> TableId:
        """The table's name at the target."""
        return self._table_id(self._prefix + name)

    def create(self, *names: str) -> None:
        """Create tables, each with three rows."""
        for name in names:
            schema = TableSchema(self.table_id(name), SHAPE.columns, SHAPE.primary_key)
            self.apply(self.event(DDLOperation.CREATE_TABLE, schema.table, schema))
            self.tables[schema.table] = ReferenceTable(schema)
        self.insert(*names)
        self.insert(*names)
        self.insert(*names)

    def insert(self, *names: str) -> None:
        """Add a row to each of the tables, in one transaction."""
        self._done += 1
        for name in names:
            table = self.tables[self.table_id(name)]
            self._rows += 1
            row = dict.fromkeys(table.schema.names) | {"id": self._rows, "name": f"row {self._rows}"}
            change = RowChange(table.schema, DMLOperation.INSERT, row)
            self.apply(self._changes(change))
            table.apply(change)

    def rename(self, *renames: tuple[str, str]) -> None:
        """Rename tables one after another, which the source renamed at once: name before, name after."""
        events = [self.rename_event(former, name, len(renames)) for former, name in renames]
        self._done += 1
        for event in events:
            assert event.prev_table is not None
            before = self.tables.pop(event.prev_table)
            schema = rename_table(before.schema, event.table)
            self.tables[event.table] = ReferenceTable(schema, before.rows)
            self._take(event)

    def rename_event(self, former: str, name: str, count: int = 1) -> DDLEvent:
        """The event that renames a table now, one of `count` renames at once; it is not applied.

        As the runtime has it, a table that is put aside is at the position of the first, and the others are at that of the last.
        """
        schema = TableSchema(self.table_id(name), SHAPE.columns, SHAPE.primary_key)
        place = 1 if name.startswith("_") else count
        return self.event(DDLOperation.RENAME_TABLE, schema.table, schema, self.table_id(former), place)

    def event(
        self,
        operation: DDLOperation,
        table: TableId,
        schema: TableSchema | None = None,
        former: TableId | None = None,
        place: int = 1,
    ) -> DDLEvent:
        """A change of structure after all that was done."""
        offset = MemoryOffset(self._done)
        return DDLEvent(
            offset, operation, table, schema, former, sequence_number=self._rows, position=Position(offset, place)
        )

    def apply(self, item: TableChanges | DDLEvent) -> None:
        """Apply it by a consumer of its own."""
        if isinstance(item, DDLEvent):
            self._done += 1
        with self._consumer() as one:
            apply(one, Flush((item,), (), {}, name=f"transaction {self._done}"))

    def _changes(self, change: RowChange) -> TableChanges:
        identity = BatchIdentity(1, self._epoch, self._rows, self._rows, Position(MemoryOffset(self._done)))
        return to_table_changes([to_batch([change], [0], self._rows - 1, _EPOCH_2024 + self._done)], identity)
