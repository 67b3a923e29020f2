"""A table without a key is copied as it was at one log position, and its writers wait only for a moment."""

from __future__ import annotations

import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

import pymysql
import pytest

from replicator_sdk.discovery.assessment import Severity
from replicator_sdk.errors import NeedsUserError, RetryableError
from replicator_source_mysql.assessment.assessor import MySqlTableAssessor
from replicator_source_mysql.offset import MySqlOffset
from replicator_source_mysql.snapshots import locked_snapshot as held_table
from replicator_source_mysql.snapshots.snapshot_relay import RelayAddress, relayed
from tests.follows import follows
from tests.plugins.sources.mysql.snapshot_reading import endpoint_of, reader_of, rows_of, schema_of
from tests.services.mysql.server import MysqlDatabase

_WRITERS = 3


class _Ledger:
    """Writers that each insert 1, 2, 3 …, one transaction a number."""

    def __init__(self, db: MysqlDatabase) -> None:
        self._db = db
        self._stop = threading.Event()
        self._written = [0] * _WRITERS
        self._threads = [threading.Thread(target=self._write, args=(writer,)) for writer in range(_WRITERS)]

    def _write(self, writer: int) -> None:
        with self._db.connect() as connection, connection.cursor() as cursor:
            number = 0
            while not self._stop.is_set():
                number += 1
                cursor.execute("INSERT INTO t VALUES (%s, %s, REPEAT('x', 200))", [writer, number])
                self._written[writer] = number

    def wait_until_each_writes(self) -> None:
        """Wait until each writer has begun and ended a transaction."""
        before, deadline = list(self._written), time.monotonic() + 120
        while any(now < then + 2 for now, then in zip(self._written, before, strict=True)):
            assert time.monotonic() < deadline, "a writer waits"
            time.sleep(0.01)

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()


def _inserts_before(db: MysqlDatabase, position: MySqlOffset) -> int:
    """How many row events of the table the log has up to `position`, by the server's own listing of it."""
    count, captured = 0, False
    for file, _, kind, _, end, info in db.query("SHOW BINLOG EVENTS IN %s", position.file):
        assert file == position.file
        if end > position.position:
            break
        if kind == "Table_map":
            captured = f"({db.name}.t)" in info
        elif kind.startswith("Write_rows") and captured:
            count += 1
    return count


def _filled(db: MysqlDatabase, engine: str = "InnoDB") -> None:
    db.execute("FLUSH LOGS")
    db.execute(f"CREATE TABLE t (w int, n int, pad varchar(200)) ENGINE = {engine}")


def test_rows_and_position_belong_together_under_writers(mysql_and_mariadb: MysqlDatabase) -> None:
    """Each writer's numbers are without a gap, there are as many as the log has up to the position, and all write while a snapshot is open."""
    db = mysql_and_mariadb
    _filled(db)
    reader, schema = reader_of(db), schema_of(db)
    with _Ledger(db) as ledger:
        for _ in range(5):
            ledger.wait_until_each_writes()
            with reader.open(schema) as snapshot:
                ledger.wait_until_each_writes()
                rows = rows_of(snapshot)
                assert not snapshot.resumable
                assert snapshot.end() is None
                assert len(snapshot.chunks) == 1
                assert isinstance(snapshot.position, MySqlOffset)
                assert len(rows) == _inserts_before(db, snapshot.position)
            counts = Counter(row["w"] for row in rows)
            assert {(row["w"], row["n"]) for row in rows} == {
                (writer, number) for writer, count in counts.items() for number in range(1, count + 1)
            }
            assert len(rows) == len({(row["w"], row["n"]) for row in rows}) > 0


