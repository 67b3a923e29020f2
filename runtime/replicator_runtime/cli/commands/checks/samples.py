"""A few rows of a table as texts, within bounds: what `replicator tables --rows` prints."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

    from replicator_runtime.config.pipeline import PipelineEnd
    from replicator_sdk.schema import TableSchema

MOST_ROWS = 50
LONGEST = 200
"""Characters of a value that are shown."""
_MOST_CHARACTERS = 256 * 1024
"""Of all rows of a table; those after them are left out."""


def sample_of(loaded: PipelineEnd, described: TableSchema, rows: int) -> dict[str, Any]:
    """The selected columns of a table with texts of at most `rows` rows; all columns where the table is not selected.

    A text has at most `LONGEST` characters; `cut` has the places of those that are longer, by row and column.

    Raises:
        NeedsUserError: RPL-1386 when the source reads no rows but by a log; else as a copy of the table fails.
    """
    from replicator_runtime.config.pipeline import out_of_range_of
    from replicator_sdk.errors import NeedsUserError
    from replicator_sdk.source import EventReaderDefinition

    chosen = loaded.selection.matches(described.table)
    schema = described.select(chosen.columns) if chosen and chosen.columns else described
    definition = EventReaderDefinition(
        {described.table: schema},
        out_of_range_of(loaded.source),
        conditions={described.table: chosen.where} if chosen and chosen.where else {},
    )
    found = loaded.source.sample_rows(definition, described.table, min(rows, MOST_ROWS))
    if found is None:
        raise NeedsUserError(
            "the source shows no rows: it has a log only, or takes no samples",
            code="RPL-1386",
            hint="look at the rows with a client of the source",
            table=str(described.table),
        )
    return {"columns": list(schema.names), **_texts(found)}


def _texts(found: pa.RecordBatch) -> dict[str, Any]:
    columns = [[_text(value) for value in column.to_pylist()] for column in found.columns]
    rows: list[list[str | None]] = []
    cut: list[list[int]] = []
    size = 0
    for texts in zip(*columns, strict=True):
        cut += [[len(rows), place] for place, text in enumerate(texts) if text is not None and len(text) > LONGEST]
        rows.append([None if text is None else text[:LONGEST] for text in texts])
        size += sum(len(text) for text in rows[-1] if text is not None)
        if size > _MOST_CHARACTERS:
            break
    return {"rows": rows, "cut": cut}


def _text(value: Any) -> str | None:
    """A value as text; one character more than is shown is enough of bytes."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return f"0x{value[:LONGEST].hex()}"
    if isinstance(value, dict | list):
        return json.dumps(value, default=str, ensure_ascii=False)
    return value.isoformat() if hasattr(value, "isoformat") else str(value)
