"""Tables of every awkward kind on MySQL and MariaDB, changes of their structure, and writers that change them at random."""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Self, TypeAlias

import pymysql
from pymysql.cursors import Cursor

from tests.end_to_end.mysql.database.all_types import create_kinds, kinds_row
from tests.services.mysql.server import MysqlDatabase

LINE = 'line "item" ☂'
KEYED = ("customer", LINE, "word", "meter", "upload", "ticket", "day_shift", "night_shift", "kinds")
TABLES = (*KEYED, "journal")
_LINE = f"`{LINE}`"
# Zero dates and values that are no member of an ENUM; a deadlock ends soon.
_SESSION = "SET SESSION sql_mode = '', innodb_lock_wait_timeout = 1"

# A plain key; a composite key with capitals, blanks and quotes in names, one part of it in another character set; keys that
# are equal in other capitals; unsigned ones beyond a signed column's reach; ones of bytes with zeros at the end; no key.
_CREATE = f"""
CREATE TABLE customer (
    id bigint PRIMARY KEY, name varchar(80) NOT NULL, balance decimal(12,2), since timestamp(6) NULL, ok tinyint(1));
CREATE TABLE {_LINE} (
    `Order` int, part varchar(40) CHARACTER SET latin1, amount double, tags set('new', 'old', 'on sale'),
    PRIMARY KEY (`Order`, part));
CREATE TABLE word (word varchar(60) COLLATE utf8mb4_general_ci PRIMARY KEY, uses int, kind enum('noun', 'verb'));
CREATE TABLE meter (serial bigint unsigned PRIMARY KEY, reading float, unit char(3), note varchar(20));
CREATE TABLE upload (digest binary(8) PRIMARY KEY, size int unsigned, body mediumblob);
CREATE TABLE journal (level int, message text, at datetime(3));
CREATE TABLE ticket (id int PRIMARY KEY, title varchar(60), state varchar(10));
CREATE TABLE day_shift (id int PRIMARY KEY, who varchar(20));
CREATE TABLE night_shift (id int PRIMARY KEY, who varchar(20))
"""
_FILL: Sequence[tuple[str, Callable[[int], Sequence[Any]], int]] = (
    ("INSERT INTO customer VALUES (%s, %s, %s, '2024-02-29 12:00:00', %s)", lambda i: [i, f"name {i}", i / 7, i % 3], 1000),
    (f"INSERT INTO {_LINE} VALUES (%s, %s, %s, 'new')", lambda i: [i % 50, f"pièce {i} €", i / 3], 500),
    ("INSERT INTO word VALUES (%s, 1, 'noun')", lambda i: [f"Wört {i}"], 300),
    ("INSERT INTO meter VALUES (%s, %s, 'kWh', NULL)", lambda i: [2**64 - i, i / 3], 300),
    ("INSERT INTO upload VALUES (%s, 0, %s)", lambda i: [i.to_bytes(2, "big") + bytes(6), bytes([i % 256]) * i], 300),
    ("INSERT INTO journal VALUES (%s, %s, '2024-01-01 00:00:00.125')", lambda i: [i % 5, f"message {i % 20}"], 500),
    ("INSERT INTO ticket VALUES (%s, %s, 'open')", lambda i: [i, f"ticket {i}"], 300),
    ("INSERT INTO day_shift VALUES (%s, 'day')", lambda i: [i], 50),
    ("INSERT INTO night_shift VALUES (%s, 'night')", lambda i: [i], 30),
)  # fmt: skip


def create(database: MysqlDatabase) -> None:
    """Make the tables, with some rows."""
    with database.connect() as connection, connection.cursor() as cursor:
        for statement in (_SESSION, *_CREATE.split(";")):
            cursor.execute(statement)
        create_kinds(cursor, database.server)
        connection.begin()
        for statement, row, count in _FILL:
            cursor.executemany(statement, [row(i) for i in range(1, count + 1)])
        chance = random.Random(0)
        for key in range(1, 101):
            cursor.execute(*kinds_row(database.server, chance, key))
        connection.commit()


def selection(database: MysqlDatabase, tables: Sequence[str] = TABLES) -> list[dict[str, Any]]:
    """The pipeline's `tables`, each by its name."""
    return [{"database": database.name, "table": table} for table in tables]


# ------------------------------------------------------------ changes of structure

Change: TypeAlias = "str | Callable[[Cursor], None]"


