"""Changes as record batches of Arrow, for files that are read again by the same release or a later one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from replicator_sdk import ChangeBatch, Refusal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from replicator_sdk import TableSchema


def packed_type(schema: TableSchema) -> pa.Schema:
    """The schema of the record batches that `pack` makes."""
    return pa.schema(
        [
            pa.field("op", pa.int8()),
            pa.field("row", schema.struct),
            pa.field("before", schema.struct),
            pa.field("ordinal", pa.int64()),
            pa.field("sequence", pa.int64()),
            pa.field("timestamp", pa.int64()),
            *(pa.field(f"unchanged {index}", pa.bool_()) for index in range(len(schema.columns))),
        ]
    )


def pack(batch: ChangeBatch) -> tuple[pa.RecordBatch, dict[str, bytes]]:
    """A numbered batch as a record batch, and the metadata to be written with it."""
    schema, rows = batch.schema, len(batch)
    absent = pa.nulls(rows, pa.bool_())
    arrays = [
        batch.op,
        batch.row,
        pa.nulls(rows, schema.struct) if batch.before is None else batch.before,
        pa.array(batch.ordinals),
        pa.array(batch.sequence_numbers),
        pa.nulls(rows, pa.int64()) if batch.timestamps is None else pa.array(batch.timestamps),
        *(batch.unchanged.get(name, absent) for name in schema.names),
    ]
    marks: dict[str, Any] = {
        "full": batch.before_is_full,
        "snapshot": batch.is_snapshot,
        "unordered": batch.is_unordered,
    }
    if batch.refused:
        marks["refused"] = {name: [r.code, r.what, r.indexes.tolist()] for name, r in batch.refused.items()}
    return pa.RecordBatch.from_arrays(arrays, schema=packed_type(schema)), {"flags": json.dumps(marks).encode()}


def unpack(schema: TableSchema, packed: pa.RecordBatch, metadata: Mapping[str, bytes]) -> ChangeBatch:
    """The inverse of `pack`."""
    op, row, before, ordinals, sequence, timestamps, *masks = packed.columns
    pairs = zip(schema.names, masks, strict=True)
    flags = json.loads(metadata["flags"])
    return ChangeBatch(
        schema,
        op,
        row,
        None if before.null_count == len(before) else before,
        ordinals.to_numpy(),
        {name: mask for name, mask in pairs if mask.null_count < len(mask)},
        flags["full"],
        flags["snapshot"],
        sequence.to_numpy().astype(np.int64),
        None if timestamps.null_count else timestamps.to_numpy().astype(np.int64),
        flags["unordered"],
        {name: _refusal(len(op), *parts) for name, parts in flags.get("refused", {}).items()},
    )


def _refusal(rows: int, code: str, what: str, indexes: list[int]) -> Refusal:
    mask = np.zeros(rows, np.bool_)
    mask[indexes] = True
    return Refusal(pa.array(mask), code, what)
