"""Converts arrays and structs, all elements of a column at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from replicator_sdk.authoring.arrow_buffers import bitmap, bounds_of, validity
from replicator_sdk.authoring.out_of_range import OutOfRangePolicy
from replicator_sdk.datatype import Array, Record
from replicator_source_kafka.types.column_codec import Codec


def array_of(values: pa.ListArray, element: Codec, kind: Array, limits: OutOfRangePolicy) -> pa.ListArray:
    """Lists of converted elements."""
    # Indexes of elements are not indexes of records: errors name the column only.
    inner = replace(limits, locate=None)
    elements = element.convert(values.flatten(), inner)
    bounds = bounds_of(values.value_lengths().fill_null(0).to_numpy()).astype(np.int32)
    buffers = [bitmap(validity(values)), pa.py_buffer(bounds)]
    return pa.Array.from_buffers(kind.arrow, len(values), buffers, children=[elements])


def record_of(
    values: pa.StructArray, fields: Sequence[Codec], kind: Record, limits: OutOfRangePolicy
) -> pa.StructArray:
    """Structs of converted fields."""
    children = [codec.convert(child, limits) for codec, child in zip(fields, values.flatten(), strict=True)]
    mask = pa.array(~validity(values)) if values.null_count else None
    return pa.StructArray.from_arrays(children, fields=list(kind.arrow), mask=mask)
