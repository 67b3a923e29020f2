"""The values of the columns that a table with several rows of a key has beside the source's."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from replicator_sdk.row_versions.version_columns import Spans
from replicator_target_iceberg.schema.encoding import encode_rows
from replicator_target_iceberg.schema.table_form import SEQUENCE, SOURCE_TIMESTAMP, VERSION_NAMES, TableForm
from replicator_target_iceberg.schema.types import Layout

Int64s = npt.NDArray[np.int64]


def stamps(form: TableForm, sequence: Int64s, timestamp: Int64s) -> dict[str, pa.Array]:
    """Of rows of a merge-on-read table that are not deleted, by name; none for tables of other modes.

    Args:
        form: The table's.
        sequence: The number of each row's change.
        timestamp: Its commit time, microseconds since 1970 UTC; -1 for none.
    """
    if form.keys is None:
        return {}
    made = {SEQUENCE: pa.array(sequence, pa.int64()), SOURCE_TIMESTAMP: _times(timestamp)}
    if form.leading.get(form.keys.tombstone) == "boolean":  # one that is a text is NULL
        made[form.keys.tombstone] = pa.repeat(pa.scalar(False), len(sequence))
    return made


def version_stamps(sequence: Int64s, timestamp: Int64s, spans: Spans) -> dict[str, pa.Array]:
    """Of versions, by name.

    Args:
        sequence: The number of the change that opened each.
        timestamp: Its commit time, microseconds since 1970 UTC; -1 for none.
        spans: When each was valid.
    """
    made = {VERSION_NAMES[kind]: values for kind, values in spans.columns().items()}
    return {**made, SEQUENCE: pa.array(sequence, pa.int64()), SOURCE_TIMESTAMP: _times(timestamp)}


def copied_rows(
    rows: pa.RecordBatch | pa.Table, layout: Layout, form: TableForm, number: int = 0, time: int = 0
) -> pa.Table:
    """Rows that a copy has read, as the files have them.

    Args:
        rows: The source's columns.
        layout: The table's columns.
        form: What it has beside the source's.
        number: That of the rows. In a merge-on-read table it is below that of every change.
        time: From when they are valid, as versions; microseconds since 1970 UTC.
    """
    size = rows.num_rows
    numbers, unknown = np.full(size, number, np.int64), np.full(size, -1, np.int64)
    if form.has_versions:
        spans = Spans.current(np.full(size, time, np.int64))
        return encode_rows(rows, layout, version_stamps(numbers, unknown, spans))
    return encode_rows(rows, layout, stamps(form, numbers, unknown))


def _times(timestamp: Int64s) -> pa.Array:
    return pa.array(timestamp, pa.int64(), mask=timestamp < 0).cast(pa.timestamp("us", "UTC"))
