"""Removals whose rows are not there yet, under a table's new columns: they are stored as text, which names the columns."""
# ruff: noqa: S608 - names pass through `sql.text.name`, values through `text` or are numbers

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from replicator_sdk.event import AlterKind, DDLEvent
from replicator_target_bigquery.ddl.conversions import literal
from replicator_target_bigquery.schema.fields import Field
from replicator_target_bigquery.schema.names import column_name
from replicator_target_bigquery.sql.text import name, text


@dataclass(frozen=True, slots=True)
class _Origin:
    """Where a column's value comes from.

    Attributes:
        column: The former column; empty for a new one.
        default: The value of a new one.
        is_converted: Whether the column has another type.
    """

    column: str = ""
    default: Any = None
    is_converted: bool = False


def follow(unmatched: str, event: DDLEvent, fields: Iterable[Field]) -> str:
    """The statement that rewrites the stored rows as `row_text` writes the target's after the event.

    Args:
        unmatched: The table of the stored rows, quoted.
        event: An ALTER_TABLE.
        fields: The source's columns at the target after it, in order.
    """
    origins = _origins(event)
    parts = [
        f"{text(prefix)}, {_value(field, origins.get(field.name, _Origin(field.name)))}"
        for prefix, field in ((f'{"," if place else ""}"{f.name}":', f) for place, f in enumerate(fields))
    ]
    return f"UPDATE {unmatched} SET {name('_row')} = CONCAT('{{', {', '.join(parts)}, '}}') WHERE TRUE"


def _origins(event: DDLEvent) -> dict[str, _Origin]:
    """Column after the event → its origin; columns that the event does not touch are left out."""
    found: dict[str, _Origin] = {}
    for alter in event.alters:
        old = column_name(alter.previous.name) if alter.previous is not None else ""
        new = column_name(alter.column.name) if alter.column is not None else ""
        if alter.kind is AlterKind.ADD_COLUMN:
            found[new] = _Origin(default=None if event.needs_snapshot else alter.default)
        elif alter.kind is AlterKind.DROP_COLUMN:
            found.pop(old, None)
        elif alter.kind is AlterKind.RENAME_COLUMN:
            found[new] = found.pop(old, _Origin(old))
        elif alter.kind is AlterKind.RETYPE_COLUMN:
            found[new] = replace(found.pop(old, _Origin(old)), is_converted=True)
    return found


def _value(field: Field, origin: _Origin) -> str:
    """The column's value as JSON text."""
    if not origin.column:
        made = None if origin.default is None else literal(field, origin.default)
        return "'null'" if made is None else f"TO_JSON_STRING({made})"
    path = text(f"$.{origin.column}")
    if origin.is_converted and field.mode != "REPEATED" and field.type not in {"STRUCT", "JSON"}:
        return f"IFNULL(TO_JSON_STRING(CAST(JSON_VALUE(_row, {path}) AS {field.sql})), 'null')"
    return f"IFNULL(JSON_QUERY(_row, {path}), 'null')"
