"""Carries out the steps of a history on plain rows and returns the changes that a log would contain."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from replicator_sdk.authoring.renames import ordered_renames
from replicator_sdk.event import Alter, AlterKind, DDLEvent, DDLOperation, DMLOperation
from replicator_sdk.offset import Offset
from replicator_sdk.schema import Column, TableId, TableSchema
from replicator_sdk.testing.histories.history import Step, column, table_schema
from replicator_sdk.testing.histories.reference import Change, Reference, ReferenceTable, RowChange
from replicator_sdk.testing.histories.values import Row, comparable, from_json


class Simulator:
    """A database in memory that logs.

    Attributes:
        reference: Its tables now.
        full_before: Whether the log contains whole rows before a change, not only keys.
    """

    def __init__(self, schemas: Mapping[str, TableSchema], *, full_before: bool = False) -> None:
        self.reference = Reference()
        self.full_before = full_before
        self.names: dict[str, TableId] = {}
        for name, schema in schemas.items():
            self.create(name, schema)

    def create(self, name: str, schema: TableSchema) -> None:
        """Make a table; steps call it `name`."""
        self.names[name] = schema.table
        self.reference.create(schema)

    def table(self, name: str) -> ReferenceTable:
        """The table that steps call `name`."""
        return self.reference.tables[self.names[name]]

    def execute(self, step: Step, offset: Offset) -> list[Change]:
        """Carry out one step.

        Args:
            step: What to do.
            offset: The last commit, for DDL events.

        Returns:
            The changes it made, in order.
        """
        changes: list[Change] = []
        for change in self._changes(step, offset):
            self.reference.apply(change)
            changes.append(change)
        return changes

    def perform(self, step: Step, table: TableId, offset: Offset) -> list[Change]:
        """Carry out a step on `table`, whatever the step calls it."""
        return self.execute(Step(step.kind, next(n for n, t in self.names.items() if t == table), step.facts), offset)

    def _changes(self, step: Step, offset: Offset) -> Iterator[Change]:
        if step.kind == "create_table":
            created = table_schema(self.names[step.table], step.facts)
            yield DDLEvent(offset, DDLOperation.CREATE_TABLE, created.table, created)
            return
        table = self.table(step.table)
        match step.kind:
            case "insert":
                for row in step.facts["rows"]:
                    yield RowChange(table.schema, DMLOperation.INSERT, complete_row(table.schema, row))
            case "update":
                _check_names(table.schema, step.facts["set"])
                for row in matching(table, step):
                    yield self._update(table.schema, row, step)
            case "delete":
                for row in matching(table, step):
                    yield self._delete(table.schema, row)
            case "truncate":
                yield DDLEvent(offset, DDLOperation.TRUNCATE_TABLE, table.schema.table, table.schema)
            case "drop_table":
                yield DDLEvent(offset, DDLOperation.DROP_TABLE, table.schema.table)
            case _:
                yield _alter(table.schema, step, offset)

    def _update(self, schema: TableSchema, old: Row, step: Step) -> RowChange:
        values = {name: from_json(schema[name].type, value) for name, value in step.facts["set"].items()}
        unchanged = frozenset(step.facts.get("unchanged", ()))
        row = {name: value for name, value in {**old, **values}.items() if name not in unchanged}
        moved = any(
            comparable(c.type, old[c.name]) != comparable(c.type, {**old, **values}[c.name])
            for c in schema.key_columns()
        )
        before = self._before(schema, old) if moved or self.full_before or not schema.primary_key else None
        return RowChange(schema, DMLOperation.UPDATE, row, before, unchanged, self._is_full(schema))

    def _delete(self, schema: TableSchema, old: Row) -> RowChange:
        return RowChange(
            schema, DMLOperation.DELETE, {}, self._before(schema, old), before_is_full=self._is_full(schema)
        )

    def _before(self, schema: TableSchema, old: Row) -> Row:
        return dict(old) if self._is_full(schema) else {name: old[name] for name in schema.primary_key}

    def _is_full(self, schema: TableSchema) -> bool:
        return self.full_before or not schema.primary_key


def complete_row(schema: TableSchema, row: Mapping[str, Any]) -> Row:
    """A row with every column, from JSON; columns left out are NULL."""
    _check_names(schema, row)
    return {c.name: from_json(c.type, row.get(c.name)) for c in schema.columns}


def _check_names(schema: TableSchema, row: Mapping[str, Any]) -> None:
    if unknown := row.keys() - set(schema.names):
        raise ValueError(f"{schema.table} has no columns {sorted(unknown)}")


def matching(table: ReferenceTable, step: Step) -> list[Row]:
    """The rows an UPDATE or DELETE step means, in order of insertion; copies."""
    schema = table.schema
    where = {n: comparable(schema[n].type, from_json(schema[n].type, v)) for n, v in step.facts["where"].items()}
    found = [dict(row) for row in table.rows if all(comparable(schema[n].type, row[n]) == v for n, v in where.items())]
    return found[: step.facts.get("limit", len(found))]


def _alter(schema: TableSchema, step: Step, offset: Offset) -> DDLEvent:
    columns: list[Column] = list(schema.columns)
    names: dict[str, str] = {}
    key = schema.primary_key
    if step.kind == "add_column":
        new = column(step.facts["name"], step.facts["type"])
        columns.append(new)
        alters = [Alter(AlterKind.ADD_COLUMN, new, None, from_json(new.type, step.facts.get("default")))]
    elif step.kind == "drop_column":
        old = schema[step.facts["name"]]
        columns.remove(old)
        alters = [Alter(AlterKind.DROP_COLUMN, None, old)]
    elif step.kind == "retype_column":
        old = schema[step.facts["name"]]
        new = replace(column(old.name, step.facts["type"]), nullable=old.nullable)
        columns[columns.index(old)] = new
        alters = [Alter(AlterKind.RETYPE_COLUMN, new, old)]
    elif step.kind == "change_key":
        key = tuple(step.facts["key"])
        alters = [Alter(AlterKind.CHANGE_KEY)]
    else:
        names = renamed(step)
        columns = [replace(c, name=names.get(c.name, c.name)) for c in columns]
        alters = ordered_renames([(schema[old], new) for old, new in names.items()], schema.names)
    after = TableSchema(schema.table, tuple(columns), tuple(names.get(k, k) for k in key))
    return DDLEvent(offset, DDLOperation.ALTER_TABLE, schema.table, after, alters=tuple(alters))


def renamed(step: Step) -> dict[str, str]:
    """Name before → name after, of the columns that a step renames; empty for a step that renames none."""
    if step.kind == "rename_columns":
        return dict(step.facts["to"])
    return {step.facts["name"]: step.facts["to"]} if step.kind == "rename_column" else {}
