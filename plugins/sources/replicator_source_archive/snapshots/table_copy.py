"""Puts a table together: the rows of its last copy with all changes after it, in a file on local disk."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from replicator_sdk import DDLOperation, SnapshotChunk, TableSchema
from replicator_sdk.change_archive.rows import changes_of_rows, struct_of
from replicator_source_archive.folder import UnusableFileError
from replicator_source_archive.manifests import Entry
from replicator_source_archive.snapshots.fold import with_changes, with_structure

if TYPE_CHECKING:
    from replicator_sdk import ChangeBatch
    from replicator_source_archive.folder import ArchiveFolder

_CHUNK_ROWS: Final = 200_000
_MOST_CHANGES: Final = 1_000_000
"""So many are held in memory at once, but for those of one entry."""


@dataclass(frozen=True, slots=True)
class CopyReader:
    """Reads chunks of the file in any process on this machine.

    Attributes:
        path: The file.
        names: The columns that are wanted.
    """

    path: str
    names: tuple[str, ...]

    def __call__(self, chunk: SnapshotChunk) -> Iterator[pa.RecordBatch]:
        """The batches of rows that the chunk names."""
        with pa.memory_map(self.path) as mapped, pa.ipc.open_file(mapped) as file:
            for number in range(chunk.bounds["from"], chunk.bounds["to"]):
                yield file.get_batch(number).select(list(self.names))


def write_copy(folder: ArchiveFolder, entries: Sequence[Entry], schema: TableSchema, path: str) -> list[SnapshotChunk]:
    """Write the rows of a table into a file of Arrow; returns its chunks.

    Args:
        folder: The archive.
        entries: The table's, from its last copy on; without a copy it begins with no rows.
        schema: The table's after all of them.
        path: The file.

    Raises:
        UnusableFileError: When a file of the archive is damaged, or does not exist.
        NeedsUserError: RPL-3559 when values do not fit a later type.
    """
    chunks: list[SnapshotChunk] = []
    batches = rows = begun = 0
    with pa.OSFile(path, "wb") as sink, pa.ipc.new_file(sink, schema.arrow) as file:
        for batch in _rows(folder, entries):
            file.write_batch(batch)
            batches, rows = batches + 1, rows + batch.num_rows
            if rows >= _CHUNK_ROWS:
                chunks.append(SnapshotChunk(len(chunks), {"from": begun, "to": batches}, rows))
                begun, rows = batches, 0
    if begun < batches or not chunks:
        chunks.append(SnapshotChunk(len(chunks), {"from": begun, "to": batches}, rows))
    return chunks


def _rows(folder: ArchiveFolder, entries: Sequence[Entry]) -> Iterator[pa.RecordBatch]:
    """The table's rows after these entries. What is between two changes of structure is applied at once."""
    rows: Iterator[pa.RecordBatch] = iter(())
    held: list[Entry] = []
    for entry in entries:
        if entry.kind == "changes":
            if held and (entry.schema != held[0].schema or sum(e.facts["rows"] for e in held) > _MOST_CHANGES):
                rows, held = _changed(folder, rows, held), []
            held.append(entry)
            continue
        rows, held = _changed(folder, rows, held), []
        if entry.kind == "copy":
            rows = _copied(folder, entry)
            continue
        if entry.kind == "rename":
            continue
        event = entry.event()
        if event.operation is DDLOperation.TRUNCATE_TABLE:
            rows = iter(())
        elif event.operation is DDLOperation.ALTER_TABLE:
            rows = with_structure(rows, event)
    return _changed(folder, rows, held)


def _copied(folder: ArchiveFolder, entry: Entry) -> Iterator[pa.RecordBatch]:
    schema, rows = entry.schema, 0
    assert schema is not None
    for name in entry.facts["files"]:
        for batch in folder.batches(name):
            rows += batch.num_rows
            yield pa.RecordBatch.from_struct_array(struct_of(schema, batch.column("after"))).cast(schema.arrow)
    if rows != entry.facts.get("rows", 0):
        raise UnusableFileError(", ".join(entry.facts["files"]))


def _changed(
    folder: ArchiveFolder, rows: Iterator[pa.RecordBatch], entries: Sequence[Entry]
) -> Iterator[pa.RecordBatch]:
    if not entries:
        return rows
    schema = entries[0].schema
    assert schema is not None
    changes: list[ChangeBatch] = []
    number = 0
    for entry in entries:
        first = number
        for name in entry.facts["files"]:
            for batch in folder.batches(name):
                change = changes_of_rows(schema, batch, 0)
                numbers = np.arange(number, number + len(change), dtype=np.int64)
                changes.append(replace(change, sequence_numbers=numbers))
                number += len(change)
        if number - first != entry.facts["rows"]:
            raise UnusableFileError(", ".join(entry.facts["files"]))
    return with_changes(rows, changes, schema)