def ghost_table(cursor: Cursor) -> None:
    """Alter `ticket` as gh-ost and pt-online-schema-change do: a new table is filled beside it and takes its name."""
    columns, new = "(id, title, state)", "(NEW.id, NEW.title, NEW.state)"
    cursor.execute("CREATE TABLE _ticket_gho LIKE ticket")
    cursor.execute(
        "ALTER TABLE _ticket_gho ADD COLUMN priority tinyint unsigned NOT NULL DEFAULT 3 AFTER title, MODIFY state varchar(20)"
    )
    cursor.execute(
        f"CREATE TRIGGER i AFTER INSERT ON ticket FOR EACH ROW REPLACE INTO _ticket_gho {columns} VALUES {new}"
    )
    cursor.execute(
        "CREATE TRIGGER u AFTER UPDATE ON ticket FOR EACH ROW BEGIN DELETE FROM _ticket_gho WHERE id = OLD.id;"
        f" REPLACE INTO _ticket_gho {columns} VALUES {new}; END"
    )
    cursor.execute("CREATE TRIGGER d AFTER DELETE ON ticket FOR EACH ROW DELETE FROM _ticket_gho WHERE id = OLD.id")
    for low in range(0, 60_000, 10_000):
        again_when_waiting(
            cursor,
            f"INSERT IGNORE INTO _ticket_gho {columns} SELECT id, title, state FROM ticket WHERE id >= {low}"
            f" AND id < {low + 10_000} LOCK IN SHARE MODE",
        )
    cursor.execute("RENAME TABLE ticket TO _ticket_del, _ticket_gho TO ticket")
    cursor.execute("DROP TABLE _ticket_del")


STRUCTURE_CHANGES: Sequence[Change] = (
    "ALTER TABLE customer ADD COLUMN email varchar(60) AFTER name",
    "ALTER TABLE customer ADD COLUMN points int NOT NULL DEFAULT 7 FIRST",
    "ALTER TABLE customer CHANGE COLUMN points score bigint AFTER id",
    f"ALTER TABLE {_LINE} DROP COLUMN tags, MODIFY COLUMN amount double FIRST",
    "RENAME TABLE day_shift TO other_shift, night_shift TO day_shift, other_shift TO night_shift",
    "ALTER TABLE meter CHANGE COLUMN note remark varchar(40), ADD COLUMN place varchar(20) DEFAULT 'basement'",
    "TRUNCATE TABLE journal",
    ghost_table,
    "ALTER TABLE word MODIFY uses bigint, MODIFY kind enum('noun', 'verb', 'adverb')",
    "ALTER TABLE upload RENAME COLUMN size TO bytes",
    "ALTER TABLE kinds DROP COLUMN c_int, ADD COLUMN c_int varchar(10) DEFAULT 'new' AFTER id",
)
"""Made while writers write; writers use none of the columns they take away."""

_WAITED = {1205, 1213}


def again_when_waiting(cursor: Cursor, statement: str) -> None:
    """Run a statement; again when a writer and it waited for each other."""
    while True:
        try:
            cursor.execute(statement)
        except pymysql.MySQLError as error:
            if error.args[0] not in _WAITED:
                raise
        else:
            return


def change_structure(cursor: Cursor, change: Change) -> None:
    """Make one of `STRUCTURE_CHANGES`."""
    cursor.execute(_SESSION)
    if callable(change):
        change(cursor)
    else:
        again_when_waiting(cursor, change)


# ------------------------------------------------------------ writers

_TAKEN_BACK = {
    1020,  # the row changed since it was read (MariaDB 11)
    1062,  # the key is taken
    1205,  # waited too long for a lock
    1213,  # deadlock
    1412,  # the table's table.structure_changed since the transaction began
}


