"""What a table of the mode `append` leads to: a reader's work, done here row by row and by other means than the target's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from replicator_sdk.schema import TableSchema

Row = dict[str, Any]


def folded(history: list[Row], schema: TableSchema) -> list[Row]:
    """The rows that are there after all changes, in the order of their sequence numbers."""
    rows: list[Row] = []
    for change in sorted(history, key=lambda row: int(row["_sequence_num"])):
        row = {name: change[name] for name in schema.names}
        if change["_op"] == "T":
            rows.clear()
        elif change["_op"] in {"I", "S"}:
            _take_away(rows, row, schema)
            rows.append(row)
        else:
            before = change["_before"] or row
            old = _take_away(rows, before, schema, always=True)
            if change["_op"] == "U":
                _take_away(rows, row, schema)
                rows.append(row | {name: (old or {}).get(name) for name in change["_unchanged"] or ()})
    return rows


def _take_away(rows: list[Row], wanted: Mapping[str, Any], schema: TableSchema, *, always: bool = False) -> Row | None:
    """Take the row of that key out; of a table without a key one equal row, where `always`."""
    names = schema.primary_key or (schema.names if always else ())
    for place, row in enumerate(rows):
        if names and all(_same(row[name], wanted.get(name)) for name in names):
            return rows.pop(place)
    return None


def _same(one: Any, other: Any) -> bool:
    return bool(one == other or (one != one and other != other))
