"""The real server as the oracle of the schema history: what its binlog says is applied, its catalogue is compared."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from replicator_sdk.schema import TableId
from replicator_source_mysql.connect.catalogue import Catalogue
from replicator_source_mysql.ddl.apply.apply_effects import apply_effects
from replicator_source_mysql.ddl.apply.known_tables import KnownTable, KnownTables, UnknownTable
from replicator_source_mysql.ddl.apply.table_change import TableChange
from replicator_source_mysql.ddl.lex.session import Session
from replicator_source_mysql.ddl.parse.statement import read_statement
from replicator_source_mysql.definition import ColumnDefinition, TableDefinition

_USE = re.compile(r'^use [`"]((?:[^`"]|``)*)[`"]; ', re.DOTALL)


@dataclass
class ServerOracle:
    """A connection to the server, and the history of what ran through it.

    Attributes:
        connection: Of PyMySQL, or anything with its cursor.
        is_mariadb: The make of the server.
        databases: The databases that are compared.
        structures: What the history knows.
        ddl: The statements the log showed.
    """

    connection: Any
    is_mariadb: bool
    databases: Sequence[str]
    session: Session = field(default_factory=Session)
    ddl: list[str] = field(default_factory=list)
    structures: KnownTables = field(default_factory=KnownTables)

    def __post_init__(self) -> None:
        names = {name.lower() for name in self.databases}
        self.structures = KnownTables(0, lambda name: name.lower() in names)
        for name, charset in self.query(
            "select SCHEMA_NAME, DEFAULT_CHARACTER_SET_NAME from information_schema.SCHEMATA where SCHEMA_NAME in "
            f"({self._listed()})"
        ):
            self.structures.put_database(name, charset)
        self._place = self._log_end()

    def _listed(self) -> str:
        return ", ".join(f"'{name}'" for name in self.databases)

    def query(self, statement: str) -> list[tuple[Any, ...]]:
        """Rows of a statement."""
        with self.connection.cursor() as cursor:
            cursor.execute(statement)
            return list(cursor.fetchall())

    def _log_end(self) -> tuple[str, int]:
        status = "show master status" if self.is_mariadb else "show binary log status"
        row = self.query(status)[0]
        return str(row[0]), int(row[1])

    def placed(self, statement: str) -> str:
        """A statement of the corpus with the names of these databases."""
        return re.sub(r"\bh([12])\b", lambda found: self.databases[int(found[1]) - 1], statement)

    def session_with(self, **settings: bool) -> Session:
        """The session the log's statements are read with, with other settings."""
        return replace(self.session, **settings)  # type: ignore[arg-type]

    def run(self, statement: str) -> list[TableChange]:
        """Run a statement and apply what the log shows of it."""
        self.query(statement)
        return self.follow()

    def follow(self) -> list[TableChange]:
        """Apply what the log shows since the last time."""
        file, start = self._place
        self._place = self._log_end()
        changes: list[TableChange] = []
        if self._place == (file, start):
            return changes
        for row in self.query(f"show binlog events in '{file}' from {start}"):
            if row[2] != "Query":
                continue
            text = str(row[5])
            used = _USE.match(text)
            database = used[1].replace("``", "`") if used else ""
            self.ddl.append(_USE.sub("", text))
            session = replace(
                self.session,
                database=database,
                is_mariadb=self.is_mariadb,
                server_charset="utf8mb4",
                time_zone="+00:00",
            )
            changes += apply_effects(read_statement(self.ddl[-1], session), self.structures)
        return changes

    def history(self) -> dict[TableId, TableDefinition]:
        """What the history knows."""
        known = {}
        for table, entry in self.structures.entries():
            assert not isinstance(entry, UnknownTable), f"{table} {entry}\n{self.ddl[-1]}"
            assert isinstance(entry, KnownTable)
            known[table] = entry.definition
        return known

    def catalogue(self) -> dict[TableId, TableDefinition]:
        """What the server's catalogue says."""
        return Catalogue(self.connection).definitions(self.databases)


def plain(definition: TableDefinition) -> list[Any]:
    """A definition in a form that can be compared: defaults of floating point as numbers, keys in the order that matters."""
    columns = [
        (c.name, c.type, c.nullable, c.charset, *_comparable(c), c.is_generated, c.is_invisible, c.is_auto_increment)
        for c in definition.columns
    ]
    # After a primary key the catalogue gives the others in order of their names.
    keys = [(key.name, key.columns) for key in definition.keys]
    return [
        *columns,
        *(sorted(keys) if definition.keys and definition.keys[0].is_primary else keys),
        definition.charset,
    ]


def _comparable(column: ColumnDefinition) -> tuple[object, bool]:
    """The default, and whether it is computed; MariaDB 11's catalogue cannot show that of binary columns."""
    if column.type.startswith("binary") or "blob" in column.type:
        return None, False
    if column.default is not None and column.type.startswith(("float", "double")):
        return float(column.default), False
    return column.default, column.has_expression_default


def differences(left: Iterable[Any], right: Iterable[Any]) -> str:
    """The lines in which two definitions differ, for the message of an assertion."""
    return "\n".join(f"{a}\n{b}" for a, b in zip(left, right, strict=False) if a != b)


def compare(oracle: ServerOracle) -> None:
    """The history is the catalogue."""
    history, catalogue = oracle.history(), oracle.catalogue()
    assert set(history) == set(catalogue), oracle.ddl[-3:]
    for table, known in history.items():
        ours, theirs = plain(known), plain(catalogue[table])
        assert ours == theirs, f"{table}: {oracle.ddl[-1]}\n{differences(ours, theirs)}"
