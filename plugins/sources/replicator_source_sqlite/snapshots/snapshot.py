"""Snapshots: a table is copied in one read transaction together with the log's end, and the copy is read in chunks.

The copy is exact at its position while the application continues to write, and the source is read once. It is stored on
local disk, so the executors must run on this machine.
"""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Sequence
from pathlib import Path

from replicator_sdk import EventReaderDefinition, SnapshotChunk, SnapshotReader, TableSchema, TableSnapshot
from replicator_sdk.errors import NeedsUserError, RetryableError
from replicator_source_sqlite.capture.changelog import last_change, offset_of
from replicator_source_sqlite.capture.ddl_detection import KnownSchema, drifts
from replicator_source_sqlite.catalogue import TableShape, describe
from replicator_source_sqlite.config import SqliteConfig
from replicator_source_sqlite.connection import connect, transaction
from replicator_source_sqlite.offset import SqliteOffset
from replicator_source_sqlite.snapshots.table_copy import CopyReader, copy_rows, plan_chunks


class SqliteSnapshotReader(SnapshotReader):
    """Opens snapshots; each has its own connection while the table is copied, and its own file.

    Args:
        config: The settings.
        definition: What is replicated, and which rows are copied.
        known_schema: The run's.
    """

    def __init__(
        self,
        config: SqliteConfig,
        definition: EventReaderDefinition,
        known_schema: KnownSchema,
    ) -> None:
        self._config = config
        self._known_schema = known_schema
        self._narrowed = definition.narrowed
        self._conditions = definition.conditions
        self._out_of_range = config.out_of_range or definition.out_of_range

    def open(self, schema: TableSchema, chunks: Sequence[SnapshotChunk] = ()) -> TableSnapshot:
        """Copy the selected columns of a table, as they are now; returns when the copy is complete."""
        folder = tempfile.TemporaryDirectory(prefix="replicator-", dir=self._config.snapshot_folder)
        try:
            return self._copy(schema, tuple(chunks), folder)
        except BaseException:
            folder.cleanup()
            raise

    def _copy(
        self, schema: TableSchema, chunks: tuple[SnapshotChunk, ...], folder: tempfile.TemporaryDirectory[str]
    ) -> TableSnapshot:
        path = Path(folder.name) / "copy.sqlite"
        with connect(self._config.path) as database:
            database.execute("ATTACH DATABASE ? AS copy", (f"file:{path}?mode=rwc",))
            database.execute("PRAGMA copy.journal_mode = OFF")
            database.execute("PRAGMA copy.synchronous = OFF")
            self._known_schema.synchronise(database)
            with transaction(database):
                shape = _shape(database, schema)
                self._check_logged(database, schema)
                position = offset_of(database, last_change(database))
                selected = self._selected(shape, schema)
                copy_rows(database, shape, selected, self._conditions.get(schema.table, ""))
                plan = chunks if chunks and shape.rowid_alias else plan_chunks(database, self._config.chunk_rows)
        read = CopyReader(str(path), selected, self._out_of_range)
        return SqliteSnapshot(selected, position, plan, read, bool(shape.rowid_alias), folder)

    def _check_logged(self, database: sqlite3.Connection, wanted: TableSchema) -> None:
        """Check that the log has the table's schema changes: one logged later would be applied to the copy again."""
        if drifts(database, wanted.table):
            self._known_schema.forget()
            raise RetryableError(
                "the table's schema changed while a snapshot was opened",
                code="RPL-3512",
                hint="nothing to do: the attempt is repeated with the table as it is then",
                table=str(wanted.table),
            )

    def _selected(self, shape: TableShape, wanted: TableSchema) -> TableSchema:
        """The columns to copy: a change of structure before the copy's position is not emitted after it."""
        if wanted.table not in self._narrowed:
            return shape.schema
        if missing := [name for name in wanted.names if name not in shape.schema]:
            raise _gone(f"the columns {missing}", wanted)
        return shape.schema.select(wanted.names)


def _shape(database: sqlite3.Connection, wanted: TableSchema) -> TableShape:
    """The table as it is now."""
    try:
        return describe(database, wanted.table)
    except NeedsUserError as gone:
        raise _gone("the table", wanted) from gone


def _gone(what: str, wanted: TableSchema) -> RetryableError:
    return RetryableError(
        f"{what} disappeared while a snapshot was opened",
        code="RPL-3512",
        hint="nothing to do: the attempt is repeated with the table as it is then",
        table=str(wanted.table),
    )


class SqliteSnapshot(TableSnapshot):
    """A copy on disk; removed by `close`."""

    def __init__(
        self,
        schema: TableSchema,
        position: SqliteOffset,
        chunks: tuple[SnapshotChunk, ...],
        read: CopyReader,
        resumable: bool,
        folder: tempfile.TemporaryDirectory[str],
    ) -> None:
        self.schema = schema
        self.position = position
        self.chunks = chunks
        self.read = read
        self.read_marked = read.marked
        self.resumable = resumable
        self._folder = folder

    def close(self) -> None:
        """Remove the copy."""
        self._folder.cleanup()
