"""What breaks is told with its class and next step, and nothing is lost by it."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from dataclasses import replace

import psutil
import pytest
from psycopg import OperationalError

from replicator_sdk.batch import ChangeBatch, Commits
from replicator_sdk.errors import (
    HistoryLostError,
    NeedsUserError,
    ReplicatorError,
    RetryableError,
    TableHistoryLostError,
)
from replicator_sdk.event import DDLOperation
from replicator_sdk.testing.contexts import CollectingEmitter
from replicator_source_postgres import PostgresOffset
from replicator_source_postgres.diagnosis import diagnose
from tests.plugins.sources.postgres.harness import Pump, Run, source_of
from tests.services.postgres import PostgresDatabase, PostgresServer
from tests.services.postgres_fixtures import PrivatePostgres

PREPARED = "CREATE TABLE t (id int PRIMARY KEY, v text)"


def ids(pump: Pump) -> list[int]:
    """The ids of the rows a further read brings."""
    return [row["id"] for _, row, _, _ in pump.read().changes("t")]


@pytest.fixture
def pump(postgres_database: PostgresDatabase) -> Pump:
    postgres_database.execute(PREPARED)
    made = Pump(postgres_database, "t")
    made.prepare()
    return made


def slot_of(pump: Pump) -> str:
    rows = pump.database.execute(
        f"SELECT slot_name FROM pg_replication_slots WHERE database = '{pump.database.name}' AND NOT temporary"
    )
    return str(rows[0][0])


def error_of(pump: Pump, break_off: Callable[[Run], object]) -> BaseException | None:
    """What ends a reader that has read everything when `break_off` happens."""
    run = Run(pump, CollectingEmitter())
    try:
        run.wait_for(pump.source.latest_offset())
        break_off(run)
        run.wait_until(lambda: run.error is not None)
    finally:
        run.stop()
    return run.error


# ------------------------------------------------------------ connections


def refusal(pump: Pump, **settings: object) -> ReplicatorError:
    with pytest.raises(ReplicatorError) as caught:
        source_of(pump.database, **settings).identity()
    assert "wrong-secret" not in str(caught.value)
    return caught.value


def test_a_wrong_password_needs_the_user(pump: Pump) -> None:
    error = refusal(pump, password="wrong-secret")
    assert (type(error), error.code) == (NeedsUserError, "RPL-3101")


def test_an_unknown_database_needs_the_user(pump: Pump) -> None:
    pump.database.name, name = "nowhere", pump.database.name
    error = refusal(pump)
    pump.database.name = name
    assert (type(error), error.code) == (NeedsUserError, "RPL-3102")


def test_an_unreachable_server_is_tried_again(pump: Pump) -> None:
    error = refusal(pump, port=1, connect_timeout_seconds=2)
    assert (type(error), error.code) == (RetryableError, "RPL-3107")


def test_a_role_without_replication_needs_the_user(pump: Pump) -> None:
    db = pump.database
    role = f"plain_{db.name}"
    db.execute(f"CREATE ROLE {role} LOGIN PASSWORD 'wrong-secret'")
    try:
        error = refusal(pump, user=role, password="wrong-secret")
        assert (type(error), error.code) == (NeedsUserError, "RPL-3103")
    finally:
        db.execute(f"DROP ROLE {role}")


def test_the_password_is_in_no_repr(pump: Pump) -> None:
    source = source_of(pump.database, password="wrong-secret")
    assert "wrong-secret" not in repr(source.config) + repr(source.endpoint()) + str(source.endpoint())


def test_tls_is_verified_unless_it_is_spelled_out_otherwise(tls_postgres: PostgresServer) -> None:
    with tls_postgres.database() as db:
        assert tls_postgres.certificate is not None
        root = tls_postgres.certificate.authority
        assert source_of(db, host="localhost", ssl_mode="verify-full", ssl_root_cert=root).identity()
        with pytest.raises(NeedsUserError, match="RPL-3106"):
            source_of(db, host="localhost", ssl_mode="verify-full").identity()
        with pytest.raises(NeedsUserError, match=r"RPL-310[16]"):
            source_of(db, host="localhost", ssl_mode="disable").identity()


# ------------------------------------------------------------ slot and publication


def test_a_dropped_slot_is_lost_history_and_is_not_made_again(pump: Pump) -> None:
    pump.database.execute(f"SELECT pg_drop_replication_slot('{slot_of(pump)}')")
    with pytest.raises(HistoryLostError, match="RPL-3203"):
        pump.read()
    assert pump.database.execute("SELECT count(*) FROM pg_replication_slots WHERE NOT temporary")[0][0] == 0


def test_a_slot_confirmed_beyond_the_offset_is_lost_history(pump: Pump) -> None:
    old = pump.offset
    pump.database.execute("INSERT INTO t VALUES (1)")
    pump.read()
    pump.database.execute(f"SELECT pg_replication_slot_advance('{slot_of(pump)}', pg_current_wal_lsn())")
    pump.offset = old
    with pytest.raises(HistoryLostError, match="RPL-3204"):
        pump.read()


def test_an_offset_beyond_the_end_of_the_log_is_another_history(pump: Pump) -> None:
    pump.offset = PostgresOffset(1 << 60)
    with pytest.raises(HistoryLostError, match="RPL-3205"):
        pump.prepare()


def test_a_slot_of_another_plugin_is_refused(pump: Pump) -> None:
    db = pump.database
    db.execute("SELECT pg_create_logical_replication_slot('other_plugin', 'test_decoding')")
    with pytest.raises(NeedsUserError, match="RPL-3206"):
        Pump(db, "t", slot="other_plugin").prepare()


def test_a_slot_whose_log_was_removed_is_lost_history(private_postgres: PrivatePostgres) -> None:
    server = private_postgres(max_slot_wal_keep_size="1MB", max_wal_size="32MB", min_wal_size="32MB")
    with server.database() as db:
        db.execute(PREPARED)
        pump = Pump(db, "t")
        pump.prepare()
        for _ in range(4):
            db.execute("INSERT INTO t SELECT i, repeat('x', 500) FROM generate_series(1, 20000) i; TRUNCATE t")
            db.execute("SELECT pg_switch_wal()")
            db.execute("CHECKPOINT")
        with pytest.raises(HistoryLostError, match="RPL-3202"):
            pump.read()


def test_a_slot_in_use_is_waited_for_and_then_told(pump: Pump, monkeypatch: pytest.MonkeyPatch) -> None:
    """Never is the other session killed."""
    monkeypatch.setattr("replicator_source_postgres.reader._SLOT_PATIENCE_SECONDS", 1.0)
    with pump.running() as run:
        run.wait_until(lambda: bool(pump.database.execute("SELECT 1 FROM pg_stat_replication")))
        run.wait_until(
            lambda: bool(
                pump.database.execute(
                    f"SELECT 1 FROM pg_replication_slots WHERE slot_name = '{slot_of(pump)}' AND active"
                )
            )
        )
        with pytest.raises(RetryableError, match="RPL-3104"):
            pump.reader(CollectingEmitter())
        pump.database.execute("INSERT INTO t VALUES (1)")
        run.wait_for(pump.source.latest_offset())
        assert [row["id"] for _, row, _, _ in run.changes("t")] == [1]


def test_a_start_that_crashed_before_its_first_offset_starts_anew(pump: Pump) -> None:
    """The slot is there, no offset was saved: the slot is ours and is made again."""
    pump.database.execute("INSERT INTO t VALUES (1)")
    pump.offset = None
    pump.prepare()
    pump.database.execute("INSERT INTO t VALUES (2)")
    assert ids(pump) == [2]


def test_a_slot_given_by_the_user_is_taken_with_its_position(pump: Pump) -> None:
    db = pump.database
    db.execute("SELECT pg_create_logical_replication_slot('given', 'pgoutput')")
    db.execute("INSERT INTO t VALUES (1)")
    given = Pump(db, "t", slot="given", publication=_publication(pump))
    given.prepare()
    assert ids(given) == [1]


def _publication(pump: Pump) -> str:
    return str(pump.database.execute("SELECT pubname FROM pg_publication")[0][0])


def test_a_publication_that_is_gone_is_lost_history(pump: Pump) -> None:
    pump.database.execute(f'DROP PUBLICATION "{_publication(pump)}"')
    with pytest.raises(HistoryLostError, match="RPL-3208"):
        pump.read()


def test_a_table_taken_out_of_the_publication_is_told(pump: Pump) -> None:
    """While running and at the next start; adding it again in silence would lose what changed in between."""
    statement = f'ALTER PUBLICATION "{_publication(pump)}" DROP TABLE t'
    error = error_of(pump, lambda run: pump.database.execute(statement))
    assert isinstance(error, TableHistoryLostError)
    assert (error.code, error.table) == ("RPL-3209", "public.t")
    with pytest.raises(TableHistoryLostError, match="RPL-3209"):
        pump.read()


def test_a_dropped_table_is_told_after_its_last_change(pump: Pump) -> None:
    with pump.running() as run:
        pump.database.execute("INSERT INTO t VALUES (1); DROP TABLE t")
        run.wait_until(lambda: bool(run.ddl))
        assert [e.operation for e in run.ddl] == [DDLOperation.DROP_TABLE]
        assert [row["id"] for _, row, _, _ in run.changes("t")] == [1]


def test_a_publication_that_leaves_changes_out_is_refused(pump: Pump) -> None:
    pump.database.execute("CREATE PUBLICATION poor FOR TABLE t WITH (publish = 'insert')")
    with pytest.raises(NeedsUserError, match="RPL-3304") as caught:
        Pump(pump.database, "t", publication="poor", slot="poor").prepare()
    assert "insert, update, delete, truncate" in caught.value.hint


def test_partitions_must_be_published_under_their_table(pump: Pump) -> None:
    """Only a partitioned table asks for it; a publication of plain tables is taken as it is."""
    db = pump.database
    db.execute("CREATE TABLE p (id int PRIMARY KEY) PARTITION BY LIST (id); CREATE TABLE p1 PARTITION OF p DEFAULT")
    db.execute("CREATE PUBLICATION poor FOR TABLE t, p")
    Pump(db, "t", publication="poor", slot="poor").prepare()
    with pytest.raises(NeedsUserError, match="RPL-3304") as caught:
        Pump(db, "p", publication="poor", slot="poorer").prepare()
    db.execute(caught.value.hint)
    Pump(db, "p", publication="poor", slot="poorest").prepare()


@pytest.mark.parametrize("clause", ["t WHERE (id > 1)", "t (id)"])
def test_a_publication_with_filters_is_refused(clause: str, pump: Pump) -> None:
    pump.database.execute(f"CREATE PUBLICATION poor FOR TABLE {clause} WITH (publish_via_partition_root = true)")
    with pytest.raises(NeedsUserError, match="RPL-3304"):
        Pump(pump.database, "t", publication="poor", slot="poor").prepare()


@pytest.mark.parametrize(
    "make",
    [
        "CREATE TABLE bad (a int)",
        "CREATE TABLE bad (a int PRIMARY KEY); ALTER TABLE bad REPLICA IDENTITY NOTHING",
        "CREATE TABLE bad (a int) PARTITION BY LIST (a); CREATE TABLE bad_1 PARTITION OF bad DEFAULT",
    ],
)
def test_a_table_whose_publication_would_break_the_application_is_refused(
    make: str, postgres_database: PostgresDatabase
) -> None:
    """I7: the application's UPDATE goes on working, and a good table beside it is not added either."""
    db = postgres_database
    db.execute(f"{PREPARED}; {make}; INSERT INTO bad VALUES (1)")
    with pytest.raises(NeedsUserError, match="RPL-3306") as caught:
        Pump(db, "t", "bad").prepare()
    assert "REPLICA IDENTITY FULL" in caught.value.hint
    db.execute("UPDATE bad SET a = 2; DELETE FROM bad")
    assert db.execute("SELECT count(*) FROM pg_publication_tables")[0][0] == 0


