"""Data files: writes rows as Parquet and says what an `add` action needs to know of them."""

from __future__ import annotations

import re
import time
import uuid
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from replicator_target_delta.files.statistics import file_statistics
from replicator_target_delta.files.storage import Storage

ROW_GROUP_ROWS: Final = 128 * 1024
_NAME: Final = re.compile(r"part-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\.snappy\.parquet")


def is_data_file(name: str) -> bool:
    """Whether `write_data_file` names files like that; Spark's and other writers' names have a number after `part-`."""
    return _NAME.fullmatch(name) is not None


def is_of_snapshot(name: str, snapshot_id: str) -> bool:
    """Whether `write_data_file` named the file for this snapshot."""
    return is_data_file(name) and name.startswith(f"part-{_first_half(snapshot_id)}-")


def write_data_file(storage: Storage, rows: pa.Table, snapshot_id: str = "") -> dict[str, Any]:
    """Write `rows` (physical schema) as one new Parquet file; durable on return.

    Args:
        storage: The table's files.
        rows: What to write.
        snapshot_id: The snapshot that it is part of, which its name says; empty for none.

    Returns:
        The content of its `add` action. Until that is committed no reader sees the file.
    """
    name = f"part-{_identifier(snapshot_id)}.snappy.parquet"
    with storage.open_output(name) as file:
        pq.write_table(
            rows,
            file,
            compression="snappy",
            row_group_size=ROW_GROUP_ROWS,
            use_dictionary=_repetitive(rows),
            store_schema=False,
        )
        size = int(file.tell())
    storage.sync(name)
    return {
        "path": name,
        "partitionValues": {},
        "size": size,
        "modificationTime": int(time.time() * 1000),
        "dataChange": True,
        "stats": file_statistics(dict(zip(rows.column_names, rows.columns, strict=True)), rows.num_rows),
    }


def _identifier(snapshot_id: str) -> str:
    """A new one, in the form of a UUID; the first half of one that is of a snapshot is the same for all its files."""
    other = str(uuid.uuid4())
    return f"{_first_half(snapshot_id)}-{other[19:]}" if snapshot_id else other


def _first_half(snapshot_id: str) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_OID, snapshot_id))[:18]


def _repetitive(rows: pa.Table) -> list[str]:
    """Columns worth a dictionary, judged by a sample: building one for unique values costs time and is thrown away."""
    sample = rows.slice(0, 2048)
    chosen = []
    for name, values in zip(sample.column_names, sample.columns, strict=True):
        if pa.types.is_nested(values.type) or pa.types.is_boolean(values.type):
            continue
        if len(values.unique()) * 2 < len(values):
            chosen.append(name)
    return chosen
