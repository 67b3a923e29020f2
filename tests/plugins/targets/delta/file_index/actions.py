"""`add` actions for tests, without a table."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from replicator_target_delta.file_index.file_index import FileIndex
from replicator_target_delta.files.live_files import DataFile
from replicator_target_delta.files.statistics import file_statistics


def data_file(path: str, stats: str | None = None, **more: Any) -> DataFile:
    """A file of this name; its statistics say one row where nothing else is given."""
    said = json.dumps({"numRecords": 1}) if stats is None else stats
    add = {"path": path, "partitionValues": {}, "size": 1, "modificationTime": 1, "dataChange": True, "stats": said}
    return DataFile({**add, **more})


def holding(path: str, **columns: pa.Array) -> DataFile:
    """A file with these columns, described as the writer of data files does."""
    rows = len(next(iter(columns.values())))
    return data_file(path, file_statistics({name: pa.chunked_array([c]) for name, c in columns.items()}, rows))


def index_of(*files: DataFile) -> FileIndex:
    """An index of these files."""
    return FileIndex().changed(files, [])


def vector(number: int) -> dict[str, Any]:
    """The descriptor of some deletion vector."""
    return {
        "storageType": "u",
        "pathOrInlineDv": f"{number:020}",
        "offset": number,
        "sizeInBytes": 34,
        "cardinality": number + 1,
    }