# ------------------------------------------------------------ while running


def test_a_terminated_session_is_tried_again_and_loses_nothing(pump: Pump) -> None:
    db = pump.database
    db.execute("INSERT INTO t VALUES (1)")
    terminate = f"SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = '{slot_of(pump)}'"
    assert isinstance(error_of(pump, lambda run: db.execute(terminate)), RetryableError)
    assert ids(pump) == [1]


@pytest.mark.parametrize("how", ["restart", "kill"])
def test_a_server_that_goes_down_is_tried_again_and_loses_nothing(how: str, private_postgres: PrivatePostgres) -> None:
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


def test_a_server_that_falls_silent_is_given_up(pump: Pump, monkeypatch: pytest.MonkeyPatch) -> None:
    """C17: a session that hangs without closing its connection, here stopped by a signal."""
    monkeypatch.setattr("replicator_source_postgres.stream._SILENCE_SECONDS", 1.0)
    query = f"SELECT active_pid FROM pg_replication_slots WHERE slot_name = '{slot_of(pump)}'"
    stopped: list[psutil.Process] = []

    def stop(_: Run) -> None:
        stopped.append(psutil.Process(int(pump.database.execute(query)[0][0])))
        stopped[0].suspend()

    try:
        error = error_of(pump, stop)
    finally:
        for process in stopped:
            process.resume()
    assert isinstance(error, RetryableError)
    assert error.code == "RPL-3210"


