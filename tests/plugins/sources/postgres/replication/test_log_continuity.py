"""A server that was restored, or failed over without the end of its log, is noticed; one that only crashed is not."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from replicator_runtime.config import build_pipeline
from replicator_runtime.engine.control.reset import reset
from replicator_sdk.errors import HistoryLostError, TableHistoryLostError
from replicator_sdk.testing.contexts import CollectingEmitter
from replicator_source_postgres import PostgresOffset
from replicator_source_postgres.offset import CommitRecord
from replicator_source_postgres.replication.log_continuity import HELD_BYTES, confirmable_lsn
from replicator_source_postgres.replication.timelines import Timelines
from tests.follows import follows
from tests.plugins.sources.postgres.pipeline import Host, Pipeline
from tests.plugins.sources.postgres.pump import Pump
from tests.services.postgres.fixtures import PrivatePostgres
from tests.services.postgres.server import PostgresDatabase, PostgresServer

TABLE = "CREATE TABLE t (id int PRIMARY KEY)"


def ids(pump: Pump) -> list[int]:
    """The ids of the rows that another read returns; the saved offset is confirmed to the server one save late."""
    before = pump.offset
    found = [row["id"] for _, row, _, _ in pump.read().changes("t")]
    pump.context.committed = before
    return found


def insert(db: PostgresDatabase, first: int, count: int = 1) -> None:
    """Rows in transactions of their own."""
    with db.connect() as connection:
        for n in range(first, first + count):
            connection.execute("INSERT INTO t VALUES (%s)", [n])


def copy_folder(server: PostgresServer, to: Path) -> None:
    """The data folder with its owners, as a backup of files."""
    subprocess.run(["rm", "-rf", str(to)], check=True)
    subprocess.run(["cp", "-a", str(server.data), str(to)], check=True)


def put_back(server: PostgresServer, backup: Path) -> None:
    """The data folder as it was when it was copied."""
    server.stop()
    subprocess.run(["rm", "-rf", str(server.data)], check=True)
    subprocess.run(["cp", "-a", str(backup), str(server.data)], check=True)
    server.start()


@follows("RPL-3212")
@pytest.mark.parametrize("version", [13, 16, 18])
def test_a_file_backup_put_back_and_written_past_the_saved_offset_is_lost_history(
    version: int, private_postgres: PrivatePostgres, tmp_path: Path
) -> None:
    """The timeline and the end of the log look right; the last commit that was read is not there."""
    server = private_postgres(version)
    with server.database() as db:
        db.execute(TABLE)
        insert(db, 0, 5)
        pipeline = Pipeline(db, tmp_path, "t")
        pipeline.run()
        insert(db, 10, 5)
        pipeline.run()
        server.stop()
        copy_folder(server, tmp_path / "backup")
        server.start()
        for n in range(3):
            insert(db, 100 + 10 * n, 10)
            pipeline.run()
        pipeline.assert_equal()
        put_back(server, tmp_path / "backup")
        insert(db, 1000, 60)
        with pytest.raises(HistoryLostError, match="RPL-3212") as caught:
            pipeline.run()
        assert "replicator reset" in caught.value.hint
        reset(build_pipeline(pipeline.document, host=Host()))  # type: ignore[arg-type]
        pipeline.run()
        pipeline.assert_equal()
        insert(db, 2000)
        pipeline.run()
        pipeline.assert_equal()


@pytest.mark.parametrize("version", [13, 18])
def test_a_backup_is_noticed_while_the_tables_are_idle(
    version: int, private_postgres: PrivatePostgres, tmp_path: Path
) -> None:
    """Nothing of ours was committed since the first start: a message written then is what is looked for."""
    server = private_postgres(version)
    with server.database() as db:
        db.execute(f"{TABLE}; CREATE TABLE other (id int)")
        pump = Pump(db, "t")
        pump.prepare()
        server.stop()
        copy_folder(server, tmp_path / "backup")
        server.start()
        with pump.running() as run:
            run.wait_until(lambda: isinstance(o := run.emitter.last_offset, PostgresOffset) and o.commit is not None)
            db.execute("INSERT INTO other SELECT generate_series(1, 1000)")
            run.wait_for(pump.source.latest_offset())
        pump.offset = run.emitter.last_offset
        assert ids(pump) == []
        put_back(server, tmp_path / "backup")
        db.execute("INSERT INTO other SELECT generate_series(1, 20000)")
        with pytest.raises(HistoryLostError, match="RPL-3212"):
            pump.prepare()


@pytest.mark.parametrize("version", [13, 18])
def test_a_backup_made_after_the_last_commit_is_noticed_once_another_was_written_in_its_place(
    version: int, private_postgres: PrivatePostgres, tmp_path: Path
) -> None:
    """Heartbeats advanced the saved offset; a new commit before it would never be read."""
    server = private_postgres(version)
    server.execute("CREATE TABLE other (id int)")  # in another database: nothing of it is sent
    with server.database() as db:
        db.execute(TABLE)
        pump = Pump(db, "t")
        pump.prepare()
        insert(db, 1)
        assert ids(pump) == [1]
        server.stop()
        copy_folder(server, tmp_path / "backup")
        server.start()
        with pump.running() as run:
            server.execute("INSERT INTO other SELECT generate_series(1, 10000)")
            run.wait_for(pump.source.latest_offset())
        pump.offset = run.emitter.last_offset
        put_back(server, tmp_path / "backup")
        server.execute("INSERT INTO other SELECT generate_series(1, 20000)")
        assert ids(pump) == []
        put_back(server, tmp_path / "backup")
        insert(db, 2)
        server.execute("INSERT INTO other SELECT generate_series(1, 30000)")
        with pytest.raises(HistoryLostError, match="RPL-3212"):
            pump.prepare()


def crash(server: PostgresServer) -> None:
    server.kill()
    server.start()


def at_once(server: PostgresServer) -> None:
    server.stop_at_once()
    server.start()


@pytest.mark.parametrize("version", [13, 18])
@pytest.mark.parametrize("end", [PostgresServer.restart, crash, at_once], ids=["restart", "kill", "immediate"])
def test_a_server_that_was_only_down_continues(
    end: Callable[[PostgresServer], None], version: int, private_postgres: PrivatePostgres
) -> None:
    """Right after commits, also unflushed ones, and on an idle server with heartbeats."""
    server = private_postgres(version)
    with server.database() as db:
        db.execute(f"{TABLE}; CREATE TABLE other (id int)")
        pump = Pump(db, "t", heartbeat_interval_seconds=0.05)
        pump.prepare()
        for n in range(4):
            with db.connect() as connection:
                connection.execute("SET synchronous_commit = off")
                connection.execute("INSERT INTO t VALUES (%s)", [n])
            assert ids(pump) == [n]
            with pump.running() as run:
                db.execute("INSERT INTO other VALUES (1)")
                time.sleep(0.3)
                run.wait_for(pump.source.latest_offset())
            pump.offset = run.emitter.last_offset
            end(server)
        insert(db, 10)
        assert ids(pump) == [10]


def standby_of(primary: PostgresServer, private_postgres: PrivatePostgres) -> PostgresServer:
    """A streaming standby, made of a copy of the stopped primary's files, slots included."""
    standby = private_postgres(primary.version)
    standby.stop()
    primary.stop()
    subprocess.run(["rm", "-rf", str(standby.data)], check=True)
    subprocess.run(["cp", "-a", str(primary.data), str(standby.data)], check=True)
    subprocess.run(["cp", "-a", str(standby.data / "PG_VERSION"), str(standby.data / "standby.signal")], check=True)
    primary.start()
    dsn = primary.dsn(dbname="replication").replace("dbname=replication", "")
    standby.restart(primary_conninfo=dsn, hot_standby="on")
    return standby


