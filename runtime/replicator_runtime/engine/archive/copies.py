"""Archives the rows of a copy while they are read for the target, on Spark's executors."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from replicator_runtime.engine.archive.names import copy_folder
from replicator_sdk import TableSchema
from replicator_sdk.change_archive.rows import parquet, rows_of_copy

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    import pyarrow as pa

    from replicator_sdk import ChunkReader, SnapshotChunk
    from replicator_state import ArchiveFolder

_PART_BYTES: Final = 64 << 20


@dataclass(frozen=True, slots=True)
class CopyFiles:
    """The files of one copy; picklable.

    A chunk has one file, or several where it is large, and then a note of their names, which the last reader of the chunk
    replaces: files of a task that was tried again are in no note.

    Attributes:
        archive: Where.
        schema: The table's.
        copy: The copy's name.
        position: Where the table is, as text.
    """

    archive: ArchiveFolder
    schema: TableSchema
    copy: str
    position: str

    @property
    def folder(self) -> str:
        """The copy's folder in the archive."""
        return copy_folder(self.schema.table, self.copy)

    def write(self, chunk: SnapshotChunk, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Give the batches of a chunk back, and archive them; durable when the last one was taken."""
        token, rows = uuid.uuid4().hex[:12], 0
        written: list[str] = []
        held: list[pa.RecordBatch] = []
        for batch in batches:
            held.append(rows_of_copy(self.schema, batch, self.position))
            rows += batch.num_rows
            if sum(b.nbytes for b in held) >= _PART_BYTES:
                written.append(self._part(chunk, token, len(written), held))
                held = []
            yield batch
        if held:
            written.append(self._part(chunk, token, len(written), held))
        note = {"files": written, "rows": rows}
        self.archive.replace(f"{self.folder}/{_note(chunk.index)}", json.dumps(note).encode())

    def _part(self, chunk: SnapshotChunk, token: str, number: int, batches: list[pa.RecordBatch]) -> str:
        name = f"{self.folder}/{chunk.index}.{token}.{number}.parquet"
        self.archive.create(name, parquet(self.schema, batches))
        return name

    def found(self, chunks: Collection[int]) -> dict[str, Any] | None:
        """The files and the number of rows of all these chunks; None when one of them was never archived. Others are deleted."""
        names = set(self.archive.names(self.folder))
        if not names >= {_note(index) for index in chunks}:
            return None
        notes = [json.loads(self.archive.read(f"{self.folder}/{_note(index)}")) for index in sorted(chunks)]
        files = [name for note in notes for name in note["files"]]
        for name in names:
            if name.endswith(".parquet") and f"{self.folder}/{name}" not in files:
                self.archive.remove(f"{self.folder}/{name}")
        kept = [f"{self.folder}/{_note(index)}" for index in sorted(chunks)]
        return {"files": files, "notes": kept, "rows": sum(note["rows"] for note in notes)}


@dataclass(frozen=True, slots=True)
class ArchivingReader:
    """A reader of chunks that archives what it reads; picklable with the reader it wraps.

    Attributes:
        read: The source's.
        files: Where the rows are put.
    """

    read: ChunkReader
    files: CopyFiles

    def __call__(self, chunk: SnapshotChunk) -> Iterator[pa.RecordBatch]:
        """What the source's reader gives."""
        return self.files.write(chunk, self.read(chunk))


def _note(index: int) -> str:
    return f"{index}.json"
