"""Which row of a key is the latest: the order of watermarks that every reader of the table uses (`replicator_sdk.merge_on_read`)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from replicator_sdk.batch import combined

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


def by_freshness(codes: Int64s, watermarks: Sequence[pa.Array | pa.ChunkedArray], deleted: Bools) -> Int64s:
    """The indexes of rows by key, of a key the latest last; of equal watermarks a tombstone is the later one.

    NULL is the smallest watermark and NaN the largest, -0.0 equals 0.0, texts are compared by bytes: as Spark compares.

    Args:
        codes: For each row which key it has.
        watermarks: The columns of the watermark keys, the first one compared first.
        deleted: Which rows are tombstones.
    """
    columns: dict[str, pa.Array] = {"key": pa.array(codes)}
    for number, column in enumerate(watermarks):
        values = combined(column)
        columns[f"valid {number}"] = pc.is_valid(values)
        if pa.types.is_floating(values.type):
            columns[f"nan {number}"] = pc.fill_null(pc.is_nan(values), False)
        columns[str(number)] = values
    columns["deleted"] = pa.array(deleted)
    order = [(name, "ascending") for name in columns]
    found = pc.sort_indices(pa.table(columns), sort_keys=order)
    indexes: Int64s = found.to_numpy().astype(np.int64)
    return indexes


def last_of_each(codes: Int64s) -> Bools:
    """Of ascending codes, which are the last of their kind."""
    return np.append(codes[1:] != codes[:-1], np.ones(min(1, len(codes)), np.bool_))
