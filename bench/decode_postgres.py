"""From Postgres' log to Arrow, alone: how many changes a second the source's stream and decoder make, without any target.

    python bench/decode_postgres.py --dsn "host=127.0.0.1 port=5432 user=postgres dbname=postgres" --slot backlog \
        --publication p_all [--repeat 3]

The slot must stand before a backlog; it is copied for every repetition and itself left where it is. Three figures: receiving
alone, decoding alone (from memory), and both as the reader does them.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict

from replicator_sdk import ChangeBatch, Commits, DDLEvent, DMLEvent, EventEmitter, EventReaderDefinition, TableId
from replicator_sdk.testing.contexts import TestSourceContext
from replicator_source_postgres import PostgresConfig, PostgresOffset, PostgresSource
from replicator_source_postgres.catalogue import Catalogue
from replicator_source_postgres.pgoutput import Decoder, Window
from replicator_source_postgres.reader import PostgresEventReader
from replicator_source_postgres.relations import Relations
from replicator_source_postgres.stream import ReplicationStream

_COPY = "backlog_copy"
_WINDOW = 65_536


def _ignore(change: object) -> None:
    """Nothing changes its structure here."""
    del change


class CountingEmitter(EventEmitter):
    """Drops everything and stops the reader at an offset."""

    def __init__(self, until: PostgresOffset) -> None:
        self.rows = 0
        self.reader: PostgresEventReader | None = None
        self._until = until

    def emit(self, event: DDLEvent | DMLEvent) -> None:
        """Drop it."""

    def emit_batch(self, batch: ChangeBatch) -> None:
        """Count its rows."""
        self.rows += len(batch)

    def emit_commits(self, commits: Commits) -> None:
        """Stop once the backlog is read."""
        if not commits.last < self._until and self.reader is not None:
            self.reader.close()


class Backlog:
    """The slot's backlog, read again and again through copies of the slot."""

    def __init__(self, dsn: str, slot: str, publication: str) -> None:
        place: dict[str, Any] = {
            k: v for k, v in conninfo_to_dict(dsn).items() if k in {"host", "port", "user", "password"}
        }
        database = conninfo_to_dict(dsn)["dbname"]
        self.config = PostgresConfig(
            **place, database=str(database), ssl_mode="disable", slot=_COPY, publication=publication
        )
        self.source = PostgresSource(self.config)
        self.connection = psycopg.connect(dsn, autocommit=True)
        self.database = str(database)
        self._slot = slot
        self.end = self.source.latest_offset()

    def copy_slot(self) -> PostgresOffset:
        """A fresh copy of the slot; returns its position."""
        drop = (
            "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = %s AND NOT active"
        )
        for _ in range(50):
            self.connection.execute(drop, [_COPY])
            if not self.connection.execute(
                "SELECT 1 FROM pg_replication_slots WHERE slot_name = %s", [_COPY]
            ).fetchall():
                break
            time.sleep(0.1)
        self.connection.execute("SELECT pg_copy_logical_replication_slot(%s, %s)", [self._slot, _COPY])
        query = "SELECT confirmed_flush_lsn - '0/0' FROM pg_replication_slots WHERE slot_name = %s"
        row = self.connection.execute(query, [_COPY]).fetchone()
        assert row is not None
        return PostgresOffset(int(row[0]))

    def definition(self) -> EventReaderDefinition:
        """All tables of the publication."""
        query = "SELECT schemaname, tablename FROM pg_publication_tables WHERE pubname = %s"
        rows = self.connection.execute(query, [self.config.publication]).fetchall()
        with self.source.create_table_registry() as registry:
            tables = [TableId(self.database, name, schema) for schema, name in rows]
            return EventReaderDefinition({table: registry.describe_table(table) for table in tables})

    def receive(self) -> tuple[int, list[bytes]]:
        """The backlog's messages in memory, and how many changes they hold."""
        stream = ReplicationStream.open(self.source.endpoint(), _COPY, self.config.publication or "", self.copy_slot())
        messages: list[memoryview | bytes] = []
        while stream.wal_end < self.end.lsn:
            stream.receive(messages, len(messages) + _WINDOW, 16 << 20, 0.2)
            stream.send_status(PostgresOffset(0), ask_reply=True)
        stream.close()
        return sum(message[25] in b"IUD" for message in messages), [bytes(message) for message in messages]

    def decode(self, messages: list[bytes]) -> int:
        """Decode messages from memory."""
        definition = self.definition()
        catalogue = Catalogue(self.connection, self.database)
        relations = Relations(catalogue, self.database, definition.tables.values(), definition.out_of_range, {})
        decoder = Decoder(lambda relation, _, __: (relations.learn(relation, _ignore), 0))
        rows = 0
        for begin in range(0, len(messages), _WINDOW):
            rows += sum(
                len(item.batch)
                for item in decoder.decode(Window(messages[begin : begin + _WINDOW]))
                if hasattr(item, "batch")
            )
        return rows

    def read(self) -> int:
        """The reader as it is, into nothing."""
        start = self.copy_slot()
        emitter = CountingEmitter(self.end)
        context = TestSourceContext("bench")
        reader = self.source.create_reader(self.definition(), context, emitter)
        assert isinstance(reader, PostgresEventReader)
        emitter.reader = reader
        reader.initialize(start)
        reader.run()
        return emitter.rows


def timed(name: str, repeat: int, changes: int, work: Callable[[], object]) -> None:
    """Print the median rate of some repetitions."""
    seconds = []
    for _ in range(repeat):
        begin, cpu = time.perf_counter(), time.process_time()
        work()
        seconds.append((time.perf_counter() - begin, time.process_time() - cpu))
    wall, processor = (statistics.median(column) for column in zip(*seconds, strict=True))
    print(
        f"{name:22} {changes / wall:12,.0f} changes/s   {wall:6.2f} s wall   {processor:6.2f} s CPU   n={repeat}",
        flush=True,
    )


def main() -> None:
    """Read the arguments and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dsn", required=True)
    parser.add_argument("--slot", required=True)
    parser.add_argument("--publication", required=True)
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    backlog = Backlog(options.dsn, options.slot, options.publication)
    changes, messages = backlog.receive()
    timed("receive", options.repeat, changes, backlog.receive)
    timed("decode", options.repeat, changes, lambda: backlog.decode(messages))
    timed("receive and decode", options.repeat, changes, backlog.read)


if __name__ == "__main__":
    main()
