"""Snapshots: a table as it is at the archive's end."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from replicator_sdk import SnapshotReader, TableSchema, TableSnapshot
from replicator_sdk.errors import RetryableError
from replicator_source_archive.catalogue import incomplete
from replicator_source_archive.config import ArchiveConfig, Incomplete
from replicator_source_archive.folder import UnusableFileError
from replicator_source_archive.manifests import damaged
from replicator_source_archive.snapshots.table_copy import CopyReader, write_copy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from replicator_sdk import EventReaderDefinition, SnapshotChunk
    from replicator_source_archive.manifests import Manifests
    from replicator_source_archive.offset import ArchiveOffset


class ArchiveSnapshotReader(SnapshotReader):
    """Opens snapshots; each has a file of its own, so the executors must run on this machine."""

    def __init__(self, manifests: Manifests, config: ArchiveConfig, definition: EventReaderDefinition) -> None:
        self._manifests = manifests
        self._config = config
        self._narrowed = definition.narrowed

    def open(self, schema: TableSchema, chunks: Sequence[SnapshotChunk] = ()) -> TableSnapshot:  # noqa: ARG002 - never resumed
        """Put the table together, as it is at the archive's end; returns when that is complete."""
        folder = tempfile.TemporaryDirectory(prefix="replicator-", dir=self._config.snapshot_folder)
        try:
            return self._copy(schema, folder)
        except BaseException:
            folder.cleanup()
            raise

    def _copy(self, wanted: TableSchema, folder: tempfile.TemporaryDirectory[str]) -> TableSnapshot:
        end = self._manifests.end()
        known = self._manifests.tables(end).get(wanted.table)
        if known is None or known.schema is None:
            raise _gone("the table", wanted)
        if known.why and self._config.incomplete is Incomplete.FAIL:
            raise incomplete(wanted.table, known.why)
        schema, entries = TableSchema.from_json(known.schema), self._manifests.entries_of(wanted.table, known, end)
        path = Path(folder.name) / "copy.arrow"
        try:
            plan = write_copy(self._manifests.folder, entries, schema, str(path))
        except UnusableFileError as error:
            first = entries[0].start
            if error.is_missing and first.manifest < min(
                self._manifests.numbers(), default=1
            ):  # deleted after `keepDays`
                raise _gone("a file", wanted) from None
            raise damaged(self._manifests.folder, error.name, wanted.table, end) from None
        if wanted.table in self._narrowed:
            if missing := [name for name in wanted.names if name not in schema]:
                raise _gone(f"the columns {missing}", wanted)
            schema = schema.select(wanted.names)
        return ArchiveSnapshot(schema, end, plan, CopyReader(str(path), schema.names), folder)


class ArchiveSnapshot(TableSnapshot):
    """A table in a local file; removed by `close`."""

    def __init__(
        self,
        schema: TableSchema,
        position: ArchiveOffset,
        chunks: Sequence[SnapshotChunk],
        read: CopyReader,
        folder: tempfile.TemporaryDirectory[str],
    ) -> None:
        self.schema = schema
        self.position = position
        self.chunks = tuple(chunks)
        self.read = read
        self.resumable = False
        self._folder = folder

    def close(self) -> None:
        """Remove the file."""
        self._folder.cleanup()


def _gone(what: str, wanted: TableSchema) -> RetryableError:
    return RetryableError(
        f"{what} disappeared while a snapshot was opened",
        code="RPL-3560",
        hint="nothing to do: the attempt is repeated with the archive as it is then",
        table=str(wanted.table),
    )
