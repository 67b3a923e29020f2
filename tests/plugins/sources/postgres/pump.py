"""Reads a Postgres source under test."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa

from replicator_sdk import TableId, TableSnapshot
from replicator_source_postgres import PostgresConfig, PostgresSource
from tests.plugins.sources.pump import Run, SourcePump, schema_of
from tests.services.postgres.server import PostgresDatabase

__all__ = ["Pump", "Run", "schema_of", "source_of"]


def source_of(database: PostgresDatabase, **settings: Any) -> PostgresSource:
    """The source on a test's database."""
    address: dict[str, Any] = {
        "host": database.host,
        "port": database.port,
        "database": database.name,
        "user": database.user,
        "password": database.password,
        "ssl_mode": "disable",
        "heartbeat_interval_seconds": 0.2,
    }
    return PostgresSource(PostgresConfig(**{**address, **settings}))


class Pump(SourcePump):
    """Tables of one database's schema `public`."""

    def __init__(self, database: PostgresDatabase, *tables: str, **settings: Any) -> None:
        self.database = database
        super().__init__(source_of(database, **settings), {name: self.table(name) for name in tables})

    def table(self, name: str) -> TableId:
        return TableId(self.database.name, name, "public")

    def snapshot(self, name: str, *, as_text: bool = False) -> tuple[TableSnapshot, pa.Table]:
        """The table's rows, all chunks in one; by ADBC however few they are, or `as_text` without it."""
        reader = self.source.create_snapshot_reader(self.definition, self.context)
        assert reader is not None
        with reader.open(self.schemas[self.table(name)]) as snapshot:
            read_by = {"adbc_columns": None} if as_text else {"adbc_rows": 0}
            snapshot.read = replace(snapshot.read, **read_by)  # type: ignore[type-var]
            batches = [batch for chunk in snapshot.chunks for batch in snapshot.read(chunk)]
        return snapshot, pa.Table.from_batches(batches, schema=snapshot.schema.arrow)
