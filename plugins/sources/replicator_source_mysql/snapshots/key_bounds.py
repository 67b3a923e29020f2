"""Values of key columns as bounds: written by the server, kept as JSON, and returned to it without loss.

A bound has to sort where the server sorts it. So text travels as bytes in the column's own character set and is compared
by the server in the column's own collation; binary travels as hex, numbers as numbers or their exact text.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Any

from replicator_source_mysql.connect.catalogue import charset_of
from replicator_source_mysql.connect.connection import quote_identifier
from replicator_source_mysql.definition import ColumnDefinition
from replicator_source_mysql.types.column_type import parse_column_type

_INTEGERS = frozenset({"tinyint", "smallint", "mediumint", "int", "integer", "bigint", "year"})
_TEXTS = frozenset({"char", "varchar"})
_BINARIES = frozenset({"binary", "varbinary"})
_TEMPORALS = frozenset({"date", "datetime", "timestamp"})
_WRITTEN = frozenset({"decimal", "time", "uuid", "inet4", "inet6"})


@dataclass(frozen=True, slots=True)
class KeyColumn:
    """How values of one key column are selected and written as literals.

    Attributes:
        name: The column.
        kind: `integer`, `bits`, `enum`, `real`, `text`, `binary`, `temporal` or `written`.
        collation: Of `text`; ranges mean other rows under another one.
    """

    name: str
    kind: str
    collation: str = ""

    @property
    def column(self) -> str:
        """The column in SQL."""
        return quote_identifier(self.name)

    @property
    def expression(self) -> str:
        """What to SELECT, so that `from_server` understands it."""
        forms = {
            "bits": "CAST({} AS UNSIGNED)",
            "enum": "CAST({} AS UNSIGNED)",
            "real": "({} + 0e0)",
            "text": "HEX({})",
            "binary": "HEX({})",
            "temporal": "CAST({} AS CHAR)",
            "written": "CAST({} AS CHAR)",
        }
        return forms.get(self.kind, "{}").format(self.column)

    def from_server(self, value: Any) -> Any:
        """A selected value as JSON has it."""
        if self.kind in {"integer", "bits", "enum"}:
            return int(value)
        return repr(float(value)) if self.kind == "real" else str(value)

    def literal(self, bound: Any) -> str:
        """A bound in SQL, of the column's own type so that the comparison uses the index."""
        if self.kind in {"integer", "bits", "enum"}:
            return str(int(bound))
        if self.kind == "real":
            return bound if "e" in bound else f"{bound}e0"
        if self.kind == "text":
            return f"_{charset_of(self.collation)} X'{bound}'"
        return f"X'{bound}'" if self.kind == "binary" else f"'{bound}'"

    def is_comparable(self, bound: Any) -> bool:
        """Whether the server takes the value in a comparison: zero and impossible dates it may store but not read."""
        if self.kind != "temporal":
            return True
        try:
            dt.datetime.fromisoformat(bound)
        except ValueError:
            return False
        return True


def key_column(column: ColumnDefinition, collation: str) -> KeyColumn | None:
    """How ranges of `column` are written; None when it has none (SET, BLOB and TEXT with their partial keys)."""
    name = parse_column_type(column.type).name
    if name in _INTEGERS:
        return KeyColumn(column.name, "integer")
    if name in _TEXTS:
        return KeyColumn(column.name, "text", collation)
    if name in _BINARIES:
        return KeyColumn(column.name, "binary")
    if name in _TEMPORALS:
        return KeyColumn(column.name, "temporal")
    if name in _WRITTEN:
        return KeyColumn(column.name, "written")
    kinds = {"bit": "bits", "enum": "enum", "float": "real", "double": "real"}
    return KeyColumn(column.name, kinds[name]) if name in kinds else None
