"""What must come out: applies changes one by one to plain Python rows, slowly and obviously.

Targets are compared with it, and the events of sources are interpreted by it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from replicator_sdk.event import AlterKind, DDLEvent, DDLOperation, DMLOperation
from replicator_sdk.schema import Column, TableId, TableSchema
from replicator_sdk.testing.histories.values import Row, comparable_key, converted


class ReferenceMismatchError(AssertionError):
    """A change does not fit the rows it meets: it inserts a key that is there, or changes a row that is not."""


@dataclass(frozen=True, slots=True)
class RowChange:
    """One change of one row, as plainly as can be.

    Attributes:
        schema: The table and its schema at that moment.
        operation: INSERT, UPDATE or DELETE.
        row: The row after it; empty for a DELETE. Columns in `unchanged` are not in it.
        before: The key or the whole row before; None when an UPDATE kept the key.
        unchanged: Columns an UPDATE did not send.
        before_is_full: Whether `before` is the whole row.
    """

    schema: TableSchema
    operation: DMLOperation
    row: Mapping[str, Any]
    before: Mapping[str, Any] | None = None
    unchanged: frozenset[str] = frozenset()
    before_is_full: bool = False


Change = RowChange | DDLEvent


@dataclass
class ReferenceTable:
    """One table: its schema and its rows in no order that matters."""

    schema: TableSchema
    rows: list[Row] = field(default_factory=list)

    def find(self, row: Mapping[str, Any]) -> int | None:
        """The index of the row with the key of `row`; without a key, of one row equal to it."""
        wanted = comparable_key(self.schema, row)
        return next((i for i, there in enumerate(self.rows) if comparable_key(self.schema, there) == wanted), None)

    def apply(self, change: RowChange, *, overlap: bool = False) -> None:
        """Apply one change; with `overlap` its effect, or that of later changes, may be there already.

        Raises:
            ReferenceMismatchError: When the change has other columns than the table, or does not fit the rows and
                `overlap` is not set.
        """
        if change.schema.struct != self.schema.struct:
            raise ReferenceMismatchError(f"{self.schema.table} is {self.schema.names}, a change {change.schema.names}")
        if change.operation is DMLOperation.INSERT:
            self._insert(change, overlap=overlap)
        elif change.operation is DMLOperation.UPDATE:
            self._update(change, overlap=overlap)
        else:
            self._delete(change, overlap=overlap)

    def _insert(self, change: RowChange, *, overlap: bool) -> None:
        place = self.find(change.row) if self.schema.primary_key else None
        if place is None:
            self.rows.append(dict(change.row))
        elif overlap:
            self.rows[place] = dict(change.row)
        else:
            raise ReferenceMismatchError(f"{self.schema.table}: INSERT of a key that is there")

    def _update(self, change: RowChange, *, overlap: bool) -> None:
        place = self.find(change.row if change.before is None else change.before)
        if place is None and not overlap:
            raise ReferenceMismatchError(f"{self.schema.table}: UPDATE of a row that is not there")
        old = self.rows.pop(place) if place is not None else {}
        row = dict(change.row)
        for name in change.unchanged:
            row[name] = old.get(name)
        there = self.find(row) if self.schema.primary_key else None
        if there is not None and not overlap:
            raise ReferenceMismatchError(f"{self.schema.table}: UPDATE moves a row to a key that is there")
        if there is not None:
            self.rows.pop(there)
        self.rows.append(row)

    def _delete(self, change: RowChange, *, overlap: bool) -> None:
        place = self.find(change.before or {})
        if place is not None:
            self.rows.pop(place)
        elif not overlap:
            raise ReferenceMismatchError(f"{self.schema.table}: DELETE of a row that is not there")

    def alter(self, event: DDLEvent) -> None:
        """Apply the steps of an ALTER_TABLE or RENAME_TABLE, one after another.

        Raises:
            ReferenceMismatchError: When a step does not fit the columns that the steps before it leave, as a rename to
                a name in use; names that differ only in case are one name.
        """
        names = {name.lower(): name for name in self.schema.names}
        for step in event.alters:
            if step.kind is AlterKind.ADD_COLUMN and step.column is not None:
                self._take_name(names, step.column.name)
                self._set_column(step.column.name, step.default)
            elif step.kind is AlterKind.DROP_COLUMN and step.previous is not None:
                self._give_name(names, step.previous.name)
                self._drop_column(step.previous.name)
            elif step.kind is AlterKind.RENAME_COLUMN and step.column is not None and step.previous is not None:
                self._give_name(names, step.previous.name)
                self._take_name(names, step.column.name)
                self._rename_column(step.previous.name, step.column.name)
            elif step.kind is AlterKind.RETYPE_COLUMN and step.column is not None:
                self._retype_column(step.column)
        if event.schema is None:
            raise ReferenceMismatchError(f"{self.schema.table}: {event.operation} without a schema")
        self.schema = event.schema

    def _take_name(self, names: dict[str, str], name: str) -> None:
        if name.lower() in names:
            raise ReferenceMismatchError(f"{self.schema.table}: a step takes the name {name!r}, which is in use")
        names[name.lower()] = name

    def _give_name(self, names: dict[str, str], name: str) -> None:
        if names.pop(name.lower(), None) != name:
            raise ReferenceMismatchError(f"{self.schema.table}: a step changes {name!r}, which is not there")

    def _set_column(self, name: str, value: Any) -> None:
        for row in self.rows:
            row[name] = value

    def _drop_column(self, name: str) -> None:
        for row in self.rows:
            row.pop(name, None)

    def _rename_column(self, old: str, new: str) -> None:
        for row in self.rows:
            row[new] = row.pop(old, None)

    def _retype_column(self, column: Column) -> None:
        for row in self.rows:
            row[column.name] = converted(column.type, row.get(column.name))


class Reference:
    """All tables of a history.

    Attributes:
        tables: What is there now.
        stale: Tables whose changed rows the log did not carry (`DDLEvent.needs_snapshot`).
    """

    def __init__(self) -> None:
        self.tables: dict[TableId, ReferenceTable] = {}
        self.stale: set[TableId] = set()

    def create(self, schema: TableSchema) -> ReferenceTable:
        """The table of `schema`, made when it is not there."""
        return self.tables.setdefault(schema.table, ReferenceTable(schema))

    def apply(self, change: Change, *, overlap: bool = False) -> None:
        """Apply one change of data or structure."""
        if isinstance(change, RowChange):
            self.create(change.schema).apply(change, overlap=overlap)
        else:
            self._apply_ddl(change)

    def _apply_ddl(self, event: DDLEvent) -> None:
        if event.needs_snapshot:
            self.stale.add(event.table)
        match event.operation:
            case DDLOperation.CREATE_TABLE if event.schema is not None:
                self.create(event.schema)
            case DDLOperation.DROP_TABLE:
                self.tables.pop(event.table, None)
            case DDLOperation.TRUNCATE_TABLE:
                self.tables[event.table].rows.clear()
            case DDLOperation.ALTER_TABLE:
                self.tables[event.table].alter(event)
            case DDLOperation.RENAME_TABLE if event.prev_table is not None:
                table = self.tables.pop(event.prev_table)
                table.alter(event)
                self.tables[event.table] = table
            case DDLOperation.CREATE_DATABASE | DDLOperation.DROP_DATABASE:
                pass
            case _:
                raise ReferenceMismatchError(f"{event.table}: {event.operation} lacks what it needs")
