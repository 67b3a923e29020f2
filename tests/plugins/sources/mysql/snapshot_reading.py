"""Snapshots without a reader of the log: tables opened, chunks read, rows compared by an independent client."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import pymysql

from replicator_sdk import OutOfRange, TableId, TableSchema
from replicator_sdk.snapshot import SnapshotChunk, TableSnapshot
from replicator_source_mysql import MySqlConfig
from replicator_source_mysql.binlog.log_availability import current_offset, origin_of
from replicator_source_mysql.connect.catalogue import Catalogue
from replicator_source_mysql.connect.connection import Endpoint
from replicator_source_mysql.definition import TableDefinition
from replicator_source_mysql.offset import MySqlOffset
from replicator_source_mysql.snapshots.chunk_plan import fingerprint, plan
from replicator_source_mysql.snapshots.chunk_reader import ChunkSelect, PlannedTable
from replicator_source_mysql.snapshots.snapshot import MySqlSnapshotReader
from replicator_source_mysql.types.mapping import table_schema
from tests.services.mysql.server import MysqlDatabase


def endpoint_of(database: MysqlDatabase, **settings: Any) -> Endpoint:
    """A test's database as the source sees it."""
    place: dict[str, Any] = {
        "host": database.host,
        "port": database.port,
        "user": database.user,
        "password": database.password,
        "ssl_root_cert": database.server.certificate.authority,
    }
    return Endpoint(MySqlConfig(**{**place, **settings}))


def end_of_log(connection: pymysql.Connection[Any]) -> MySqlOffset:
    """Where the binlog ends."""
    return current_offset(connection, origin_of(connection))


def reader_of(database: MysqlDatabase, **settings: Any) -> MySqlSnapshotReader:
    """A snapshot reader on a test's database."""
    return MySqlSnapshotReader(endpoint_of(database, **settings), end_of_log)


@contextlib.contextmanager
def catalogue_of(database: MysqlDatabase) -> Iterator[Catalogue]:
    """The catalogue over a connection of its own."""
    with endpoint_of(database).session() as connection:
        yield Catalogue(connection)


def definition_of(database: MysqlDatabase, table: str = "t") -> TableDefinition:
    """A table's definition now."""
    with catalogue_of(database) as catalogue:
        found = catalogue.find(TableId(database.name, table))
    assert found is not None
    return found


def schema_of(database: MysqlDatabase, table: str = "t") -> TableSchema:
    """A table's schema now."""
    return table_schema(definition_of(database, table))


def planned_chunks(
    database: MysqlDatabase, rows: int, table: str = "t"
) -> tuple[ChunkSelect, tuple[SnapshotChunk, ...]]:
    """A table cut into chunks of `rows` rows, however few, and their reader."""
    endpoint = endpoint_of(database)
    with endpoint.session() as connection:
        definition = Catalogue(connection).find(TableId(database.name, table))
        assert definition is not None
        planned = PlannedTable(
            definition, table_schema(definition), fingerprint(connection, definition), "null", OutOfRange.FAIL
        )
        return ChunkSelect(endpoint, planned), plan(connection, definition, rows)


def rows_of(snapshot: TableSnapshot, chunks: Sequence[SnapshotChunk] = ()) -> list[dict[str, Any]]:
    """The rows of some chunks, of all by default."""
    return [row for chunk in chunks or snapshot.chunks for batch in snapshot.read(chunk) for row in batch.to_pylist()]
