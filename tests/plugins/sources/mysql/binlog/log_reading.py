"""A test's own reader: what a server logged since a place, as events and as batches."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from replicator_sdk.batch import ChangeBatch
from replicator_sdk.config import OutOfRange, Secret
from replicator_source_mysql.binlog.batches.decoder import Decoder, TablePlan
from replicator_source_mysql.binlog.dump.binlog_stream import BinlogStream
from replicator_source_mysql.binlog.event import Events, FilePosition, Kind
from replicator_source_mysql.binlog.rows.table_map import TableMap
from replicator_source_mysql.config import MySqlConfig
from replicator_source_mysql.connect.catalogue import Catalogue
from replicator_source_mysql.connect.connection import Endpoint, named_rows, server_of
from replicator_source_mysql.types.mapping import table_schema
from replicator_source_mysql.types.values.out_of_range import Policy
from tests.services.mysql.server import MysqlDatabase, MysqlServer

SERVER_ID = 771_001


def endpoint_of(server: MysqlServer, port: int = 0) -> Endpoint:
    config = MySqlConfig(
        host=server.host,
        port=port or server.port,
        user=server.user,
        password=Secret(server.password),
        ssl_mode="disable",
    )
    return Endpoint(config)


def log_end(server: MysqlServer) -> FilePosition:
    with endpoint_of(server).session() as connection:
        number = server_of(connection).number
        is_old = server.is_mariadb or number < (8, 2, 0)
        (row,) = named_rows(connection, "SHOW MASTER STATUS" if is_old else "SHOW BINARY LOG STATUS")
        return FilePosition(str(row["file"]), int(row["position"]))


@contextlib.contextmanager
def stream(
    server: MysqlServer, start: FilePosition | str, server_id: int = SERVER_ID, *, port: int = 0
) -> Iterator[BinlogStream]:
    """An open dump; through another port than the server's where one is given."""
    endpoint = endpoint_of(server, port)
    with endpoint.session() as connection:
        kind = server_of(connection)
    opened = BinlogStream.open(endpoint, kind, start, server_id=server_id, heartbeat_seconds=0.5)
    try:
        yield opened
    finally:
        opened.close()


def read_until(opened: BinlogStream, end: FilePosition, limit: int = 100_000, seconds: float = 120) -> list[Events]:
    """Windows of events until `end` is passed."""
    windows = []
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        opened.receive(0.2)
        while len(events := opened.take(limit)):
            windows.append(events)
            last = events.place(len(events) - 1)
            if (last.file, last.position) >= (end.file, end.position) and opened._rest is None:
                return windows
    raise TimeoutError(f"the log was not read until {end}")


def events_since(server: MysqlServer, start: FilePosition | str, limit: int = 100_000) -> list[Events]:
    with stream(server, start) as opened:
        return read_until(opened, log_end(server), limit)


def kinds(windows: list[Events]) -> Counter[str]:
    return Counter(Kind(int(kind)).name for events in windows for kind in events.kind)


@dataclass
class Planner:
    """Plans for all tables of one database as the catalogue has them now."""

    database: MysqlDatabase
    columns: tuple[str, ...] | None = None
    asked: int = 0

    def __post_init__(self) -> None:
        with endpoint_of(self.database.server).session() as connection:
            found = Catalogue(connection).definitions([self.database.name])
        self.definitions = {table.table: definition for table, definition in found.items()}
        self.replaced: Counter[str] = Counter()

    def __call__(self, table: TableMap) -> TablePlan | None:
        self.asked += 1
        if table.database != self.database.name or table.table not in self.definitions:
            return None
        definition = self.definitions[table.table]
        policy = Policy("null", OutOfRange.FAIL, str(definition.table), self.replaced)
        return TablePlan(table_schema(definition, names=self.columns), definition, policy)


def batches_since(database: MysqlDatabase, start: FilePosition | str, **options: Any) -> list[ChangeBatch]:
    """All changes of one database's tables since `start`."""
    windows = events_since(database.server, start, options.pop("limit", 100_000))
    decoder, first = Decoder(options.pop("plan", None) or Planner(database, **options)), 0
    batches: list[ChangeBatch] = []
    for events in windows:
        batches += decoder.decode(events, first)
        first = int(decoder.ranks[-1])
    return batches


def changes(batches: list[ChangeBatch]) -> list[tuple[int, str, int, dict[str, Any], dict[str, Any] | None]]:
    """(ordinal, table, operation, row, before) of every change, in log order."""
    found = []
    for batch in batches:
        rows = batch.row.to_pylist()
        before = batch.before.to_pylist() if batch.before is not None else [None] * len(batch)
        ops = batch.op.to_pylist()
        found += [
            (int(ordinal), batch.table.table, op, row, old)
            for ordinal, op, row, old in zip(batch.ordinals, ops, rows, before, strict=True)
        ]
    return sorted(found, key=lambda change: change[0])