def caught_up(primary: PostgresServer, standby: PostgresServer) -> None:
    end = primary.execute("SELECT pg_current_wal_lsn()")[0][0]
    deadline = time.monotonic() + 120
    while not standby.execute(f"SELECT pg_last_wal_replay_lsn() >= '{end}'")[0][0]:
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.parametrize("version", [13, 18])
@pytest.mark.parametrize("lost", [False, True], ids=["whole", "lagging"])
def test_a_promoted_standby_continues_unless_it_lacks_what_was_read(
    lost: bool, version: int, private_postgres: PrivatePostgres
) -> None:
    primary = private_postgres(version)
    with primary.database() as db:
        db.execute(TABLE)
        pump = Pump(db, "t")
        pump.prepare()
        insert(db, 0, 3)
        assert ids(pump) == [0, 1, 2]
        standby = standby_of(primary, private_postgres)
        insert(db, 10)
        caught_up(primary, standby)
        assert ids(pump) == [10]
        if lost:
            standby.stop()
            insert(db, 20)
            assert ids(pump) == [20]
            primary.stop_at_once()
            standby.start()
        else:
            primary.stop()
        standby.execute("SELECT pg_promote()")
        now = PostgresDatabase(standby, db.name)
        insert(now, 100, 50)
        other = Pump(now, "t")
        other.context, other.offset = pump.context, pump.offset
        if lost:
            with pytest.raises(HistoryLostError, match="RPL-3211") as caught:
                other.read()
            assert "replicator reset" in caught.value.hint
        else:
            assert ids(other) == list(range(100, 150))
            assert isinstance(other.offset, PostgresOffset)
            assert other.offset.timeline == 2
            for n in range(3):
                standby.restart()
                insert(now, 200 + n)
                assert ids(other) == [200 + n]


