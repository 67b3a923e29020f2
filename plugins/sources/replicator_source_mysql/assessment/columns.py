"""How each column arrives, in words."""

from __future__ import annotations

from replicator_sdk.discovery.assessment import ColumnAssessment, Finding, Severity, Support
from replicator_sdk.schema import TableId
from replicator_source_mysql.connect.connection import quote_identifier
from replicator_source_mysql.definition import ColumnDefinition, TableDefinition
from replicator_source_mysql.types.column_type import parse_column_type
from replicator_source_mysql.types.mapping import standard_type

_UNSUPPORTED = "RPL-3731"

_NOTES = {
    "time": "arrives as text, [-]HHH:MM:SS with its digits",
    "enum": "arrives as the member's text",
    "set": "arrives as its members' text, with commas",
    "geometry": "arrives as WKB, without the number of its reference system",
    "year": "arrives as a whole number",
}
_GEOMETRIES = frozenset(
    {
        "point",
        "linestring",
        "polygon",
        "multipoint",
        "multilinestring",
        "multipolygon",
        "geometrycollection",
        "geomcollection",
    }
)
_DATES = frozenset({"date", "datetime", "timestamp"})
_ZERO_DATES = {
    "null": "zero and partial dates arrive as NULL and are counted",
    "fail": "a zero or partial date stops the table",
    "text": "arrives as text, because zeroDates is text",
}


def column_assessments(definition: TableDefinition, zero_dates: str) -> tuple[ColumnAssessment, ...]:
    """One for each column, in the table's order."""
    return tuple(_assessed(column, zero_dates) for column in definition.columns)


def _assessed(column: ColumnDefinition, zero_dates: str) -> ColumnAssessment:
    kind = standard_type(column.type, zero_dates)
    if kind is None:
        return ColumnAssessment(column.name, column.type, "", Support.NO, "the type is not supported")
    note = _note(column, zero_dates)
    return ColumnAssessment(column.name, column.type, str(kind), Support.PARTIAL if note else Support.YES, note)


def _note(column: ColumnDefinition, zero_dates: str) -> str:
    kind = parse_column_type(column.type)
    name = "geometry" if kind.name in _GEOMETRIES else kind.name
    if name in _DATES:
        return _ZERO_DATES[zero_dates]
    if name == "decimal" and kind.parameter(0, 10) > 38:
        return "more than 38 digits: arrives as its exact text"
    if name == "bigint" and kind.is_unsigned:
        return "arrives as decimal(20,0)"
    if name == "bit" and kind.parameter(0, 1) > 1:
        return "arrives as big-endian bytes"
    return _NOTES.get(name, "")


def column_findings(table: TableId, columns: tuple[ColumnAssessment, ...]) -> list[Finding]:
    """Findings about columns that cannot be replicated."""
    return [
        Finding(
            "unsupported_type",
            Severity.ERROR,
            f"column {column.name} has the type {column.source_type}, which is not supported",
            "the table cannot be replicated with it",
            "leave it out: list the others under the table's `columns`",
            fix=f"ALTER TABLE {quote_identifier(table.database)}.{quote_identifier(table.table)}"
            f" MODIFY {quote_identifier(column.name)} longtext;",
            table=table,
            column=column.name,
            code=_UNSUPPORTED,
        )
        for column in columns
        if column.support is Support.NO
    ]
