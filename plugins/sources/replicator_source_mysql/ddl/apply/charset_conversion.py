"""CONVERT TO CHARACTER SET: every text column of a table, and the size of those that hold as many characters as before."""

from __future__ import annotations

from dataclasses import replace

from replicator_source_mysql.definition import ColumnDefinition
from replicator_source_mysql.types.charset_names import BINARY, bytes_per_character

_CAPACITY = {"tinytext": 2**8 - 1, "text": 2**16 - 1, "mediumtext": 2**24 - 1}
_MAX_VARCHAR_BYTES = 2**16 - 1
_AS_BINARY = {"tinytext": "tinyblob", "text": "blob", "mediumtext": "mediumblob", "longtext": "longblob"}


def converted(column: ColumnDefinition, charset: str, *, is_mariadb: bool) -> ColumnDefinition:
    """The column in another character set; as it is when none belongs to it."""
    if not column.charset or column.charset == BINARY:
        return column
    if charset == BINARY:
        return _to_binary(column, is_mariadb=is_mariadb)
    kind = column.type
    if kind in _CAPACITY:
        characters = _CAPACITY[kind] // bytes_per_character(column.charset)
        kind = _holding(characters * bytes_per_character(charset))
    elif kind.startswith("varchar(") and kind.endswith(")"):
        size = int(kind[len("varchar(") : -1]) * bytes_per_character(charset)
        kind = _holding(size) if size > _MAX_VARCHAR_BYTES else kind
    return replace(column, type=kind, charset=charset)


def _holding(size: int) -> str:
    return next((name for name, capacity in _CAPACITY.items() if size <= capacity), "longtext")


def _to_binary(column: ColumnDefinition, *, is_mariadb: bool) -> ColumnDefinition:
    if column.type in _AS_BINARY:
        return replace(column, type=_AS_BINARY[column.type], charset="")
    if column.type.startswith("varchar("):
        return replace(column, type="varbinary(" + column.type[len("varchar(") :], charset="")
    if column.type.startswith("char("):
        return replace(column, type="binary(" + column.type[len("char(") :], charset="")
    # ENUM and SET; MySQL's catalogue names no character set for them then.
    return replace(column, charset=BINARY if is_mariadb else "")
