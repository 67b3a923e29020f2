"""How each column arrives, and which columns keep a form that the settings would not give them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from replicator_sdk.config import OutOfRange
from replicator_sdk.datatype import JSON, UUID, Array, DataType, Record
from replicator_sdk.discovery.assessment import ColumnAssessment, Finding, Severity, Support
from replicator_sdk.schema import TableSchema
from replicator_target_bigquery.schema.fields import Field, is_wrapped
from replicator_target_bigquery.schema.layout import TableLayout
from replicator_target_bigquery.schema.names import column_name

_UUID: Final = "text in its 36-character form"
_JSON_TEXT: Final = "text as the source writes it: BigQuery's JSON would change numbers and order"
_JSON: Final = "BigQuery's JSON: numbers and the order of names may change"
_WRAPPED: Final = "elements are in `list[…].element`"


def has_two_forms(kind: DataType) -> bool:
    """Whether the settings choose between two forms for a type, or for one inside it."""
    if isinstance(kind, Record):
        return any(has_two_forms(inner) for _, inner in kind.fields)
    return isinstance(kind, Array) or kind == JSON


def column_assessments(
    schema: TableSchema, layout: TableLayout, present: Sequence[Field]
) -> tuple[ColumnAssessment, ...]:
    """How each column arrives, in order.

    Args:
        schema: The table.
        layout: What its target table looks like.
        present: The columns of the table that exists; empty for none.
    """
    fields = _fields(schema, layout, present)
    skips = layout.config.out_of_range is not OutOfRange.FAIL
    return tuple(
        ColumnAssessment(c.name, c.source_type, made.sql, Support.PARTIAL if note else Support.YES, note)
        for c in schema.columns
        for made in (fields[c.name],)
        for note in ("; ".join(filter(None, (_note(c.type, made, skips=skips), _renamed(c.name)))),)
    )


def kept_forms(schema: TableSchema, layout: TableLayout, present: Sequence[Field]) -> list[Finding]:
    """The columns whose arrays or JSON keep the form that an earlier run gave them."""
    if not present:
        return []
    now, new = _fields(schema, layout, present), _fields(schema, layout, ())
    kept = [c.name for c in schema.columns if now[c.name].sql != new[c.name].sql]
    if not kept:
        return []
    return [
        Finding(
            "form_kept",
            Severity.INFO,
            f"{', '.join(kept)} keep the form that they have in the table, not that of `arrays` and `json`",
            "the columns of a table that exists never change their form by themselves",
            "to change it, drop the table at BigQuery: it is copied again",
            table=schema.table,
        )
    ]


def _fields(schema: TableSchema, layout: TableLayout, present: Sequence[Field]) -> Mapping[str, Field]:
    there = {f.name.lower(): f for f in present}
    return {
        c.name: layout.column(
            c,
            column_name(c.name),
            is_key=c.name in schema.primary_key,
            like=there.get(column_name(c.name).lower()),
        )
        for c in schema.columns
    }


def _renamed(name: str) -> str:
    return "" if column_name(name) == name else f"named {column_name(name)}"


def _note(kind: DataType, made: Field, *, skips: bool) -> str:
    """What a value becomes at the target, nested values included."""
    if isinstance(kind, Array):
        if made.mode == "REPEATED":
            nulls = "elements that are NULL are left out" if skips else "an element that is NULL stops the table"
            return f"NULL becomes an empty array; {nulls}"
        return _WRAPPED if is_wrapped(made) else ""
    if isinstance(kind, Record):
        inside = {f.name.lower(): f for f in made.fields}
        notes = (_note(k, inside[column_name(n).lower()], skips=skips) for n, k in kind.fields)
        return "; ".join(dict.fromkeys(filter(None, notes)))
    if kind == JSON:
        return _JSON if made.type == "JSON" else _JSON_TEXT
    return _UUID if kind == UUID else ""
