"""`add` actions as columns, and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

_TEXTS: Final = pa.map_(pa.string(), pa.string())
VECTOR: Final = pa.struct(
    [
        ("storageType", pa.string()),
        ("pathOrInlineDv", pa.string()),
        ("offset", pa.int32()),
        ("sizeInBytes", pa.int32()),
        ("cardinality", pa.int64()),
    ]
)
# What is not wanted in memory of every file.
DETAILS: Final = pa.schema(
    [
        ("stats", pa.string()),
        ("partitionValues", _TEXTS),
        ("modificationTime", pa.int64()),
        ("tags", _TEXTS),
        ("baseRowId", pa.int64()),
        ("defaultRowCommitVersion", pa.int64()),
        ("clusteringProvider", pa.string()),
    ]
)
LEVEL_TAG: Final = "replicator.level"
_ACTION: Final = [
    ("path", pa.string()),
    ("size", pa.int64()),
    ("deletionVector", VECTOR),
    *zip(DETAILS.names, DETAILS.types, strict=True),
]
_MAPS: Final = ("partitionValues", "tags")


def to_columns(adds: Sequence[dict[str, Any]]) -> pa.RecordBatch:
    """Contents of `add` actions as one batch."""
    columns = {}
    for name, kind in _ACTION:
        values = [add.get(name) for add in adds]
        if name in _MAPS:
            values = [None if value is None else list(value.items()) for value in values]
        columns[name] = pa.array(values, kind)
    return pa.RecordBatch.from_pydict(columns)


def of_checkpoint(adds: pa.StructArray) -> pa.RecordBatch:
    """The same from the `add` column of a checkpoint, none of them NULL; what it does not have is NULL."""
    found = {adds.type.field(i).name: values for i, values in enumerate(adds.flatten())}
    columns = {}
    for name, kind in _ACTION:
        values = found.get(name)
        columns[name] = pa.nulls(len(adds), kind) if values is None else _as(values, kind)
    return pa.RecordBatch.from_pydict(columns)


def _as(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Structs field by field, by their names: a writer may have them in another order, or without some."""
    if not pa.types.is_struct(kind):
        return values.cast(kind)
    found = {values.type.field(i).name: inner for i, inner in enumerate(values.flatten())}
    inner = [found[f.name].cast(f.type) if f.name in found else pa.nulls(len(values), f.type) for f in kind]
    return pa.StructArray.from_arrays(inner, fields=list(kind), mask=pc.is_null(values))


def levels_of(tags: pa.MapArray) -> npt.NDArray[np.int8]:
    """What the tag `replicator.level` says of each file; 0 where there is none, or no number."""
    texts = pc.map_lookup(tags, LEVEL_TAG, "last")
    numbers = pc.if_else(pc.match_substring_regex(texts, "^[0-9]{1,2}$"), texts, "0").cast(pa.int8())
    levels: npt.NDArray[np.int8] = pc.fill_null(numbers, 0).to_numpy()
    return levels


def to_adds(columns: pa.RecordBatch) -> list[dict[str, Any]]:
    """The contents of the actions; fields without a value are left out."""
    adds = columns.to_pylist(maps_as_pydicts="strict")
    return [{**_with_values(add), "dataChange": True} for add in adds]


def _with_values(action: dict[str, Any]) -> dict[str, Any]:
    return {k: _with_values(v) if k == "deletionVector" else v for k, v in action.items() if v is not None}
