"""The data: a private Postgres with a table of twelve mixed columns, about 200 bytes a row, and changes to it.

Rows and changes are made by SQL on the server, so that making them costs little and nothing depends on a client. The same
arguments give the same rows.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import quote

from bench.data.source import DATABASE, Source
from tests.services.postgres.server import PostgresServer

PUBLICATION = "bench_orders"

_TABLE = """
    id bigint PRIMARY KEY, customer int NOT NULL, state text NOT NULL, quantity int, price numeric(12,2),
    total numeric(18,4), note text, created timestamptz, changed timestamp, attributes jsonb, paid boolean, reference uuid
"""
_ROW = """
    i, (i * 31 % 100003)::int, (array['new','paid','packed','shipped','done','cancelled'])[1 + i % 6], (1 + i % 97)::int,
    (i * 7919 % 1000000) / 100.0, (i * 7919 % 1000000) * (1 + i % 97) / 100.0,
    CASE WHEN i % 7 > 0 THEN 'lorem ipsum dolor sit amet, naïve café 東京 ' || i % 1000 END,
    timestamptz '2024-01-01' + i * interval '37 seconds', timestamp '2024-01-01' + i * interval '41.000131 seconds',
    jsonb_build_object('channel', i % 6, 'weight', i % 1000, 'tags', jsonb_build_array('a', 'b' || i % 13)),
    i % 2 = 0, md5(i::text)::uuid