@pytest.mark.parametrize("version", [13, 18])
def test_a_table_that_is_ahead_of_a_promoted_standby_is_copied_again_and_skips_nothing(
    version: int, private_postgres: PrivatePostgres, tmp_path: Path
) -> None:
    primary = private_postgres(version)
    with primary.database() as db:
        for table in ("t", "u"):
            db.execute(f"CREATE TABLE {table} (id int PRIMARY KEY)")
        pipeline = Pipeline(db, tmp_path, "t", "u")
        pipeline.run()
        standby = standby_of(primary, private_postgres)
        insert(db, 10)
        caught_up(primary, standby)
        pipeline.run()
        standby.stop()
        insert(db, 20, 5)
        assert pipeline.run_that_dies_at("after", "t")
        primary.stop_at_once()
        standby.start()
        standby.execute("SELECT pg_promote()")
        now = PostgresDatabase(standby, db.name)
        pipeline.properties.update(host=now.host, port=now.port)
        pipeline.database = now
        for number in range(100, 110):
            insert(now, number)
        now.execute("INSERT INTO u VALUES (1)")
        with pytest.raises(TableHistoryLostError, match=r"RPL-3213.*public\.t"):
            pipeline.run()
        for number in range(3):
            pipeline.run()
            pipeline.assert_equal()
            insert(now, 200 + number)


@pytest.mark.parametrize(("version", "written"), [(13, 10), (18, 0)])
def test_a_table_that_is_ahead_of_a_backup_that_was_put_back_is_copied_again_and_skips_nothing(
    version: int, written: int, private_postgres: PrivatePostgres, tmp_path: Path
) -> None:
    """The backup has the saved offset, on the same timeline, and lacks what one table has beyond it."""
    server = private_postgres(version)
    with server.database() as db:
        for table in ("t", "u"):
            db.execute(f"CREATE TABLE {table} (id int PRIMARY KEY)")
        pipeline = Pipeline(db, tmp_path, "t", "u")
        pipeline.run()
        insert(db, 10)
        pipeline.run()
        server.stop()
        copy_folder(server, tmp_path / "backup")
        server.start()
        insert(db, 20, 5)
        assert pipeline.run_that_dies_at("after", "t")
        put_back(server, tmp_path / "backup")
        insert(db, 100, written)
        db.execute("INSERT INTO u VALUES (1)")
        with pytest.raises(TableHistoryLostError, match=r"RPL-3213.*public\.t"):
            pipeline.run()
        for number in range(3):
            pipeline.run()
            pipeline.assert_equal()
            insert(db, 200 + number)


def test_a_table_that_is_ahead_goes_on_where_the_server_was_only_restarted(
    private_postgres: PrivatePostgres, tmp_path: Path
) -> None:
    server = private_postgres(18)
    with server.database() as db:
        db.execute(TABLE)
        pipeline = Pipeline(db, tmp_path, "t")
        pipeline.run()
        for number in (10, 20):
            insert(db, number, 5)
            assert pipeline.run_that_dies_at("after", "t")
            server.restart()
        insert(db, 30)
        pipeline.run()
        pipeline.assert_equal()


def test_an_offset_of_an_older_version_is_read(postgres_database: PostgresDatabase) -> None:
    db = postgres_database
    db.execute(TABLE)
    pump = Pump(db, "t")
    pump.prepare()
    insert(db, 1)
    assert ids(pump) == [1]
    assert isinstance(pump.offset, PostgresOffset)
    pump.offset = PostgresOffset.from_fields({"lsn": pump.offset.lsn.to_bytes(8, "big")})
    pump.context.state.pop("postgres-publication")
    insert(db, 2)
    assert ids(pump) == [2]
    assert pump.offset.timeline == 1
    assert pump.offset.commit is not None


