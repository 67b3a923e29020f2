"""Findings about columns: how each is transferred."""

from __future__ import annotations

from replicator_sdk.datatype import STRING, Array, DataType
from replicator_sdk.discovery.assessment import ColumnAssessment, Support
from replicator_sdk.schema import Column

_LOSSY: dict[str, str] = {
    "numeric": "unbounded numeric arrives as its exact text",
    "interval": "arrives as ISO 8601 text, e.g. P1DT2H",
    "money": "arrives as text in the server's lc_monetary form",
    "time with time zone": "arrives as text",
}

_POLICY_TYPES = {
    "date": "infinity and years outside 1 to 9999 follow outOfRange",
    "timestamp": "infinity and years outside 1 to 9999 follow outOfRange",
    "instant": "infinity and years outside 1 to 9999 follow outOfRange",
    "time": "24:00:00 follows outOfRange",
}


def about_column(column: Column) -> ColumnAssessment:
    """Whether the column is transferred exactly, and what changes where it is not."""
    note = _note(column.source_type, column.type)
    support = Support.PARTIAL if note else Support.YES
    return ColumnAssessment(column.name, column.source_type, str(column.type), support, note)


def _note(source_type: str, kind: DataType) -> str:
    """What changes in the transfer, in words."""
    if isinstance(kind, Array):
        inner = _note(source_type.removesuffix("[]"), kind.element)
        shape = "arrays of several dimensions or with other bounds follow outOfRange"
        return f"{shape}; elements: {inner}" if inner else shape
    if kind == STRING:
        bare = source_type.partition("(")[0]
        if bare in {"text", "character varying", "character", "name", '"char"'}:
            return ""
        return _LOSSY.get(source_type, _LOSSY.get(bare, "arrives as its text"))
    if str(kind).startswith("decimal"):
        return "NaN follows outOfRange"
    return _POLICY_TYPES.get(str(kind), "")
