"""A lost stream is retried and loses nothing, and the server is sent only what is durable."""

from __future__ import annotations

import os
import threading
import time

import psutil
import pytest

from replicator_sdk.batch import ChangeBatch, Commits
from replicator_sdk.errors import (
    RetryableError,
)
from replicator_sdk.testing.contexts import CollectingEmitter
from replicator_source_postgres import PostgresOffset
from tests.plugins.sources.postgres.faults import PREPARED, error_of, ids, slot_of
from tests.plugins.sources.postgres.pump import Pump, Run
from tests.services.postgres.fixtures import PrivatePostgres


def test_a_terminated_session_is_retried_and_loses_nothing(pump: Pump) -> None:
    db = pump.database
    db.execute("INSERT INTO t VALUES (1)")
    terminate = f"SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = '{slot_of(pump)}'"
    assert isinstance(error_of(pump, lambda run: db.execute(terminate)), RetryableError)
    assert ids(pump) == [1]


@pytest.mark.parametrize("how", ["restart", "kill"])
def test_a_server_that_stops_is_retried_and_loses_nothing(how: str, private_postgres: PrivatePostgres) -> None:
    server = private_postgres()
    with server.database() as db:
        db.execute(PREPARED)
        pump = Pump(db, "t")
        pump.prepare()
        db.execute("INSERT INTO t VALUES (1)")

        def break_off(_: Run) -> None:
            if how == "restart":
                server.restart()
            else:
                server.kill()
                server.start()

        assert isinstance(error_of(pump, break_off), RetryableError)
        db.execute("INSERT INTO t VALUES (2)")
        assert ids(pump) == [1, 2]


def test_a_server_that_does_not_answer_is_a_lost_connection(pump: Pump, monkeypatch: pytest.MonkeyPatch) -> None:
    """A session that hangs without closing its connection, here stopped by a signal."""
    query = f"SELECT active_pid FROM pg_replication_slots WHERE slot_name = '{slot_of(pump)}'"
    stopped: list[psutil.Process] = []

    def stop(_: Run) -> None:
        stopped.append(psutil.Process(int(pump.database.execute(query)[0][0])))
        stopped[0].suspend()
        monkeypatch.setattr("replicator_source_postgres.replication.replication_stream._SILENCE_SECONDS", 1.0)

    try:
        error = error_of(pump, stop)
    finally:
        for process in stopped:
            process.resume()
    assert isinstance(error, RetryableError)
    assert error.code == "RPL-3210"


class BlockedEmitter(CollectingEmitter):
    """A full queue: blocks at the first batch until it is released."""

    def __init__(self) -> None:
        super().__init__()
        self.blocked = threading.Event()
        self.go_on = threading.Event()

    def emit_batch(self, batch: ChangeBatch) -> None:
        self.blocked.set()
        self.go_on.wait(240)
        super().emit_batch(batch)


def test_a_reader_that_waits_for_the_target_keeps_its_session(private_postgres: PrivatePostgres) -> None:
    """Status is reported while the emitter blocks for longer than wal_sender_timeout, which is long enough for a busy machine."""
    server = private_postgres(wal_sender_timeout="6s")
    with server.database() as db:
        db.execute(PREPARED)
        pump = Pump(db, "t")
        pump.prepare()
        emitter = BlockedEmitter()
        with pump.running(emitter) as run:
            # More than socket buffers hold, so that the server waits for us while it sends.
            db.execute("INSERT INTO t SELECT i, repeat('x', 1000) FROM generate_series(1, 60000) i")
            assert emitter.blocked.wait(120)
            time.sleep(8)
            emitter.go_on.set()
            run.wait_for(pump.source.latest_offset())
            assert sum(len(batch) for batch in run.batches("t")) == 60000


def test_only_what_is_durable_is_confirmed_to_the_server(pump: Pump) -> None:
    """Without a committed offset the slot does not advance, however much was read."""
    db = pump.database
    confirmed = f"SELECT confirmed_flush_lsn - '0/0' FROM pg_replication_slots WHERE slot_name = '{slot_of(pump)}'"
    start = pump.offset
    assert isinstance(start, PostgresOffset)
    with pump.running() as run:
        db.execute("INSERT INTO t VALUES (1)")
        run.wait_for(pump.source.latest_offset())
        time.sleep(1)
        assert int(db.execute(confirmed)[0][0]) == start.lsn
        durable = run.emitter.last_offset
        assert isinstance(durable, PostgresOffset)
        pump.context.committed = durable
        commit = durable.commit  # it stays in the log, to be compared at the next start
        assert commit is not None
        run.wait_until(lambda: int(db.execute(confirmed)[0][0]) == commit.lsn)


def test_an_idle_table_on_a_busy_server_does_not_retain_the_log(pump: Pump) -> None:
    """The offset advances although no captured table changes."""
    db = pump.database
    db.execute("CREATE TABLE busy (id int)")
    with pump.running() as run:
        for _ in range(3):
            db.execute("INSERT INTO busy SELECT generate_series(1, 1000)")
            run.wait_for(pump.source.latest_offset())
    assert run.events == []


def test_the_latest_offset_is_reached_without_further_changes(pump: Pump) -> None:
    """Also right after commits that were not flushed."""
    db = pump.database
    for n in range(10):
        with db.connect() as connection:
            connection.execute("SET synchronous_commit = off")
            connection.execute("INSERT INTO t VALUES (%s, %s)", [n, "x" * (n * 997)])
        assert ids(pump) == [n]


class MemoryWatch(CollectingEmitter):
    """Drops what it is given and notes the process's memory."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = self.batches = 0
        self.peak = 0

    def emit_batch(self, batch: ChangeBatch) -> None:
        self.rows += len(batch)
        self.batches += 1
        self.peak = max(self.peak, psutil.Process(os.getpid()).memory_info().rss)

    def emit_commits(self, commits: Commits) -> None:
        assert commits.events in {0, self.rows}
        super().emit_commits(commits)


def test_a_huge_transaction_is_read_in_bounded_memory(pump: Pump) -> None:
    """It is emitted in many batches with consecutive ordinals, and one commit."""
    db = pump.database
    db.execute("INSERT INTO t SELECT i, md5(i::text) || repeat('y', 200) FROM generate_series(1, 600000) i")
    emitter = MemoryWatch()
    before = psutil.Process(os.getpid()).memory_info().rss
    end = pump.source.latest_offset()
    with pump.running(emitter) as run:
        run.wait_for(end)
    assert emitter.rows == 600_000
    assert emitter.batches > 5
    assert emitter.peak - before < 250 << 20
