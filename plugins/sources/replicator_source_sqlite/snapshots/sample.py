"""A few rows of a table, read without a copy of it."""
# ruff: noqa: S608 - names pass through `quoted`

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from replicator_sdk import EventReaderDefinition, TableId
from replicator_sdk.errors import NeedsUserError
from replicator_source_sqlite.config import SqliteConfig
from replicator_source_sqlite.connection import connect, quoted, translated_errors
from replicator_source_sqlite.snapshots.table_copy import check_condition
from replicator_source_sqlite.types.decode import Decoder

_MOST_BYTES = 16 << 20
_SECONDS = 20.0


def sample_rows(config: SqliteConfig, definition: EventReaderDefinition, table: TableId, rows: int) -> pa.RecordBatch:
    """At most `rows` rows of `table`; fewer once their texts and bytes pass 16 MiB.

    Raises:
        NeedsUserError: RPL-3532 after 20 seconds; a read that goes on keeps the database's log from being emptied.
    """
    schema, condition = definition.tables[table], definition.conditions.get(table, "")
    columns = ", ".join(f"t.{quoted(name)}" for name in schema.names)
    where = f" WHERE ({condition})" if condition else ""
    with translated_errors(config.path), connect(config.path, read_only=True) as database:
        check_condition(database, table, condition)
        query = f"SELECT {columns} FROM main.{quoted(table.table)} AS t{where} LIMIT ?"
        with _ended_in_time(database, table):
            found = _bounded(database.execute(query, (rows,)))
    decoder = Decoder(schema, config.out_of_range or definition.out_of_range)
    values = list(zip(*found, strict=True)) or [()] * len(schema.columns)
    return pa.RecordBatch.from_struct_array(decoder.struct(values, len(found))).cast(schema.arrow)


@contextmanager
def _ended_in_time(database: sqlite3.Connection, table: TableId) -> Iterator[None]:
    timer = threading.Timer(_SECONDS, database.interrupt)
    timer.daemon = True
    timer.start()
    try:
        yield
    except sqlite3.OperationalError as error:
        if "interrupted" not in str(error):
            raise
        raise NeedsUserError(
            f"reading rows of the table takes longer than {_SECONDS:g} seconds",
            code="RPL-3532",
            hint="write `where` of the table in `tables` so that an index finds its rows, or leave it out",
            table=str(table),
        ) from None
    finally:
        timer.cancel()
        timer.join()  # before the connection is closed


def _bounded(rows: sqlite3.Cursor) -> list[tuple[object, ...]]:
    found: list[tuple[object, ...]] = []
    size = 0
    for row in rows:
        found.append(row)
        size += sum(len(value) for value in row if isinstance(value, str | bytes))
        if size > _MOST_BYTES:
            break
    return found