def test_reading_again_gives_the_same_rows(mysql_and_mariadb: MysqlDatabase) -> None:
    """Spark may evaluate a chunk twice; several readers at once take turns."""
    db = mysql_and_mariadb
    _filled(db)
    with _Ledger(db) as ledger:
        ledger.wait_until_each_writes()
        with reader_of(db).open(schema_of(db)) as snapshot:
            found: list[list[Any]] = []
            threads = [threading.Thread(target=lambda: found.append(rows_of(snapshot))) for _ in range(3)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert len(found) == 3
            assert len(found[0]) > 0
            assert all(Counter(map(str, rows)) == Counter(map(str, found[0])) for rows in found)


def test_readers_that_go_away_do_not_hinder_the_next(mysql_and_mariadb: MysqlDatabase) -> None:
    db = mysql_and_mariadb
    _filled(db)
    db.execute("INSERT INTO t VALUES (1, 1, REPEAT('x', 200))")
    for _ in range(18):
        db.execute("INSERT INTO t SELECT * FROM t")
    with reader_of(db).open(schema_of(db)) as snapshot:
        address: RelayAddress = snapshot.read.address  # type: ignore[attr-defined]
        for _ in range(2):
            begun = relayed(address, "t")
            assert len(next(begun)) > 0
            begun.close()  # type: ignore[attr-defined]
        mute = socket.create_connection((address.host, address.port))
        stranger = relayed(RelayAddress(address.host, address.port, b"x" * 32), "t")
        with pytest.raises(RetryableError, match="RPL-3823"):
            next(stranger)
        assert sum(batch.num_rows for batch in snapshot.read(snapshot.chunks[0])) == 2**18
        mute.close()


def test_nothing_is_left_after_closing(mysql_and_mariadb: MysqlDatabase) -> None:
    """Threads, sessions and listener end, also with a reader in the middle of the rows."""
    db = mysql_and_mariadb
    _filled(db)
    db.execute("INSERT INTO t VALUES (1, 1, REPEAT('x', 200))")
    for _ in range(17):
        db.execute("INSERT INTO t SELECT * FROM t")
    threads, sessions = threading.active_count(), _sessions(db)
    snapshot = reader_of(db).open(schema_of(db))
    begun = snapshot.read(snapshot.chunks[0])
    next(begun)
    began = time.monotonic()
    snapshot.close()
    snapshot.close()
    assert time.monotonic() - began < 60
    with pytest.raises(RetryableError, match="RPL-3823"):
        list(begun)
    assert threading.active_count() == threads
    deadline = time.monotonic() + 60
    while _sessions(db) > sessions and time.monotonic() < deadline:
        time.sleep(0.05)
    assert _sessions(db) <= sessions
    with pytest.raises(RetryableError, match="RPL-3823"):
        rows_of(snapshot)


def test_a_chunk_that_is_given_up_leaves_no_session(mysql_and_mariadb: MysqlDatabase) -> None:
    """As when Spark kills a task: the server must not go on holding the table for a reader that is gone."""
    db = mysql_and_mariadb
    db.execute("CREATE TABLE t (id int PRIMARY KEY AUTO_INCREMENT, pad varchar(200))")
    db.execute("INSERT INTO t (pad) VALUES (REPEAT('x', 200))")
    for _ in range(17):
        db.execute("INSERT INTO t (pad) SELECT pad FROM t")
    sessions = _sessions(db)
    with reader_of(db).open(schema_of(db)) as snapshot:
        for _ in range(3):
            begun = snapshot.read(snapshot.chunks[0])
            next(begun)
            begun.close()  # type: ignore[attr-defined]
        deadline = time.monotonic() + 60
        while _sessions(db) > sessions and time.monotonic() < deadline:
            time.sleep(0.05)
        assert _sessions(db) <= sessions
    db.execute("ALTER TABLE t ADD COLUMN w int")


def _sessions(db: MysqlDatabase) -> int:
    return int(db.query("SELECT COUNT(*) FROM information_schema.processlist WHERE user = %s", db.user)[0][0])


def test_a_ddl_waits_until_the_snapshot_is_closed(mysql_and_mariadb: MysqlDatabase) -> None:
    """A query finds a table by the name that it has by then: after a rename it would read another table's rows."""
    db = mysql_and_mariadb
    _filled(db)
    with reader_of(db).open(schema_of(db)) as snapshot:
        for _ in range(2):
            with pytest.raises(pymysql.OperationalError, match="1205"):
                _rename(db)
            assert rows_of(snapshot) == []
    _rename(db, seconds=60)


def _rename(db: MysqlDatabase, seconds: int = 1) -> None:
    with db.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SET SESSION lock_wait_timeout = %s", [seconds])
        cursor.execute("RENAME TABLE t TO t2")


@contextmanager
def _writing(db: MysqlDatabase) -> Iterator[pymysql.Connection[Any]]:
    with db.connect() as connection, connection.cursor() as cursor:
        cursor.execute("BEGIN")
        cursor.execute("INSERT INTO t VALUES (7, 7, 'open')")
        yield connection
        connection.rollback()


def test_a_writer_that_does_not_end_is_not_waited_for_long(
    mysql_and_mariadb: MysqlDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others would wait for the lock."""
    monkeypatch.setattr(held_table, "_LOCK_SECONDS", 1)
    db = mysql_and_mariadb
    _filled(db)
    with _writing(db), pytest.raises(RetryableError, match="RPL-3809") as caught:
        reader_of(db).open(schema_of(db))
    assert caught.value.table == f"{db.name}.t"
    with reader_of(db).open(schema_of(db)) as snapshot:
        assert rows_of(snapshot) == []


def test_an_engine_without_transactions_stays_locked(mysql_and_mariadb: MysqlDatabase) -> None:
    """MyISAM shows no past moment, so writers wait until the snapshot is closed."""
    db = mysql_and_mariadb
    _filled(db, "MyISAM")
    db.execute("INSERT INTO t VALUES (1, 1, 'x')")
    done = threading.Event()

    def write() -> None:
        db.execute("INSERT INTO t VALUES (2, 2, 'y')")
        done.set()

    with reader_of(db).open(schema_of(db)) as snapshot:
        writer = threading.Thread(target=write)
        writer.start()
        assert len(rows_of(snapshot)) == 1
        assert not done.wait(0.3)
        assert len(rows_of(snapshot)) == 1
    writer.join(120)
    assert done.is_set()


@follows("RPL-3802")
def test_without_the_right_to_lock_it_says_so(mysql_and_mariadb: MysqlDatabase) -> None:
    db = mysql_and_mariadb
    _filled(db)
    user = f"u{db.name[-10:]}"
    db.execute(f"CREATE USER {user} IDENTIFIED BY 'x1'")
    try:
        db.execute(f"GRANT SELECT ON {db.name}.* TO {user}")
        db.execute(
            f"GRANT REPLICATION SLAVE, {'BINLOG MONITOR' if db.is_mariadb else 'REPLICATION CLIENT'} ON *.* TO {user}"
        )
        with pytest.raises(NeedsUserError, match=r"RPL-3802.*`replicator assess` prints the grants"):
            reader_of(db, user=user, password="x1").open(schema_of(db))
        with MySqlTableAssessor(endpoint_of(db, user=user, password="x1")) as assessor:
            found = [*assessor.assess().findings, *assessor.assess_table(schema_of(db)).findings]
        for finding in found:
            if finding.severity is Severity.ERROR:
                db.execute(finding.fix)
        db.execute("INSERT INTO t VALUES (1, 1, 'x')")
        with reader_of(db, user=user, password="x1").open(schema_of(db)) as snapshot:
            assert len(rows_of(snapshot)) == 1
    finally:
        db.execute(f"DROP USER {user}")