"""
# A third each of inserts, updates and deletes; rows are drawn from the whole table, or from its last ids ("clustered").
_CHURN = f"""
CREATE PROCEDURE churn(tab regclass, changes int, per_transaction int, spread bigint, seed float8) LANGUAGE plpgsql AS $$
DECLARE high bigint; third int := per_transaction / 3; picked bigint[];
BEGIN
    PERFORM setseed(seed);
    EXECUTE format('SELECT max(id) FROM %s', tab) INTO high;
    FOR step IN 1 .. changes / (3 * third) LOOP
        EXECUTE format('SELECT array_agg(id) FROM (SELECT id FROM %s WHERE id = ANY (ARRAY(
            SELECT DISTINCT $1 - floor(random() * $2)::bigint FROM generate_series(1, 6 * $3))) ORDER BY random() LIMIT 2 * $3) AS drawn', tab)
            INTO picked USING high, least(spread, high), third;
        IF array_length(picked, 1) IS DISTINCT FROM 2 * third THEN RAISE EXCEPTION 'too few rows to change'; END IF;
        EXECUTE format('INSERT INTO %s SELECT {_ROW.replace("%", "%%").replace("'", "''")}
            FROM generate_series($1 + 1, $1 + $2) AS i', tab) USING high, third::bigint;
        EXECUTE format('UPDATE %s SET quantity = quantity + 1, total = total + 1, state = ''changed'',
            changed = clock_timestamp() WHERE id = ANY ($1)', tab) USING picked[1:third];
        EXECUTE format('DELETE FROM %s WHERE id = ANY ($1)', tab) USING picked[third + 1:2 * third];
        high := high + third;
        COMMIT;
    END LOOP;
END $$
"""


class Orders(Source):
    """The benchmark's Postgres and its tables."""

    plugin: ClassVar[str] = "postgres"
    level: ClassVar[str] = "schema"
    parent: ClassVar[str] = "public"

    def __init__(self, server: PostgresServer) -> None:
        self.server = server
        server.execute(f"CREATE DATABASE {DATABASE}")
        self.execute(_CHURN)
        self.execute(f"CREATE PUBLICATION {PUBLICATION}")

    def execute(self, statement: str) -> list[tuple[object, ...]]:
        """Run one statement as superuser."""
        return self.server.execute(statement, DATABASE)

    @property
    def url(self) -> str:
        """The database as a URL."""
        server = self.server
        return f"postgresql://{server.user}:{quote(server.password)}@{server.host}:{server.port}/{DATABASE}"

    def properties(self, reader: str) -> Mapping[str, Any]:
        """Properties of our source, with the slot `reader`."""
        server = self.server
        return {
            "host": server.host, "port": server.port, "database": DATABASE, "user": server.user,
            "password": server.password, "sslMode": "disable", "publication": PUBLICATION, "slot": reader,
        }  # fmt: skip

    def make(self, table: str, rows: int) -> None:
        """Create `table` again with ids 1 to `rows`, published."""
        self.execute(f"DROP TABLE IF EXISTS {table}")
        self.execute(f"CREATE TABLE {table} ({_TABLE})")
        self.execute(f"INSERT INTO {table} SELECT {_ROW} FROM generate_series(1::bigint, {rows}) AS i")
        self.execute(f"ALTER PUBLICATION {PUBLICATION} ADD TABLE {table}")
        self.execute(f"VACUUM (FREEZE, ANALYZE) {table}")
        self.execute("CHECKPOINT")

    def churn(self, table: str, changes: int, *, transaction: int = 999, spread: int = 2**62, seed: float = 0.5) -> int:
        """Change `table`: a third each inserts, updates, deletes; returns how many changes that were.

        Args:
            table: Which one.
            changes: About how many.
            transaction: Changes in one transaction.
            spread: Updates and deletes hit the last `spread` ids only.
            seed: Which rows, -1 to 1.
        """
        third = transaction // 3
        self.execute(f"CALL churn('{table}', {changes}, {transaction}, {spread}, {seed})")
        return changes // (3 * third) * 3 * third

    def insert(self, table: str, rows: int, transaction: int) -> None:
        """Append `rows` rows, `transaction` of them in each transaction."""
        first = int(str(self.execute(f"SELECT max(id) FROM {table}")[0][0]))
        for start in range(first, first + rows, transaction):
            stop = min(start + transaction, first + rows)
            self.execute(f"INSERT INTO {table} SELECT {_ROW} FROM generate_series({start + 1}::bigint, {stop}) AS i")

    def position(self) -> str:
        """The log position now."""
        return str(self.execute("SELECT pg_current_wal_lsn()")[0][0])

    def slot(self, name: str) -> None:
        """Make a logical slot, if there is none of that name."""
        if not self.execute(f"SELECT 1 FROM pg_replication_slots WHERE slot_name = '{name}'"):
            self.execute(f"SELECT pg_create_logical_replication_slot('{name}', 'pgoutput')")

    def forget(self) -> None:
        """Drop every unused slot."""
        self.execute("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE NOT active")


@contextlib.contextmanager
def orders_server() -> Iterator[Orders]:
    """A private server, durable enough to measure reading: no fsync, a roomy WAL, no background vacuum."""
    server = PostgresServer(
        synchronous_commit="off", max_wal_size="16GB", checkpoint_timeout="1h", shared_buffers="1GB",
        max_parallel_workers_per_gather=0,
    )  # fmt: skip
    try:
        yield Orders(server.start())
    finally:
        server.remove()


def client_program(name: str) -> Path:
    """One of Debian's PostgreSQL client programs (`pg_recvlogical` is not among the test servers' programs).

    Raises:
        FileNotFoundError: When the package `postgresql-client` is missing.
    """
    found = shutil.which(name) or next(map(str, Path("/usr/lib/postgresql").glob(f"*/bin/{name}")), None)
    if found is None:
        raise FileNotFoundError(f"{name} is needed: apt-get install postgresql-client")
    return Path(found)


def client_environment(orders: Orders) -> dict[str, str]:
    """The environment in which libpq programs reach the database."""
    server = orders.server
    return {
        "PGHOST": server.host, "PGPORT": str(server.port), "PGUSER": server.user, "PGPASSWORD": server.password,
        "PGDATABASE": DATABASE, "PATH": os.environ["PATH"],
    }  # fmt: skip