class Writers:
    """Threads that change the shop at random until stopped; a deadlock or a taken key rolls their transaction back.

    Args:
        database: The shop's.
        seed: Of their chance.
        sessions: One thread for each, which begins with these statements.
        tables: What they write to.
    """

    def __init__(
        self,
        database: MysqlDatabase,
        seed: int,
        sessions: Sequence[Sequence[str]] = ((), (), ()),
        pause: float = 0.01,
        tables: Sequence[str] = TABLES,
    ) -> None:
        self._database, self._pause = database, pause
        self._steps = [STEPS[table] for table in tables]
        self._stop = threading.Event()
        self._errors: list[BaseException] = []
        self._threads = [
            threading.Thread(target=self._write, args=(random.Random(seed * 1000 + n), n, session), name=f"writer-{n}")
            for n, session in enumerate(sessions)
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

    def _write(self, chance: random.Random, number: int, session: Sequence[str]) -> None:
        try:
            with self._database.connect(autocommit=False) as connection, connection.cursor() as cursor:
                for statement in (_SESSION, *session):
                    cursor.execute(statement)
                while not self._stop.wait(chance.random() * self._pause):
                    try:
                        self._transaction(connection, cursor, chance, number)
                    except pymysql.MySQLError as error:
                        if error.args[0] not in _TAKEN_BACK:
                            raise
                        connection.rollback()
        except BaseException as error:  # noqa: BLE001 - raised by stop()
            self._errors.append(error)

    def _transaction(
        self, connection: pymysql.Connection[Any], cursor: Cursor, chance: random.Random, number: int
    ) -> None:
        for _ in range(chance.choice((1, 1, 2, 5, 20))):
            step = chance.choice(self._steps)
            if chance.random() < 0.1:  # a part of the transaction that is taken back
                cursor.execute("SAVEPOINT part")
                step(self._database, cursor, chance, number)
                cursor.execute("ROLLBACK TO SAVEPOINT part")
            else:
                step(self._database, cursor, chance, number)
        if chance.random() < 0.1:
            connection.rollback()
        else:
            connection.commit()
            self.transactions += 1


Statements: TypeAlias = Sequence[tuple[str, Sequence[Any]]]


def _customer(database: MysqlDatabase, cursor: Cursor, chance: random.Random, number: int) -> None:
    """Inserts, updates, deletes and key changes; each writer has its own range of new keys."""
    key = chance.randint(1, 1500)
    free = 10_000 * (number + 1) + chance.randint(1, 2000)
    statements: Statements = (
        ("INSERT IGNORE INTO customer (id, name) VALUES (%s, %s)", [free, "new " + "x" * chance.randint(0, 40)]),
        ("UPDATE customer SET balance = balance + 1, ok = NOT ok WHERE id = %s", [key]),
        ("UPDATE customer SET name = %s, since = NULL WHERE id BETWEEN %s AND %s", ["naïve 東京 🎲", key, key + 20]),
        ("DELETE FROM customer WHERE id = %s", [chance.choice((key, free))]),
        ("UPDATE customer SET id = %s WHERE id = %s", [free, key]),
        ("UPDATE customer SET id = %s WHERE id = %s", [key, free]),
        ("REPLACE INTO customer (id, name, since) VALUES (%s, 'replaced', '2038-01-19 03:14:07')", [key]),
    )
    cursor.execute(*chance.choice(statements))


def _line(database: MysqlDatabase, cursor: Cursor, chance: random.Random, number: int) -> None:
    order, part = chance.randint(0, 60), f"pièce {chance.randint(1, 600)} €"
    statements: Statements = (
        (f"INSERT IGNORE INTO {_LINE} (`Order`, part, amount) VALUES (%s, %s, %s)", [order, part, chance.random()]),
        (f"UPDATE {_LINE} SET amount = %s WHERE part = %s", [chance.choice((-1e300, 0.1, None)), part]),
        (f"UPDATE {_LINE} SET `Order` = %s WHERE part = %s", [order, part]),
        (f"DELETE FROM {_LINE} WHERE part = %s", [part]),
    )
    cursor.execute(*chance.choice(statements))


def _word(database: MysqlDatabase, cursor: Cursor, chance: random.Random, number: int) -> None:
    """The key is equal in other capitals, without accents and with blanks at the end: the server has one row, the log
    has keys that differ.
    """
    word = f"Wört {chance.randint(1, 400)}"
    other = chance.choice((word.upper(), word.lower(), word + "  ", word.replace("ö", "o")))
    statements: Statements = (
        ("INSERT INTO word VALUES (%s, 1, 'verb') ON DUPLICATE KEY UPDATE uses = uses + 1", [other]),
        ("INSERT INTO word VALUES (%s, 1, 'verb') ON DUPLICATE KEY UPDATE word = VALUES(word)", [other]),
        ("UPDATE word SET word = %s WHERE word = %s", [other, word]),
        ("REPLACE INTO word (word) VALUES (%s)", [other]),
        ("DELETE FROM word WHERE word = %s", [other]),
    )
    cursor.execute(*chance.choice(statements))


def _meter(database: MysqlDatabase, cursor: Cursor, chance: random.Random, number: int) -> None:
    serial = chance.choice((2**64, 2**63, 1000)) - chance.randint(1, 400)
    statements: Statements = (
        ("INSERT IGNORE INTO meter (serial, reading, unit) VALUES (%s, %s, 'm³')", [serial, chance.random() * 1e6]),
        ("UPDATE meter SET reading = reading * 1.1 WHERE serial BETWEEN %s AND %s", [serial - 10, serial]),
        ("UPDATE meter SET serial = %s WHERE serial = %s", [serial, 2**64 - chance.randint(1, 400)]),
        ("DELETE FROM meter WHERE serial = %s", [serial]),
    )
    cursor.execute(*chance.choice(statements))


def _upload(database: MysqlDatabase, cursor: Cursor, chance: random.Random, number: int) -> None:
    """Values of up to some pages, keys that end in zeros."""
    digest = chance.randint(1, 400).to_bytes(2, "big") + bytes(6)
    body = bytes([chance.randrange(256)]) * chance.randint(0, 30_000)
    statements: Statements = (
        ("REPLACE INTO upload (digest, body) VALUES (%s, %s)", [digest, body]),
        ("UPDATE upload SET body = %s WHERE digest = %s", [chance.choice((b"", None)), digest]),
        ("UPDATE upload SET digest = %s WHERE digest = %s", [digest[::-1], digest]),
        ("DELETE FROM upload WHERE digest = %s", [chance.choice((digest, digest[::-1]))]),
    )
    cursor.execute(*chance.choice(statements))


def _journal(database: MysqlDatabase, cursor: Cursor, chance: random.Random, number: int) -> None:
    """Equal rows come and go; one of several is taken."""
    level, message = chance.randint(0, 4), f"message {chance.randint(0, 20)}"
    statements: Statements = (
        ("INSERT INTO journal VALUES (%s, %s, NULL), (%s, %s, NULL)", [level, message, level, message]),
        ("DELETE FROM journal WHERE level = %s LIMIT 1", [level]),
        ("UPDATE journal SET message = %s WHERE level = %s LIMIT 1", [message, level]),
        ("UPDATE journal SET at = NULL WHERE level = %s AND message = %s", [level, message]),
    )
    cursor.execute(*chance.choice(statements))


def _ticket(database: MysqlDatabase, cursor: Cursor, chance: random.Random, number: int) -> None:
    key, free = chance.randint(1, 400), 10_000 * (number + 1) + chance.randint(1, 500)
    statements: Statements = (
        ("INSERT IGNORE INTO ticket (id, title, state) VALUES (%s, 'new', 'open')", [free]),
        (
            "UPDATE ticket SET state = %s WHERE id BETWEEN %s AND %s",
            [chance.choice(("open", "done", None)), key, key + 5],
        ),
        ("UPDATE ticket SET id = %s WHERE id = %s", [free, key]),
        ("DELETE FROM ticket WHERE id = %s", [key]),
    )
    cursor.execute(*chance.choice(statements))


def _shift(database: MysqlDatabase, cursor: Cursor, chance: random.Random, number: int) -> None:
    """Two tables of one structure, which a change of structure swaps."""
    table, key = chance.choice(("day_shift", "night_shift")), chance.randint(1, 100)
    statements: Statements = (
        (f"REPLACE INTO {table} (id, who) VALUES (%s, %s)", [key, f"{table} {number}"]),
        (f"DELETE FROM {table} WHERE id = %s", [key]),
    )
    cursor.execute(*chance.choice(statements))


def _kinds(database: MysqlDatabase, cursor: Cursor, chance: random.Random, number: int) -> None:
    key = chance.randint(1, 150)
    if chance.random() < 0.2:
        cursor.execute("DELETE FROM kinds WHERE id = %s", [key])
    else:
        cursor.execute(*kinds_row(database.server, chance, key))


Step: TypeAlias = Callable[[MysqlDatabase, Cursor, random.Random, int], None]
STEPS: dict[str, Step] = {
    "customer": _customer,
    LINE: _line,
    "word": _word,
    "meter": _meter,
    "upload": _upload,
    "journal": _journal,
    "ticket": _ticket,
    "day_shift": _shift,
    "night_shift": _shift,
    "kinds": _kinds,
}


def large_transaction(database: MysqlDatabase, rows: int = 20_000) -> None:
    """One transaction of many rows in several tables."""
    with contextlib.closing(database.connect(autocommit=False)) as connection, connection.cursor() as cursor:
        cursor.executemany(
            "INSERT INTO customer (id, name) VALUES (%s, %s)", [(1_000_000 + i, "bulk") for i in range(rows)]
        )
        cursor.executemany("INSERT INTO journal VALUES (%s, 'bulk', NULL)", [(i % 3,) for i in range(rows // 10)])
        cursor.execute("UPDATE customer SET name = 'bulk, changed' WHERE id >= 1000000 AND id % 3 = 0")
        cursor.execute("DELETE FROM customer WHERE id >= 1000000 AND id % 10 <> 0")
        connection.commit()
