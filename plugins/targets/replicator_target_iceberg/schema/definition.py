"""The columns of a table by mode: made from a source's schema, and changed step by step by its DDL."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from replicator_sdk.errors import SchemaDriftError
from replicator_sdk.schema import Column, TableSchema
from replicator_target_iceberg.config import Mode
from replicator_target_iceberg.schema.table_form import BEFORE, TableForm
from replicator_target_iceberg.schema.types import field, iceberg_type, numbered, same_type

_NO_KEY: Final = ("float", "double")
Step = Callable[[Any], object]


def new_schema(schema: TableSchema, form: TableForm) -> dict[str, Any]:
    """A new table's columns in Iceberg's JSON form, with the key's columns as identifier fields where Iceberg allows it.

    Raises:
        SchemaDriftError: When Iceberg cannot hold the columns beside each other, or has no type for one.
    """
    refuse_twins([*schema.names, *form.own_names], str(schema.table))
    key = identifier_columns(schema, form.mode)
    columns = [field(c.name, iceberg_type(c.type), required=c.name in key) for c in schema.columns]
    before = [field(BEFORE, {"type": "struct", "fields": columns})] if form.is_history else []
    made = numbered([*(field(name, kind) for name, kind in form.leading.items()), *columns, *before])
    return {
        "type": "struct",
        "schema-id": 0,
        "fields": made,
        "identifier-field-ids": [column["id"] for column in made if column["name"] in key],
    }


def identifier_columns(schema: TableSchema, mode: Mode) -> tuple[str, ...]:
    """The key, where Iceberg takes it for identifier fields: NOT NULL at the source, neither nested nor a floating-point number."""
    kinds = [iceberg_type(column.type) for column in schema.key_columns()]
    fits = all(isinstance(kind, str) and kind not in _NO_KEY for kind in kinds)
    required = all(not column.nullable for column in schema.key_columns())
    return schema.primary_key if mode is Mode.MERGE and fits and required else ()


def refuse_twins(names: Iterable[str], table: str) -> None:
    """Raise an error when two names are equal, or differ by case only: Spark takes them for one."""
    seen: dict[str, str] = {}
    for name in names:
        if (other := seen.get(name.lower())) is not None:
            raise SchemaDriftError(
                f"Spark takes the columns {other!r} and {name!r} for one",
                code="RPL-6421",
                table=table,
                hint="leave one out by `columns`; a name that begins with _ may be the replicator's own where `mode` is not merge",
            )
        seen[name.lower()] = name


class Columns:
    """The columns of a table at one version, in Iceberg's JSON form. Immutable.

    Args:
        schema: As the table has it.
        form: What it has beside the source's columns.
    """

    def __init__(self, schema: dict[str, Any], form: TableForm) -> None:
        self._fields: list[dict[str, Any]] = schema["fields"]
        self._schema, self._form = schema, form
        self._own = set(form.own_names)

    @property
    def names(self) -> list[str]:
        """Of the source's columns."""
        return [column["name"] for column in self._fields if column["name"] not in self._own]

    def matches(self, schema: TableSchema) -> bool:
        """Whether the table has exactly these columns and types, in any order."""
        wanted = {c.name: iceberg_type(c.type) for c in schema.columns}
        here = {c["name"]: c["type"] for c in self._fields if c["name"] not in self._own}
        own = {c["name"]: c["type"] for c in self._fields if c["name"] in self._own}
        is_whole = self._own == own.keys() and all(same_type(own[n], kind) for n, kind in self._form.leading.items())
        return is_whole and wanted.keys() == here.keys() and all(same_type(wanted[n], here[n]) for n in wanted)

    def has(self, name: str) -> bool:
        """Whether there is a column of exactly this name."""
        return name in self.names

    def type_of(self, name: str) -> Any:
        """The type of a column."""
        return next(column["type"] for column in self._fields if column["name"] == name)

    def is_required(self, name: str) -> bool:
        """Whether a column allows no NULL."""
        return any(column["name"] == name and column["required"] for column in self._fields)

    def identifiers(self) -> list[str]:
        """The names of the identifier fields."""
        numbers = set(self._schema.get("identifier-field-ids", ()))
        return [column["name"] for column in self._fields if column["id"] in numbers]

    # Each of these returns a step for the library's `UpdateSchema`; `parse` turns a type's JSON form into Java's.
    def add(self, column: Column, parse: Callable[[Any], Any]) -> Step:
        """Add a column; existing rows have NULL in it."""
        kind = iceberg_type(column.type)

        def step(update: Any) -> None:
            update.addColumn(None, column.name, parse(kind))
            if self._form.is_history:
                update.addColumn(BEFORE, column.name, parse(kind))

        return step

    def drop(self, name: str) -> Step:
        """Take a column out."""

        def step(update: Any) -> None:
            update.setIdentifierFields([n for n in self.identifiers() if n != name])
            for path in self._paths(name):
                update.deleteColumn(path)

        return step

    def rename(self, old: str, new: str) -> Step:
        """Give a column another name; files are not touched."""

        def step(update: Any) -> None:
            for path in self._paths(old):
                update.renameColumn(path, new)

        return step

    def widen(self, name: str, kind: Any, parse: Callable[[Any], Any]) -> Step:
        """Give a column a wider type; files are not touched."""

        def step(update: Any) -> None:
            for path in self._paths(name):
                update.updateColumn(path, parse(kind))

        return step

    def replace(self, column: Column, parse: Callable[[Any], Any]) -> Step:
        """Take a column out and put one of its name and another type in its place; existing rows have NULL in it."""
        add = self.add(column, parse)

        def step(update: Any) -> None:
            self.drop(column.name)(update)
            add(update)
            place = self.names.index(column.name)
            if place:
                update.moveAfter(column.name, self.names[place - 1])
            elif self._form.leading:
                update.moveAfter(column.name, list(self._form.leading)[-1])
            else:
                update.moveFirst(column.name)

        return step

    def identify(self, key: Iterable[str]) -> Step | None:
        """Have the key's columns for identifier fields as far as they allow no NULL; None where that changes nothing."""
        names = list(key)
        wanted = names if names and all(self.is_required(name) for name in names) else []
        if self._form.mode is not Mode.MERGE or sorted(wanted) == sorted(self.identifiers()):
            return None
        return lambda update: update.setIdentifierFields(wanted)

    def relax(self, name: str) -> Step | None:
        """Allow NULL in a column; None where that changes nothing."""
        if not self.is_required(name):
            return None

        def step(update: Any) -> None:
            update.setIdentifierFields([n for n in self.identifiers() if n != name])
            update.makeColumnOptional(name)

        return step

    def replace_all(
        self, wanted: dict[str, Any], parse: Callable[[Any], Any], kept: frozenset[str] = frozenset()
    ) -> Step:
        """Take all columns out but those of `kept`, which may get a wider type, and put those of another schema in, under new identities."""
        here = {column["name"]: column["required"] for column in self._fields}
        types = {column["name"]: column["type"] for column in self._fields}

        def step(update: Any) -> None:
            update.allowIncompatibleChanges()
            update.setIdentifierFields([])
            for name in here.keys() - kept:
                update.deleteColumn(name)
            for column in wanted["fields"]:
                name, required = column["name"], column["required"]
                if name not in kept:
                    add = update.addRequiredColumn if required else update.addColumn
                    add(None, name, parse(column["type"]))
                    continue
                if not same_type(types[name], column["type"]):
                    update.updateColumn(name, parse(column["type"]))
                if required != here[name]:
                    (update.requireColumn if required else update.makeColumnOptional)(name)

        return step

    @staticmethod
    def identify_new(wanted: dict[str, Any]) -> Step:
        """What follows `replace_all`: in one step with it the library takes new identifier fields for those that go."""
        numbers = set(wanted["identifier-field-ids"])
        names = [column["name"] for column in wanted["fields"] if column["id"] in numbers]
        return lambda update: update.setIdentifierFields(names)

    def _paths(self, name: str) -> list[str]:
        return [name, f"{BEFORE}.{name}"] if self._form.is_history else [name]
