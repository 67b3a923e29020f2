"""The databases whose histories are replicated, read and written by clients that share no code with the sources."""

from __future__ import annotations

import contextlib
import random
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.end_to_end.kafka.stream import MARKER, Stream, kafka_source
from tests.end_to_end.replicator import mysql_source, postgres_source
from tests.services.connect.debezium import postgres_connector
from tests.services.connect.worker import ConnectWorker
from tests.services.kafka.broker import KafkaBroker
from tests.services.mysql import client as mysql_client
from tests.services.mysql.server import MysqlDatabase
from tests.services.postgres.server import PostgresDatabase
from tests.soak.history import DEBEZIUM, MYSQL, OTHER, POSTGRES, SQLITE, Dialect, Transaction

Rows = list[tuple[Any, ...]]
_HEARTBEATS = (0.1, 1.0)
"""Seconds; the first often comes between two transactions, the second hardly ever."""


class Source(ABC):
    """One database with the history's tables.

    Attributes:
        dialect: What it understands.
        schema: What the tables are in, as the replicator names it.
    """

    dialect: Dialect
    schema: str

    @abstractmethod
    def begin_replicator(self, chance: random.Random) -> tuple[str, Mapping[str, Any]]:
        """The source's plugin and properties for a new replicator; what the last one holds at the source is given back."""

    @abstractmethod
    def execute(self, transaction: Transaction) -> None:
        """Commit one transaction."""

    @abstractmethod
    def query(self, statement: str) -> Rows:
        """The rows of a statement."""

    @abstractmethod
    def columns(self, table: str) -> list[str]:
        """The names of a table's columns."""

    def begin(self) -> None:
        """Called once, when the tables exist."""

    def end(self) -> None:
        """Called once, at the end: what is outside the test's database is removed."""

    def place(self, table: str) -> tuple[str, str]:
        """What a table is in, as the replicator names it, and the table's name there."""
        database, _, name = table.rpartition(".")
        return (self.other if database else self.schema), name

    @property
    def other(self) -> str:
        """The name of the database that is created and dropped."""
        return f"{self.schema}_other"

    def settle(self) -> None:
        """Wait until what was committed can be read by the source."""

    def idle(self, chance: random.Random) -> None:
        """Let the log move on without a change of the tables."""


class Sqlite(Source):
    """A file in WAL mode."""

    dialect, schema = SQLITE, "main"

    def __init__(self, folder: Path) -> None:
        self._path = folder / "source.db"
        with self._open() as database:
            database.execute("PRAGMA journal_mode = WAL")

    def begin_replicator(self, chance: random.Random) -> tuple[str, Mapping[str, Any]]:
        """Polls at intervals."""
        return ("sqlite", {"path": str(self._path), "pollIntervalSeconds": chance.choice(_HEARTBEATS)})

    @contextlib.contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        database = sqlite3.connect(self._path, isolation_level=None, timeout=30)
        with contextlib.closing(database):
            yield database

    def execute(self, transaction: Transaction) -> None:
        """Commit one transaction."""
        with self._open() as database:
            database.execute("BEGIN IMMEDIATE")
            for statement in transaction:
                database.execute(statement)
            database.execute("COMMIT")

    def query(self, statement: str) -> Rows:
        """The rows of a statement."""
        with self._open() as database:
            return list(database.execute(statement))

    def columns(self, table: str) -> list[str]:
        """By the table's description."""
        return [row[1] for row in self.query(f"PRAGMA table_info({table})")]


