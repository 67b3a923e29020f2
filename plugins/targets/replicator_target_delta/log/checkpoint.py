"""Reads a checkpoint of a table's log by columns, without a Python object for each file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.parquet as pq

from replicator_target_delta.file_index.actions import of_checkpoint
from replicator_target_delta.file_index.file_index import SEGMENT_FILES, FileIndex

if TYPE_CHECKING:
    from replicator_target_delta.files.storage import Storage

_KEPT: Final = ("add", "domainMetadata")
_BUFFER: Final = 1 << 20
_RELEASED_AFTER: Final = 16


def read_checkpoint(storage: Storage, name: str) -> tuple[FileIndex, dict[str, str]] | None:
    """The files and the metadata domains of a checkpoint; None for one of another form than a single file with all of them."""
    with storage.open_input(f"_delta_log/{name}") as file:
        found = pq.ParquetFile(file, buffer_size=_BUFFER, pre_buffer=False)
        names = set(found.schema_arrow.names)
        if "sidecar" in names or not names.issuperset(_KEPT):
            return None
        columns = [column.path for column in map(found.schema.column, range(len(found.schema.names)))]
        files = [c for c in columns if c.startswith("add.") and not c.startswith("add.stats_parsed")]
        if "add.stats" not in files:
            return None
        domains = found.read(columns=[c for c in columns if c.startswith("domainMetadata.")])["domainMetadata"]
        return FileIndex.of(_files(found, files)), {
            domain["domain"]: domain["configuration"]
            for domain in domains.drop_null().to_pylist()
            if not domain["removed"]
        }


def _files(found: pq.ParquetFile, columns: list[str]) -> Iterator[pa.RecordBatch]:
    for number, batch in enumerate(found.iter_batches(SEGMENT_FILES, columns=columns, use_threads=False)):
        adds = batch.column("add")
        yield of_checkpoint(adds.filter(adds.is_valid()))
        if number % _RELEASED_AFTER == 0:  # what Arrow's allocator keeps for later would be as much as the files take
            pa.default_memory_pool().release_unused()
