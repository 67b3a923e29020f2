"""Merges changes of one table from records with several schemas, in the order of the log."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from replicator_sdk.batch import Int64s
from replicator_sdk.schema import TableSchema
from replicator_source_kafka.formats.format import Part


def merged(parts: Sequence[Part]) -> Part:
    """One part from several of the same schema; their indexes may interleave."""
    if len(parts) == 1:
        return parts[0]
    schema = parts[0].schema
    index = np.concatenate([part.index for part in parts])
    order = np.argsort(index, kind="stable")
    places = pa.array(order)
    names = sorted({name for part in parts for name in part.unchanged})
    before = None
    if any(part.before is not None for part in parts):
        before = pa.concat_arrays([_before(part, schema.struct) for part in parts]).take(places)
    return Part(
        schema=schema,
        index=index[order],
        op=pa.concat_arrays([part.op for part in parts]).take(places),
        row=pa.concat_arrays([part.row for part in parts]).take(places),
        before=before,
        before_is_full=all(part.before_is_full for part in parts if part.before is not None),
        timestamps=np.concatenate([part.timestamps for part in parts])[order],
        unchanged={name: pa.concat_arrays([_unchanged(p, name) for p in parts]).take(places) for name in names},
        truncates=np.sort(np.concatenate([part.truncates for part in parts])),
    )


def empty_part(schema: TableSchema, truncates: Int64s) -> Part:
    """A part with TRUNCATEs of a table, and no changes of rows."""
    return Part(
        schema=schema,
        index=np.empty(0, np.int64),
        op=pa.array([], pa.int8()),
        row=pa.array([], schema.struct),
        before=None,
        before_is_full=False,
        timestamps=np.empty(0, np.int64),
        truncates=truncates,
    )


def _before(part: Part, kind: pa.StructType) -> pa.StructArray:
    return pa.nulls(len(part), kind) if part.before is None else part.before


def _unchanged(part: Part, name: str) -> pa.BooleanArray:
    found = part.unchanged.get(name)
    return pa.array(np.zeros(len(part), np.bool_)) if found is None else found
