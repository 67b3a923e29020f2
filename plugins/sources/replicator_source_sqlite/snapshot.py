"""Snapshots: a table is copied in one read transaction together with the log's end, and the copy is read in chunks.

The copy is exact at its position however the application writes meanwhile, and the source is read once, in one go. It
lies on local disk, so the executors must run on this machine.
"""

# ruff: noqa: S608 - names pass through `quoted`
from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from replicator_sdk import ChunkReader, OutOfRange, SnapshotChunk, SnapshotReader, TableSchema, TableSnapshot
from replicator_sdk.errors import NeedsUserError, RetryableError
from replicator_source_sqlite.catalogue import TableShape, describe
from replicator_source_sqlite.changelog import last_change, offset_of
from replicator_source_sqlite.config import SqliteConfig
from replicator_source_sqlite.connection import connect, quoted, transaction
from replicator_source_sqlite.decode import Decoder
from replicator_source_sqlite.offset import SqliteOffset
from replicator_source_sqlite.schema_change import drifts, synchronise

_BATCH_ROWS = 32_768


class SqliteSnapshotReader(SnapshotReader):
    """Opens snapshots; each has its own connection while the copy is made, and its own file."""

    def __init__(self, config: SqliteConfig, out_of_range: OutOfRange) -> None:
        self._config = config
        self._out_of_range = config.out_of_range or out_of_range

    def open(self, schema: TableSchema, chunks: Sequence[SnapshotChunk] = ()) -> TableSnapshot:
        """Copy the selected columns of a table; blocks while the copy is made."""
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
            synchronise(database, 0)
            with transaction(database):
                shape = _shape(database, schema)
                _check_logged(database, schema)
                position = offset_of(database, last_change(database))
                selected = shape.schema.select(schema.names)
                copy_rows(database, shape, selected)
                plan = chunks if chunks and shape.rowid_alias else _plan(database, self._config.chunk_rows)
        read = CopyReader(str(path), selected, self._out_of_range)
        return SqliteSnapshot(selected, position, plan, read, bool(shape.rowid_alias), folder)


def _shape(database: sqlite3.Connection, wanted: TableSchema) -> TableShape:
    """The table as it is now; it must have what it was described with."""
    try:
        shape = describe(database, wanted.table)
    except NeedsUserError as gone:
        raise _gone("the table", wanted) from gone
    if missing := [name for name in wanted.names if name not in shape.schema]:
        raise _gone(f"the columns {missing}", wanted)
    return shape


def _check_logged(database: sqlite3.Connection, wanted: TableSchema) -> None:
    """What the table looks like must be in the log already: logged later, it would be applied to the copy again."""
    if drifts(database, wanted.table):
        raise RetryableError(
            "the table changed its structure while a snapshot was opened",
            code="RPL-3512",
            hint="nothing to do: the attempt is repeated with what is there then",
            table=str(wanted.table),
        )


def _gone(what: str, wanted: TableSchema) -> RetryableError:
    return RetryableError(
        f"{what} went away while a snapshot was opened",
        code="RPL-3512",
        hint="nothing to do: the attempt is repeated with what is there then",
        table=str(wanted.table),
    )


class SqliteSnapshot(TableSnapshot):
    """A copy on disk; removed by `close`."""

    def __init__(
        self,
        schema: TableSchema,
        position: SqliteOffset,
        chunks: tuple[SnapshotChunk, ...],
        read: ChunkReader,
        resumable: bool,
        folder: tempfile.TemporaryDirectory[str],
    ) -> None:
        self.schema = schema
        self.position = position
        self.chunks = chunks
        self.read = read
        self.resumable = resumable
        self._folder = folder

    def close(self) -> None:
        """Remove the copy."""
        self._folder.cleanup()


@dataclass(frozen=True)
class CopyReader:
    """Reads chunks of a copy in any process on this machine."""

    path: str
    schema: TableSchema
    out_of_range: OutOfRange

    def __call__(self, chunk: SnapshotChunk) -> Iterator[pa.RecordBatch]:
        """The rows whose number lies within the chunk's bounds."""
        low, high = chunk.bounds["after"], chunk.bounds["up_to"]
        columns = ", ".join(f"c{i}" for i in range(len(self.schema.columns)))
        decoder = Decoder(self.schema, self.out_of_range)
        with connect(Path(self.path), read_only=True) as database:
            rows = database.execute(
                f"SELECT {columns} FROM rows WHERE (?1 IS NULL OR number > ?1) AND (?2 IS NULL OR number <= ?2)",
                (low, high),
            )
            while batch := rows.fetchmany(_BATCH_ROWS):
                struct = decoder.struct(list(zip(*batch, strict=True)), len(batch))
                yield pa.RecordBatch.from_struct_array(struct).cast(self.schema.arrow)


def copy_rows(database: sqlite3.Connection, shape: TableShape, schema: TableSchema) -> None:
    """Fill `copy.rows`; a row's number is its INTEGER PRIMARY KEY, which a later copy has too, else its rank."""
    places = ", ".join(f"c{i}" for i in range(len(schema.columns)))
    columns = ", ".join(f"t.{quoted(name)}" for name in schema.names)
    number = f"t.{quoted(shape.rowid_alias)}" if shape.rowid_alias else "NULL"
    database.execute(f"CREATE TABLE copy.rows (number INTEGER PRIMARY KEY, {places})")
    database.execute(
        f"INSERT INTO copy.rows (number, {places}) SELECT {number}, {columns} FROM main.{quoted(schema.table.table)} AS t"
    )


def _plan(database: sqlite3.Connection, chunk_rows: int) -> tuple[SnapshotChunk, ...]:
    """Ranges of row numbers with `chunk_rows` rows each; the first and the last are open, for later copies."""
    borders = [
        number
        for (number,) in database.execute(
            "SELECT number FROM (SELECT number, row_number() OVER (ORDER BY number) AS rank FROM copy.rows) "
            "WHERE rank % ? = 0 ORDER BY number",
            (chunk_rows,),
        )
    ]
    ranges = zip([None, *borders], [*borders, None], strict=True)
    return tuple(SnapshotChunk(i, {"after": a, "up_to": b}, chunk_rows) for i, (a, b) in enumerate(ranges))
