"""A MySQL or MariaDB source under test."""

from __future__ import annotations

from typing import Any

from replicator_sdk import TableId
from replicator_source_mysql import MySqlConfig, MySqlSource
from tests.plugins.sources.pump import Run, SourcePump, schema_of
from tests.services.mysql.server import MysqlDatabase

__all__ = ["Pump", "Run", "schema_of", "source_of"]


def source_of(database: MysqlDatabase, **settings: Any) -> MySqlSource:
    """The source on a test's database."""
    place: dict[str, Any] = {
        "host": database.host,
        "port": database.port,
        "user": database.user,
        "password": database.password,
        "ssl_mode": "disable",
        "heartbeat_interval_seconds": 0.2,
    }
    return MySqlSource(MySqlConfig(**{**place, **settings}))


class Pump(SourcePump):
    """Tables of one database."""

    def __init__(self, database: MysqlDatabase, *tables: str, **settings: Any) -> None:
        self.database = database
        super().__init__(source_of(database, **settings), {name: self.table(name) for name in tables})

    def table(self, name: str) -> TableId:
        return TableId(self.database.name, name)