def test_a_slot_confirmed_at_the_saved_offset_continues(postgres_database: PostgresDatabase) -> None:
    """As older versions confirmed it: the last commit is not sent again, and cannot be compared."""
    db = postgres_database
    db.execute(TABLE)
    pump = Pump(db, "t")
    pump.prepare()
    insert(db, 1)
    assert ids(pump) == [1]
    slot = db.execute(f"SELECT slot_name FROM pg_replication_slots WHERE database = '{db.name}'")[0][0]
    db.execute(f"SELECT pg_replication_slot_advance('{slot}', '{PostgresOffset(pump.offset.lsn)}')")  # type: ignore[union-attr]
    insert(db, 2)
    assert ids(pump) == [2]


def test_another_publication_is_no_lost_history(postgres_oldest_and_newest: PostgresDatabase) -> None:
    """What was read through the former one is not sent through the new one."""
    db = postgres_oldest_and_newest
    db.execute(TABLE)
    pump = Pump(db, "t")
    pump.prepare()
    insert(db, 1)
    assert ids(pump) == [1]
    slot = db.execute(f"SELECT slot_name FROM pg_replication_slots WHERE database = '{db.name}'")[0][0]
    db.execute("CREATE PUBLICATION other FOR TABLE t")
    other = Pump(db, "t", publication="other", slot=slot)
    for _ in range(2):
        reader = other.source.create_reader(other.definition, pump.context, CollectingEmitter())
        assert reader.initialize(pump.offset) == pump.offset
        reader.close()


def test_the_slot_advances_while_the_tables_are_idle(private_postgres: PrivatePostgres) -> None:
    """A busy server keeps little log for the last commit, and a large transaction's log not for long."""
    server = private_postgres(max_wal_size="128MB")
    with server.database() as db:
        db.execute(f"{TABLE}; CREATE TABLE other (v text)")
        pump = Pump(db, "t", heartbeat_interval_seconds=0.1)
        pump.prepare()
        held = (
            "SELECT pg_current_wal_lsn() - confirmed_flush_lsn, pg_current_wal_lsn() - restart_lsn"
            f" FROM pg_replication_slots WHERE database = '{db.name}'"
        )
        stop, is_saved = threading.Event(), threading.Event()
        is_saved.set()

        def save() -> None:
            """The runtime confirms what was saved before the last save."""
            while not stop.wait(0.2):
                if is_saved.is_set():
                    pump.context.committed = run.emitter.last_offset

        with pump.running() as run:
            saving = threading.Thread(target=save)
            saving.start()
            try:
                insert(db, 1)
                for _ in range(4):
                    db.execute("INSERT INTO other SELECT repeat('x', 500) FROM generate_series(1, 100000)")
                run.wait_until(lambda: db.execute(held)[0][0] < HELD_BYTES)
                # The server notes one point to let go to at a time: that of the second checkpoint is lost.
                is_saved.clear()
                db.execute("CHECKPOINT")
                db.execute("INSERT INTO t SELECT generate_series(1000, 400000)")
                db.execute("CHECKPOINT")
                run.wait_until(lambda: len(run.changes("t")) > 300_000)
                insert(db, 2)
                run.wait_until(lambda: len(run.changes("t")) == 399_003)
                is_saved.set()

                def is_little() -> bool:
                    db.execute("CHECKPOINT")
                    return bool(db.execute(held)[0][1] < 16 << 20)

                run.wait_until(is_little)
            finally:
                stop.set()
                saving.join()


def test_the_confirmed_position_is_before_the_last_commit() -> None:
    commit = CommitRecord(1000, 5)
    assert confirmable_lsn(PostgresOffset(1100, commit=commit)) == 1000
    assert confirmable_lsn(PostgresOffset(1000 + HELD_BYTES + 1, commit=commit)) == 1000 + HELD_BYTES + 1
    assert confirmable_lsn(PostgresOffset(1100)) == 1100


def test_an_offset_is_in_the_history_of_the_timelines_or_not() -> None:
    history = Timelines(4, ((1, 100), (3, 200)))
    assert [history.at(lsn) for lsn in (50, 100, 101, 200, 201)] == [1, 1, 3, 3, 4]
    assert history.divergence(PostgresOffset(90, timeline=1)) is None
    assert history.divergence(PostgresOffset(100, timeline=1)) is None
    assert history.divergence(PostgresOffset(500, timeline=4)) is None
    assert history.divergence(PostgresOffset(500)) is None
    assert "0/64" in (history.divergence(PostgresOffset(101, timeline=1)) or "")
    assert "timeline 2" in (history.divergence(PostgresOffset(90, timeline=2)) or "")
    assert Timelines(1).divergence(PostgresOffset(90, timeline=2)) is not None
    assert Timelines(3, None).divergence(PostgresOffset(90, timeline=2)) is None
