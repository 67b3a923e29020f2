"""The standard type of each of MySQL's and MariaDB's types."""

from __future__ import annotations

from collections.abc import Collection

from replicator_sdk.datatype import (
    BINARY,
    BOOL,
    DATE,
    FLOAT32,
    FLOAT64,
    INSTANT,
    INT8,
    INT16,
    INT32,
    INT64,
    JSON,
    STRING,
    TIMESTAMP,
    UUID,
    Array,
    DataType,
    Decimal,
)
from replicator_sdk.errors import NeedsUserError
from replicator_sdk.schema import Column, TableSchema
from replicator_source_mysql.definition import ColumnDefinition, TableDefinition
from replicator_source_mysql.types.column_type import ColumnType, parse_column_type

ZERO_DATES_AS_TEXT = "text"

_SIGNED = {"tinyint": INT8, "smallint": INT16, "mediumint": INT32, "int": INT32, "bigint": INT64}
_UNSIGNED = {"tinyint": INT16, "smallint": INT32, "mediumint": INT32, "int": INT64, "bigint": Decimal(20, 0)}
_TEMPORAL = {"date": DATE, "datetime": TIMESTAMP, "timestamp": INSTANT}
GEOMETRY = {
    "geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon",
    "geometrycollection", "geomcollection",
}  # fmt: skip
_PLAIN: dict[str, DataType] = {
    "float": FLOAT32,
    "double": FLOAT64,
    "time": STRING,
    "year": INT16,
    "char": STRING,
    "varchar": STRING,
    "tinytext": STRING,
    "text": STRING,
    "mediumtext": STRING,
    "longtext": STRING,
    "enum": STRING,
    "set": STRING,
    "json": JSON,
    "binary": BINARY,
    "varbinary": BINARY,
    "tinyblob": BINARY,
    "blob": BINARY,
    "mediumblob": BINARY,
    "longblob": BINARY,
    "vector": Array(FLOAT32),
    "uuid": UUID,
    "inet4": STRING,
    "inet6": STRING,
    **dict.fromkeys(GEOMETRY, BINARY),
}
INTEGER_ALIASES = {"integer": "int"}


def standard_type(text: str, zero_dates: str = "null") -> DataType | None:
    """The standard type of a column type, None when there is none.

    Args:
        text: The type as the catalogue writes it.
        zero_dates: The source's `zeroDates`; with `text` dates and datetimes are strings.
    """
    kind = parse_column_type(text)
    name = INTEGER_ALIASES.get(kind.name, kind.name)
    if name in _SIGNED:
        return (_UNSIGNED if kind.is_unsigned else _SIGNED)[name]
    if name == "decimal":
        return _decimal(kind)
    if name == "bit":
        return BOOL if kind.parameter(0, 1) == 1 else BINARY
    if name in _TEMPORAL:
        return STRING if zero_dates == ZERO_DATES_AS_TEXT else _TEMPORAL[name]
    return _PLAIN.get(name)


def _decimal(kind: ColumnType) -> DataType:
    precision, scale = kind.parameter(0, 10), kind.parameter(1, 0)
    return Decimal(precision, scale) if precision <= 38 else STRING


def table_schema(
    definition: TableDefinition, *, zero_dates: str = "null", names: Collection[str] | None = None
) -> TableSchema:
    """The schema of rows of `definition`.

    Args:
        definition: The table.
        zero_dates: The source's `zeroDates`.
        names: The selected columns; None for all. The key is always among them.

    Raises:
        NeedsUserError: When a column's type has no standard type.
    """
    key = definition.identity
    wanted = None if names is None else {*names, *key}
    columns = tuple(
        _column(definition, column, zero_dates)
        for column in definition.columns
        if wanted is None or column.name in wanted
    )
    return TableSchema(definition.table, columns, key)


def _column(definition: TableDefinition, column: ColumnDefinition, zero_dates: str) -> Column:
    kind = standard_type(column.type, zero_dates)
    if kind is None:
        raise NeedsUserError(
            f"column {column.name!r} has the type {column.type}, which is not supported",
            code="RPL-3731",
            table=str(definition.table),
            hint="leave the column out: list the others under the table's `columns`",
        )
    return Column(column.name, kind, column.nullable, column.type)
