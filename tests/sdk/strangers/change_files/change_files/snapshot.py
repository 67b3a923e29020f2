"""Snapshots: what the files up to one of them make."""

from __future__ import annotations

import zlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from change_files.files import last_number, record_batches, tables
from replicator_sdk import NumberOffset, SnapshotChunk, SnapshotReader, TableId, TableSchema, TableSnapshot
from replicator_sdk.errors import RetryableError

CHUNKS = 3


@dataclass(frozen=True)
class Chunks:
    """Reads one chunk wherever the folder is mounted."""

    folder: Path
    schema: TableSchema

    def __call__(self, chunk: SnapshotChunk) -> Iterator[pa.RecordBatch]:
        """The rows whose hash is the chunk's."""
        rows = tables(self.folder, chunk.bounds["last"])[self.schema.table.table].rows
        mine = [row for row in rows if zlib.crc32(repr(row).encode()) % CHUNKS == chunk.bounds["share"]]
        yield from record_batches(self.schema, mine)


class ChangeFilesSnapshot(TableSnapshot):
    """A table as it is after one file."""

    resumable = False

    def __init__(self, folder: Path, last: int, schema: TableSchema) -> None:
        self.schema, self.position = schema, NumberOffset(last)
        self.read = Chunks(folder, schema)
        self.chunks = tuple(SnapshotChunk(i, {"last": last, "share": i}) for i in range(CHUNKS))

    def close(self) -> None:
        """Nothing is held."""


class ChangeFilesSnapshots(SnapshotReader):
    """Opens them."""

    def __init__(self, folder: Path, narrowed: Collection[TableId]) -> None:
        self._folder, self._narrowed = folder, narrowed

    def open(self, schema: TableSchema, chunks: Sequence[SnapshotChunk] = ()) -> TableSnapshot:
        last = last_number(self._folder)
        table = tables(self._folder, last).get(schema.table.table)
        if table is None or any(name not in table.schema for name in schema.names if schema.table in self._narrowed):
            raise RetryableError(
                f"{schema.table} is not as it was described", code="CHF-0002", hint="none; it is retried"
            )
        now = table.schema.select(schema.names) if schema.table in self._narrowed else table.schema
        return ChangeFilesSnapshot(self._folder, last, now)
