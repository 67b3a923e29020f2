"""Reads the server's catalogue of tables and columns, in the form of `definition`.

MySQL and MariaDB answer alike but for defaults: MySQL writes a constant bare and marks an expression in EXTRA; MariaDB
writes every default as SQL, so that a constant is what reads as a literal.
"""

from __future__ import annotations

import contextlib
import re
from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from replicator_sdk.schema import TableId
from replicator_source_mysql.connect.connection import execute, named_rows, quote_identifier, server_of, variables
from replicator_source_mysql.definition import PRIMARY, ColumnDefinition, TableDefinition, UniqueKey

if TYPE_CHECKING:
    import pymysql

SYSTEM_DATABASES = frozenset({"mysql", "sys", "information_schema", "performance_schema"})

_TABLES = """
SELECT TABLE_SCHEMA, TABLE_NAME, TABLE_COLLATION FROM information_schema.TABLES
WHERE TABLE_TYPE IN ('BASE TABLE', 'SYSTEM VERSIONED') AND {where}
"""
_COLUMNS = """
SELECT TABLE_SCHEMA, TABLE_NAME, COLUMN_NAME, COLUMN_TYPE, IS_NULLABLE, CHARACTER_SET_NAME, COLUMN_DEFAULT, EXTRA
FROM information_schema.COLUMNS WHERE {where} ORDER BY TABLE_SCHEMA, TABLE_NAME, ORDINAL_POSITION
"""
_KEYS = """
SELECT TABLE_SCHEMA, TABLE_NAME, INDEX_NAME, COLUMN_NAME
FROM information_schema.STATISTICS WHERE NON_UNIQUE = {plain} AND {where}
ORDER BY TABLE_SCHEMA, TABLE_NAME, INDEX_NAME, SEQ_IN_INDEX
"""
_NUMBER = re.compile(r"[-+]?\d+(\.\d*)?(e[-+]?\d+)?", re.IGNORECASE)
_BITS = re.compile(r"b'[01]*'", re.IGNORECASE)
_HEXED = re.compile(r"x'([0-9a-f]*)'", re.IGNORECASE)
_QUOTED = re.compile(r"'((?:[^'\\]|''|\\.)*)'", re.DOTALL)
_ESCAPED = re.compile(r"''|\\(.)", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "b": "\b", "Z": "\x1a"}
_BINARY_TYPES = ("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob")

_Names = tuple[str, str]


class Catalogue:
    """Queries the catalogue over one connection; remembers only which server it is. Used by one thread."""

    def __init__(self, connection: pymysql.Connection[Any]) -> None:
        self.connection = connection
        self.server = server_of(connection)
        if not self.server.is_mariadb:
            # The key that MySQL adds by itself to a table without one is in the binlog, hidden here or not.
            with contextlib.suppress(Exception):
                execute(connection, "SET SESSION show_gipk_in_create_table_and_information_schema = ON")

    def find(self, table: TableId) -> TableDefinition | None:
        """The definition of one table now, under the server's own spelling; None when there is none that the account may see."""
        found = self._definitions("TABLE_SCHEMA = %s AND TABLE_NAME = %s", [table.database, table.table])
        if table in found:
            return found[table]
        return next(iter(found.values()), None) if self.ignores_case else None

    def definitions(self, databases: Collection[str] | None = None) -> dict[TableId, TableDefinition]:
        """All base tables of `databases`, of every database but the system's own when None; in three queries."""
        if databases is not None and not databases:
            return {}
        where, values = _databases(databases)
        return self._definitions(where, values)

    def indexes(self, databases: Collection[str]) -> dict[TableId, tuple[UniqueKey, ...]]:
        """The indexes of base tables that are not unique; they say nothing about rows, but their names are taken."""
        if not databases:
            return {}
        where, values = _databases(databases)
        found: dict[TableId, dict[str, list[str | None]]] = defaultdict(dict)
        for schema, name, index, column in execute(self.connection, _KEYS.format(plain=1, where=where), values):
            found[TableId(str(schema), str(name))].setdefault(str(index), []).append(column)
        return {
            table: tuple(
                UniqueKey(name, tuple(c for c in parts if c) if all(parts) else ()) for name, parts in of.items()
            )
            for table, of in found.items()
        }

    @property
    def ignores_case(self) -> bool:
        """Whether names of tables have no case (`lower_case_table_names` 1 or 2)."""
        return variables(self.connection, "lower_case_table_names").get("lower_case_table_names", "0") != "0"

    def _definitions(self, where: str, values: list[str]) -> dict[TableId, TableDefinition]:
        tables = {
            (str(schema), str(name)): charset_of(collation)
            for schema, name, collation in execute(self.connection, _TABLES.format(where=where), values)
        }
        columns: dict[_Names, list[ColumnDefinition]] = defaultdict(list)
        for schema, name, *facts in execute(self.connection, _COLUMNS.format(where=where), values):
            columns[schema, name].append(column_definition(*facts, is_mariadb=self.server.is_mariadb))
        keys: dict[_Names, dict[str, list[str | None]]] = defaultdict(dict)
        for schema, name, index, column in execute(self.connection, _KEYS.format(plain=0, where=where), values):
            keys[schema, name].setdefault(index, []).append(column)
        # A table dropped between the queries has no columns.
        return {
            (table := TableId(*names)): TableDefinition(
                table, tuple(columns[names]), self._keys(names, keys.get(names, {})), charset
            )
            for names, charset in tables.items()
            if columns.get(names)
        }

    def _keys(self, names: _Names, found: Mapping[str, list[str | None]]) -> tuple[UniqueKey, ...]:
        keys = [UniqueKey(name, tuple(c for c in parts if c) if all(parts) else ()) for name, parts in found.items()]
        if PRIMARY not in found and len(keys) > 1:
            # Which of several keys the log goes by depends on their order, which only SHOW INDEX shows.
            shown = named_rows(
                self.connection, f"SHOW INDEX FROM {quote_identifier(names[0])}.{quote_identifier(names[1])}"
            )
            order = list(dict.fromkeys(str(row["key_name"]) for row in shown))
            return tuple(sorted(keys, key=lambda key: order.index(key.name) if key.name in order else len(order)))
        return tuple(sorted(keys, key=lambda key: not key.is_primary))