def break_with_tls(server: PostgresServer, pump: Pump, how: str) -> None:
    """What ends a session without a word of TLS: a crash of the server, or of one of its processes."""
    if how == "terminated walsender":
        pump.database.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'walsender'")
    elif how == "killed walsender":
        query = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'walsender'"
        for (pid,) in pump.database.execute(query):
            psutil.Process(int(pid)).kill()
    elif how == "killed server":
        server.kill()
        server.start()
    else:
        server.stop_at_once()
        server.start()


TLS_CRASHES = ["terminated walsender", "killed walsender", "killed server", "immediate shutdown"]


@pytest.mark.parametrize("how", TLS_CRASHES)
def test_a_crash_under_tls_is_retried_and_loses_nothing(how: str, private_postgres: PrivatePostgres) -> None:
    server = private_postgres(tls=True)
    assert server.certificate is not None
    with server.database() as db:
        db.execute(PREPARED)
        pump = Pump(db, "t", host="localhost", ssl_mode="verify-full", ssl_root_cert=server.certificate.authority)
        pump.prepare()
        db.execute("INSERT INTO t VALUES (1)")
        error = error_of(pump, lambda _: break_with_tls(server, pump, how))
        assert isinstance(error, RetryableError), error
        for n in range(2, 5):  # the server may still be recovering
            server.wait_until_ready()
            db.execute(f"INSERT INTO t VALUES ({n})")
            assert ids(pump) == ([1, 2] if n == 2 else [n])


