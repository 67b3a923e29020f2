"""A slot is created when the transactions that have written have ended, however long they take, and the user learns which."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest

from replicator_sdk.errors import RetryableError
from tests.plugins.sources.postgres.pump import Pump
from tests.services.postgres.fixtures import PrivatePostgres
from tests.services.postgres.server import PostgresDatabase
from tests.services.threads import beside

TABLE = "CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1)"


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waits of half a minute take a second."""
    monkeypatch.setattr("replicator_source_postgres.connection._LOCK_TIMEOUT_MS", 1000)
    monkeypatch.setattr("replicator_source_postgres.replication.slot_creation._REPORT_SECONDS", 0.5)


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@contextmanager
def writing(db: PostgresDatabase) -> Iterator[int]:
    """A transaction that has written and stays open as long as the block; its server process."""
    with db.connect() as connection:
        connection.autocommit = False
        connection.execute("CREATE TABLE other (x int)")
        yield connection.info.backend_pid
        connection.rollback()


def test_a_copy_begins_after_a_transaction_that_takes_longer_than_a_lock_may(
    postgres_database: PostgresDatabase,
) -> None:
    db = postgres_database
    db.execute(TABLE)
    pump = Pump(db, "t")
    pump.prepare()
    rows: list[int] = []

    def copy(_: threading.Event) -> None:
        rows.extend(pump.snapshot("t")[1].column("id").to_pylist())

    with ExitStack() as transaction:
        pid = transaction.enter_context(writing(db))
        with beside(copy):
            wait_until(lambda: len(pump.context.errors) > 3)
            assert not rows
            transaction.close()
            wait_until(lambda: rows == [1])
    assert all("RPL-3112" in str(error) for error in pump.context.errors)
    assert any(f"server process {pid}" in str(error) for error in pump.context.errors)


def test_a_first_start_waits_for_a_prepared_transaction_and_says_so(private_postgres: PrivatePostgres) -> None:
    with private_postgres(max_prepared_transactions=5).database() as db:
        db.execute(TABLE)
        pump = Pump(db, "t")
        with db.connect() as connection:
            connection.autocommit = False
            connection.execute("INSERT INTO t VALUES (2)")
            connection.execute("PREPARE TRANSACTION 'forgotten'")
        with beside(lambda _: pump.prepare()):
            wait_until(lambda: bool(pump.context.errors))
            db.execute("COMMIT PREPARED 'forgotten'")
        assert "a prepared transaction" in str(pump.context.errors[0])
        assert pump.offset is not None


def test_a_run_that_is_to_stop_waits_no_longer_and_leaves_no_slot(postgres_database: PostgresDatabase) -> None:
    db = postgres_database
    db.execute(TABLE)
    pump = Pump(db, "t")
    with writing(db):
        threading.Timer(1, lambda: setattr(pump.context, "stopping", True)).start()
        begun = time.monotonic()
        with pytest.raises(RetryableError):
            pump.prepare()
        assert time.monotonic() - begun < 100
    slots = "SELECT 1 FROM pg_catalog.pg_replication_slots WHERE database = current_database()"
    assert db.execute(slots) == []


def test_a_wait_that_is_longer_than_the_run_is_to_retry_is_an_error(
    postgres_database: PostgresDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    db = postgres_database
    db.execute(TABLE)
    pump = Pump(db, "t")
    with monkeypatch.context() as soon, writing(db) as pid:
        soon.setattr(type(pump.context), "longest_wait_seconds", 1.5)
        with pytest.raises(RetryableError, match=f"RPL-3112.*server process {pid}"):
            pump.prepare()
    slots = "SELECT 1 FROM pg_catalog.pg_replication_slots WHERE database = current_database()"
    assert db.execute(slots) == []
    pump.prepare()