def _databases(databases: Collection[str] | None) -> tuple[str, list[str]]:
    if databases is None:
        return f"TABLE_SCHEMA NOT IN ({', '.join(['%s'] * len(SYSTEM_DATABASES))})", sorted(SYSTEM_DATABASES)
    wanted = sorted(name for name in databases if name.lower() not in SYSTEM_DATABASES) or [""]
    if len(wanted) == 1:
        return "TABLE_SCHEMA = %s", wanted  # the one form in which MariaDB opens no other database
    return f"TABLE_SCHEMA IN ({', '.join(['%s'] * len(wanted))})", wanted


def charset_of(collation: str | None) -> str:
    """A collation's character set, which its name begins with."""
    return _charset((collation or "").partition("_")[0])


def _charset(name: str | None) -> str:
    return "utf8mb3" if name == "utf8" else name or ""


def column_definition(
    name: str, kind: str, nullable: str, charset: str | None, default: str | None, extra: str, *, is_mariadb: bool
) -> ColumnDefinition:
    """A row of `information_schema.COLUMNS` as a definition; see the module for the two ways to write a default."""
    marks = extra.upper()
    is_generated = bool(re.search(r"\b(VIRTUAL|STORED|PERSISTENT) GENERATED\b|^(VIRTUAL|PERSISTENT)\b", marks))
    if is_generated or default is None:
        constant, is_expression = None, False
    elif is_mariadb:
        constant, is_expression = _mariadb_default(kind, default)
    else:
        is_expression = "DEFAULT_GENERATED" in marks or _is_now(kind, default)
        constant = None if is_expression else default
    return ColumnDefinition(
        name,
        kind,
        nullable == "YES",
        _charset(charset),
        constant,
        is_expression,
        is_generated,
        "INVISIBLE" in marks,
        "AUTO_INCREMENT" in marks,
    )


def _is_now(kind: str, default: str) -> bool:
    """MySQL 5.7 does not mark CURRENT_TIMESTAMP; no constant of these types reads so."""
    return kind.startswith(("datetime", "timestamp")) and default.upper().startswith(("CURRENT_TIMESTAMP", "NOW("))


def _mariadb_default(kind: str, written: str) -> tuple[str | None, bool]:
    """The constant that `written` is, and whether it is none."""
    if written.upper() == "NULL":
        return None, False
    if _NUMBER.fullmatch(written) or _BITS.fullmatch(written):
        return written, False
    is_binary = kind.partition("(")[0].partition(" ")[0] in _BINARY_TYPES
    if is_binary and (hexed := _HEXED.fullmatch(written)):
        return "0x" + hexed[1].upper(), False
    quoted = _QUOTED.fullmatch(written)
    if quoted is None:
        return None, True
    text = _ESCAPED.sub(lambda found: _ESCAPES.get(found[1], found[1]) if found[1] else "'", quoted[1])
    if is_binary:
        # Before MariaDB 11 shown as text, with a question mark for every byte that is none: then the value is not known.
        return ("0x" + text.encode().hex().upper(), False) if text.isascii() and "?" not in text else (None, True)
    return text, False