@pytest.mark.parametrize("as_text", [True, False], ids=["copy", "adbc"])
@pytest.mark.parametrize("how", ["killed server", "immediate shutdown"])
def test_a_crash_under_tls_during_a_snapshot_is_retried(
    how: str, as_text: bool, private_postgres: PrivatePostgres
) -> None:
    server = private_postgres(tls=True)
    assert server.certificate is not None
    with server.database() as db:
        db.execute(f"{PREPARED}; INSERT INTO t SELECT i, repeat('x', 1000) FROM generate_series(1, 40000) i")
        pump = Pump(db, "t", host="localhost", ssl_mode="verify-full", ssl_root_cert=server.certificate.authority)
        pump.prepare()
        reader = pump.source.create_snapshot_reader(pump.definition, pump.context)
        assert reader is not None
        with reader.open(pump.schemas[pump.table("t")]) as snapshot:
            if as_text:
                snapshot.read = replace(snapshot.read, native=None)  # type: ignore[type-var]
            batches = snapshot.read(snapshot.chunks[0])
            next(batches)
            break_with_tls(server, pump, how)
            with pytest.raises(RetryableError):
                list(batches)
        assert pump.snapshot("t")[1].num_rows == 40000


def test_only_a_failed_negotiation_of_tls_needs_the_user() -> None:
    """A connection that is lost under TLS is lost like any other, and a table may be called `certificate`."""
    lost = [
        "consuming input failed: SSL error: unexpected eof while reading",
        "consuming input failed: SSL SYSCALL error: Connection reset by peer",
        "SSL SYSCALL error: EOF detected",
        "SSL error: decryption failed or bad record mac",
        "SSL error: ssl/tls alert bad record mac",
        'connection failed: connection to server at "127.0.0.1", port 5432 failed: SSL error: unexpected eof while reading',
    ]
    assert [diagnose(OperationalError(words), "reading").code for words in lost] == ["RPL-3107"] * len(lost)
    refused = [
        "SSL error: certificate verify failed",
        'server certificate for "db" does not match host name "localhost"',
        'root certificate file "/nowhere" does not exist',
        "server does not support SSL, but SSL was required",
        "SSL error: tlsv1 alert unknown ca",
        "SSL error: sslv3 alert handshake failure",
        "SSL error: unsupported protocol",
        "SSL error: wrong version number",
        'weak sslmode "require" may not be used with sslrootcert=system (use "verify-full")',
    ]
    assert [diagnose(OperationalError(words), "connecting").code for words in refused] == ["RPL-3106"] * len(refused)


