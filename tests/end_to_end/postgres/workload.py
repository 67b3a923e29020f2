"""Tables of every awkward kind, and writers that change them at random, many at once, each in its own transactions."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Sequence
from typing import Any, Self

import psycopg

from tests.services.postgres.server import PostgresDatabase

Connection = psycopg.Connection[Any]

TABLES = (
    ("public", "customer"),
    ("Sales Dept", 'line "item" ☂'),
    ("public", "journal"),
    ("public", "document"),
    ("public", "visit"),
)
_LINE = '"Sales Dept"."line ""item"" ☂"'
# One key; a composite key with capitals, blanks and quotes in names; no key; values too large for a row's page, so that
# updates do not carry them; partitions between which updates move rows.
_CREATE = f"""
CREATE TABLE customer (id bigint PRIMARY KEY, name text NOT NULL, balance numeric(12,2), since timestamptz, ok boolean);
CREATE SCHEMA "Sales Dept";
CREATE TABLE {_LINE} ("Order" int, part text, amount double precision, tags int[], PRIMARY KEY ("Order", part));
CREATE TABLE journal (level int, message text, at timestamp);
ALTER TABLE journal REPLICA IDENTITY FULL;
CREATE TABLE document (id bigint PRIMARY KEY, title text, body text, attributes jsonb, checksum bytea);
ALTER TABLE document ALTER body SET STORAGE EXTERNAL, ALTER attributes SET STORAGE EXTERNAL;
CREATE TABLE visit (id bigint, region text, seconds int, day date, PRIMARY KEY (id, region)) PARTITION BY LIST (region);
CREATE TABLE visit_north PARTITION OF visit FOR VALUES IN ('north');
CREATE TABLE visit_south PARTITION OF visit FOR VALUES IN ('south');
CREATE TABLE visit_other PARTITION OF visit DEFAULT;
"""
_FILL = f"""
INSERT INTO customer SELECT i, 'name ' || i, i / 7.0, '2024-02-29 12:00Z'::timestamptz + i * interval '1 minute', i % 3 = 0
    FROM generate_series(1, 2000) i;
INSERT INTO {_LINE} SELECT i % 50, 'part ' || i, i / 3.0, ARRAY[i, NULL, -i] FROM generate_series(1, 1000) i;
INSERT INTO journal SELECT i % 5, 'message ' || i % 20, '2024-01-01'::timestamp + i % 9 * interval '1 day'
    FROM generate_series(1, 1000) i;
INSERT INTO document SELECT i, 'title ' || i, repeat(md5(i::text), 100), jsonb_build_object('n', i, 'text', repeat('ä', 3000)),
    decode(md5(i::text), 'hex') FROM generate_series(1, 300) i;
INSERT INTO visit SELECT i, (ARRAY['north', 'south', 'west'])[1 + i % 3], i % 60, '2024-01-01'::date + i % 300
    FROM generate_series(1, 1000) i;
