"""The copy of a table in a SQLite file of its own: written in one statement, divided into chunks, read in any process."""
# ruff: noqa: S608 - names pass through `quoted`

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from replicator_sdk import OutOfRange, Refusal, SnapshotChunk, TableId, TableSchema
from replicator_sdk.errors import NeedsUserError
from replicator_source_sqlite.catalogue import TableShape
from replicator_source_sqlite.connection import connect, quoted
from replicator_source_sqlite.types.decode import Decoder

_BATCH_ROWS = 32_768


@dataclass(frozen=True)
class CopyReader:
    """Reads chunks of a copy in any process on this machine."""

    path: str
    schema: TableSchema
    out_of_range: OutOfRange

    def __call__(self, chunk: SnapshotChunk) -> Iterator[pa.RecordBatch]:
        """The rows whose numbers are within the chunk's bounds."""
        decoder = Decoder(self.schema, self.out_of_range)
        for columns, length in self._columns(chunk):
            yield self._batch(decoder.struct(columns, length))

    def marked(self, chunk: SnapshotChunk) -> Iterator[tuple[pa.RecordBatch, Mapping[str, Refusal]]]:
        """The same rows with refused values marked; see `MarkedChunkReader`."""
        decoder = Decoder(self.schema, self.out_of_range)
        for columns, length in self._columns(chunk):
            struct, refused = decoder.marked_struct(columns, length)
            yield self._batch(struct), refused

    def _batch(self, struct: pa.StructArray) -> pa.RecordBatch:
        return pa.RecordBatch.from_struct_array(struct).cast(self.schema.arrow)

    def _columns(self, chunk: SnapshotChunk) -> Iterator[tuple[list[tuple[Any, ...]], int]]:
        low, high = chunk.bounds["after"], chunk.bounds["up_to"]
        columns = ", ".join(f"c{i}" for i in range(len(self.schema.columns)))
        with connect(Path(self.path), read_only=True) as database:
            rows = database.execute(
                f"SELECT {columns} FROM rows WHERE (?1 IS NULL OR number > ?1) AND (?2 IS NULL OR number <= ?2)",
                (low, high),
            )
            while batch := rows.fetchmany(_BATCH_ROWS):
                yield list(zip(*batch, strict=True)), len(batch)


def copy_rows(database: sqlite3.Connection, shape: TableShape, schema: TableSchema, condition: str) -> None:
    """Fill `copy.rows` with the rows for which `condition` holds, all when it is empty.

    A row's number is its INTEGER PRIMARY KEY, which a later copy has, too, else its rank.

    Raises:
        NeedsUserError: When SQLite refuses the condition.
    """
    name = f"main.{quoted(schema.table.table)} AS t"
    where = f" WHERE ({condition})" if condition else ""
    check_condition(database, schema.table, condition)
    places = ", ".join(f"c{i}" for i in range(len(schema.columns)))
    columns = ", ".join(f"t.{quoted(name)}" for name in schema.names)
    number = f"t.{quoted(shape.rowid_alias)}" if shape.rowid_alias else "NULL"
    database.execute(f"CREATE TABLE copy.rows (number INTEGER PRIMARY KEY, {places})")
    database.execute(f"INSERT INTO copy.rows (number, {places}) SELECT {number}, {columns} FROM {name}{where}")


def check_condition(database: sqlite3.Connection, table: TableId, condition: str) -> None:
    """Check that SQLite takes the condition of a table's rows; reads none.

    Raises:
        NeedsUserError: When it does not.
    """
    if not condition:
        return
    try:
        database.execute(f"EXPLAIN SELECT 1 FROM main.{quoted(table.table)} AS t WHERE ({condition})").close()
    except sqlite3.Error as refused:
        raise NeedsUserError(
            f"the table's `where` is refused: {refused}",
            code="RPL-3531",
            hint="correct `where` of the table in `tables`; it is a condition of SQLite over the table's columns",
            table=str(table),
        ) from None


def plan_chunks(database: sqlite3.Connection, chunk_rows: int) -> tuple[SnapshotChunk, ...]:
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