def test_a_table_called_certificate_is_not_taken_for_tls(pump: Pump) -> None:
    with pytest.raises(NeedsUserError, match="RPL-3108"), source_of(pump.database).endpoint().session() as session:
        session.execute("SELECT * FROM certificate")


class BlockedEmitter(CollectingEmitter):
    """A full queue: holds the first batch until told."""

    def __init__(self) -> None:
        super().__init__()
        self.blocked = threading.Event()
        self.go_on = threading.Event()

    def emit_batch(self, batch: ChangeBatch) -> None:
        self.blocked.set()
        self.go_on.wait(60)
        super().emit_batch(batch)


def test_a_reader_held_back_by_the_target_is_not_taken_for_dead(private_postgres: PrivatePostgres) -> None:
    """C18: status goes on while the emitter blocks for several times wal_sender_timeout."""
    server = private_postgres(wal_sender_timeout="1s")
    with server.database() as db:
        db.execute(PREPARED)
        pump = Pump(db, "t")
        pump.prepare()
        emitter = BlockedEmitter()
        with pump.running(emitter) as run:
            # More than socket buffers hold, so that the server waits for us while it sends.
            db.execute("INSERT INTO t SELECT i, repeat('x', 1000) FROM generate_series(1, 60000) i")
            assert emitter.blocked.wait(120)
            time.sleep(4)
            emitter.go_on.set()
            run.wait_for(pump.source.latest_offset())
            assert sum(len(batch) for batch in run.batches("t")) == 60000


def test_the_server_is_told_only_what_is_durable(pump: Pump) -> None:
    """I5: without a committed offset the slot stands still, however much was read."""
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


def test_an_idle_table_on_a_busy_server_does_not_hold_the_log(pump: Pump) -> None:
    """C5: the offset advances although nothing of ours changes."""
    db = pump.database
    db.execute("CREATE TABLE busy (id int)")
    with pump.running() as run:
        for _ in range(3):
            db.execute("INSERT INTO busy SELECT generate_series(1, 1000)")
            run.wait_for(pump.source.latest_offset(), 10)
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
    """C16: it arrives in many batches with ordinals running on, and one commit."""
    db = pump.database
    db.execute("INSERT INTO t SELECT i, md5(i::text) || repeat('y', 200) FROM generate_series(1, 600000) i")
    emitter = MemoryWatch()
    before = psutil.Process(os.getpid()).memory_info().rss
    end = pump.source.latest_offset()
    with pump.running(emitter) as run:
        run.wait_for(end, 60)
    assert emitter.rows == 600_000
    assert emitter.batches > 5
    assert emitter.peak - before < 250 << 20
