"""Copies one MySQL table into a Delta table as one writes it in an afternoon: a DB-API cursor, `fetchmany`, pyarrow, deltalake.

Usage: dbapi_delta.py ACCOUNT DATABASE TABLE FOLDER, where ACCOUNT is host, port, user and password as JSON. Run by our own
interpreter, in a process of its own.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator

import pyarrow as pa
import pymysql
from deltalake import write_deltalake
from pymysql.cursors import SSCursor

_AT_ONCE = 50_000
_SCHEMA = pa.schema(
    {
        "id": pa.int64(), "customer": pa.int32(), "state": pa.string(), "quantity": pa.int32(), "price": pa.decimal128(12, 2),
        "total": pa.decimal128(18, 4), "note": pa.string(), "created": pa.timestamp("us"), "changed": pa.timestamp("us"),
        "attributes": pa.string(), "paid": pa.int8(), "reference": pa.string(),
    }
)  # fmt: skip


def _batches(cursor: SSCursor) -> Iterator[pa.RecordBatch]:
    while rows := cursor.fetchmany(_AT_ONCE):
        columns = zip(*rows, strict=True)
        yield pa.record_batch(
            [pa.array(column, field.type) for column, field in zip(columns, _SCHEMA, strict=True)], schema=_SCHEMA
        )


def main(account: str, database: str, table: str, folder: str) -> None:
    """Copy the table; the cursor is unbuffered, else all rows would be in memory twice."""
    with pymysql.connect(database=database, **json.loads(account)) as connection, connection.cursor(SSCursor) as cursor:
        cursor.execute(f"SELECT {', '.join(_SCHEMA.names)} FROM {table}")
        write_deltalake(folder, pa.RecordBatchReader.from_batches(_SCHEMA, _batches(cursor)))


if __name__ == "__main__":
    main(*sys.argv[1:])