"""


def create(connection: Connection) -> None:
    """Make the tables, with some rows."""
    connection.execute(_CREATE.encode())
    connection.execute(_FILL.encode())


STRUCTURE_CHANGES = (
    "ALTER TABLE customer ADD COLUMN email text",
    "ALTER TABLE customer ADD COLUMN points int NOT NULL DEFAULT 7",
    """BEGIN; UPDATE customer SET points = id % 9 WHERE id % 5 = 0; ALTER TABLE customer ADD COLUMN note text;
    UPDATE customer SET note = 'noted' WHERE id % 10 = 0; COMMIT""",
    f"ALTER TABLE {_LINE} DROP COLUMN tags",
    "ALTER TABLE document RENAME COLUMN checksum TO digest",
    "BEGIN; TRUNCATE journal; INSERT INTO journal VALUES (9, 'after the truncation', NULL); COMMIT",
)
"""Changes of structure to be made while writers write; writers use none of these columns."""


def change_structure(connection: Connection, statement: str) -> None:
    """Make one of `STRUCTURE_CHANGES`; again when a writer and it waited for each other."""
    while True:
        try:
            connection.execute(statement.encode())
        except psycopg.errors.DeadlockDetected:
            connection.execute("ROLLBACK")
        else:
            return


_TAKEN_BACK = (
    psycopg.errors.UniqueViolation,
    psycopg.errors.DeadlockDetected,
    psycopg.errors.SerializationFailure,  # the row was moved to another partition meanwhile
)


class Writers:
    """Threads that change the shop at random until stopped; a deadlock or a taken key rolls their transaction back."""

    def __init__(self, database: PostgresDatabase, seed: int, threads: int = 3, pause: float = 0.01) -> None:
        self._database, self._pause = database, pause
        self._stop = threading.Event()
        self._errors: list[BaseException] = []
        self._threads = [
            threading.Thread(target=self._write, args=(random.Random(seed * 1000 + n), n), name=f"writer-{n}")
            for n in range(threads)
        ]
        self.transactions = 0

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def wait_for(self, transactions: int) -> None:
        """Wait until so many transactions are committed."""
        deadline = time.monotonic() + 300
        while self.transactions < transactions and not self._errors:
            assert time.monotonic() < deadline, self.transactions
            time.sleep(0.05)

    def stop(self) -> None:
        """Stop and wait; raises what stopped a writer."""
        self._stop.set()
        for thread in self._threads:
            thread.join(120)
        if self._errors:
            raise self._errors[0]

    def _write(self, chance: random.Random, number: int) -> None:
        try:
            with psycopg.connect(self._database.dsn) as connection:
                while not self._stop.wait(chance.random() * self._pause):
                    try:
                        self._transaction(connection, chance, number)
                    except _TAKEN_BACK:
                        connection.rollback()
        except BaseException as error:  # noqa: BLE001 - raised by stop()
            self._errors.append(error)

    def _transaction(self, connection: Connection, chance: random.Random, number: int) -> None:
        for _ in range(chance.choice((1, 1, 2, 5, 20))):
            step = chance.choice(STEPS)
            if chance.random() < 0.1:  # a part of the transaction that is taken back
                connection.execute("SAVEPOINT part")
                step(connection, chance, number)
                connection.execute("ROLLBACK TO part")
            else:
                step(connection, chance, number)
        if chance.random() < 0.1:
            connection.rollback()
        else:
            connection.commit()
            self.transactions += 1


def _customer(connection: Connection, chance: random.Random, number: int) -> None:
    """Inserts, updates, deletes and key changes; each writer has its own range of new keys."""
    key = chance.randint(1, 2500)
    free = 10_000 * (number + 1) + chance.randint(1, 2000)
    statements: Sequence[tuple[str, Sequence[Any]]] = (
        (
            "INSERT INTO customer (id, name) VALUES (%s, %s) ON CONFLICT DO NOTHING",
            [free, "new " + "x" * chance.randint(0, 40)],
        ),
        ("UPDATE customer SET balance = balance + 1, ok = NOT ok WHERE id = %s", [key]),
        ("UPDATE customer SET name = %s, since = NULL WHERE id BETWEEN %s AND %s", ["naïve 東京", key, key + 20]),
        ("DELETE FROM customer WHERE id = %s", [chance.choice((key, free))]),
        ("UPDATE customer SET id = %s WHERE id = %s", [free, key]),
        ("UPDATE customer SET id = %s WHERE id = %s", [key, free]),
    )
    connection.execute(*chance.choice(statements))


def _line(connection: Connection, chance: random.Random, number: int) -> None:
    order, part = chance.randint(0, 60), f"part {chance.randint(1, 1100)}"
    statements: Sequence[tuple[str, Sequence[Any]]] = (
        (
            f'INSERT INTO {_LINE} ("Order", part, amount) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING',
            [order, part, chance.random()],
        ),
        (f"UPDATE {_LINE} SET amount = %s WHERE part = %s", [chance.choice((float("inf"), 0.1, None)), part]),
        (f'UPDATE {_LINE} SET "Order" = %s WHERE part = %s', [order, part]),
        (f"DELETE FROM {_LINE} WHERE part = %s", [part]),
    )
    connection.execute(*chance.choice(statements))


def _journal(connection: Connection, chance: random.Random, number: int) -> None:
    """Equal rows come and go; one of several is deleted by its place."""
    level, message = chance.randint(0, 4), f"message {chance.randint(0, 20)}"
    one = "(SELECT ctid FROM journal WHERE level = %s LIMIT 1 FOR UPDATE SKIP LOCKED)"
    statements: Sequence[tuple[str, Sequence[Any]]] = (
        ("INSERT INTO journal VALUES (%s, %s, NULL), (%s, %s, NULL)", [level, message, level, message]),
        (f"DELETE FROM journal WHERE ctid = {one}", [level]),
        (f"UPDATE journal SET message = %s WHERE ctid = {one}", [message, level]),
        ("UPDATE journal SET at = NULL WHERE level = %s AND message = %s", [level, message]),
    )
    connection.execute(*chance.choice(statements))


def _document(connection: Connection, chance: random.Random, number: int) -> None:
    """Updates of small columns beside large ones, which then do not travel; also with a new key."""
    key = chance.randint(1, 400)
    free = 1000 * (number + 1) + chance.randint(1, 300)
    body = chance.choice("abc") * chance.randint(1, 9000)
    statements: Sequence[tuple[str, Sequence[Any]]] = (
        ("UPDATE document SET title = %s WHERE id BETWEEN %s AND %s", [f"title {free}", key, key + 5]),
        ("UPDATE document SET id = %s, title = 'moved' WHERE id = %s", [free, key]),
        ("UPDATE document SET id = %s WHERE id = %s", [key, free]),
        ("UPDATE document SET body = %s WHERE id = %s", [body, key]),
        (
            "INSERT INTO document (id, title, body) VALUES (%s, 'new', %s) ON CONFLICT (id) DO UPDATE SET title = 'twice'",
            [key, body],
        ),
        ("DELETE FROM document WHERE id = %s", [key]),
    )
    connection.execute(*chance.choice(statements))


def _visit(connection: Connection, chance: random.Random, number: int) -> None:
    """Updates of the partition key move a row between partitions."""
    key, region = chance.randint(1, 1100), chance.choice(("north", "south", "west", "east"))
    statements: Sequence[tuple[str, Sequence[Any]]] = (
        ("INSERT INTO visit VALUES (%s, %s, 1, NULL) ON CONFLICT DO NOTHING", [key, region]),
        ("UPDATE visit SET region = %s WHERE id = %s", [region, key]),
        ("UPDATE visit SET seconds = seconds + 1 WHERE id = %s", [key]),
        ("DELETE FROM visit WHERE id = %s AND region = %s", [key, region]),
    )
    connection.execute(*chance.choice(statements))


STEPS = (_customer, _line, _journal, _document, _visit)