class Postgres(Source):
    """A database of a Postgres."""

    dialect, schema = POSTGRES, "public"

    def __init__(self, database: PostgresDatabase) -> None:
        self.database = database

    def begin_replicator(self, chance: random.Random) -> tuple[str, Mapping[str, Any]]:
        """Drops the slot of the last one; a session that was killed may still hold it."""
        idle = "database = current_database() AND NOT active AND slot_name LIKE 'replicator%'"
        self.database.execute(f"SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE {idle}")
        return postgres_source(self.database, heartbeatIntervalSeconds=chance.choice(_HEARTBEATS))

    def execute(self, transaction: Transaction) -> None:
        """Commit one transaction."""
        with self.database.connect() as connection, connection.transaction():
            for statement in transaction:
                connection.execute(statement.encode())

    def query(self, statement: str) -> Rows:
        """The rows of a statement."""
        return self.database.execute(statement)

    def columns(self, table: str) -> list[str]:
        """By the catalogue."""
        return _columns(self, f"table_schema = 'public' AND table_name = '{table}'")

    def idle(self, chance: random.Random) -> None:
        """WAL that has nothing to do with the tables."""
        statements = (
            "SELECT pg_logical_emit_message(true, 'other', 'x')",
            "SELECT pg_switch_wal()",
            "CHECKPOINT",
            "CREATE TABLE IF NOT EXISTS other (id int)",
            "SELECT txid_current()",
        )
        for _ in range(chance.randint(0, 2)):
            self.database.execute(chance.choice(statements))


class Mysql(Source):
    """A database of a MySQL or MariaDB."""

    dialect = MYSQL

    def __init__(self, database: MysqlDatabase) -> None:
        self.database, self.schema = database, database.name

    def begin_replicator(self, chance: random.Random) -> tuple[str, Mapping[str, Any]]:
        """Nothing is kept at the server."""
        return mysql_source(self.database, heartbeatIntervalSeconds=chance.choice(_HEARTBEATS))

    def execute(self, transaction: Transaction) -> None:
        """Commit one transaction; a change of structure commits what is before it."""
        with self.database.connect() as connection, connection.cursor() as cursor:
            cursor.execute("BEGIN")
            for statement in transaction:
                cursor.execute(statement.replace(OTHER, self.other))
            cursor.execute("COMMIT")

    def end(self) -> None:
        """The other database is dropped."""
        self.database.execute(f"DROP DATABASE IF EXISTS {self.other}")

    def query(self, statement: str) -> Rows:
        """The rows of a statement."""
        return mysql_client.rows(self.database, statement.replace(OTHER, self.other))

    def columns(self, table: str) -> list[str]:
        """By the catalogue."""
        schema, name = self.place(table)
        return _columns(self, f"table_schema = '{schema}' AND table_name = '{name}'")

    def idle(self, chance: random.Random) -> None:
        """The log goes on in another file."""
        if chance.random() < 0.4:
            self.database.execute("FLUSH BINARY LOGS")


class Debezium(Postgres):
    """A Postgres whose changes come through Debezium, Kafka Connect and Kafka."""

    dialect = DEBEZIUM

    def __init__(
        self, database: PostgresDatabase, broker: KafkaBroker, worker: ConnectWorker, properties: Mapping[str, Any]
    ) -> None:
        super().__init__(database)
        self._stream = Stream(broker, worker, database)
        self._stream.create_marker()
        self._broker, self._properties = broker, properties

    def begin_replicator(self, chance: random.Random) -> tuple[str, Mapping[str, Any]]:
        """Reads the topics from their beginning."""
        return kafka_source(self._broker, self._stream.topics, **self._properties)

    def begin(self) -> None:
        """Start the connector; wait for its snapshot."""
        self._stream.start(
            postgres_connector(self.database, self._stream.prefix, ["public\\.(item|pair|big)", f"public\\.{MARKER}"])
        )

    def settle(self) -> None:
        """A marker arrives after everything."""
        self._stream._await_marker(lambda change: True)


def _columns(source: Source, where: str) -> list[str]:
    found = source.query(f"SELECT column_name FROM information_schema.columns WHERE {where} ORDER BY ordinal_position")
    return [name.decode() if isinstance(name, bytes | bytearray) else name for (name,) in found]


def rows_of(source: Source, table: str, columns: Sequence[str]) -> Rows:
    """The rows of a table, of these columns."""
    return source.query(f"SELECT {', '.join(columns)} FROM {table}")
