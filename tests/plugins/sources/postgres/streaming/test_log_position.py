"""A change of structure has one position at every replay, after every offset before it: none is skipped."""

from __future__ import annotations

import random
import threading
import time
from pathlib import Path

import pytest

from replicator_sdk.event import DDLEvent
from replicator_sdk.testing.contexts import TestSourceContext
from replicator_source_postgres import PostgresOffset
from replicator_source_postgres.offset import BEGIN
from replicator_source_postgres.snapshots.snapshot import ExportedSnapshot
from tests.plugins.sources.postgres.pipeline import Pipeline
from tests.plugins.sources.postgres.pump import Pump, Run, source_of
from tests.services.postgres.fixtures import PrivatePostgres
from tests.services.postgres.server import PostgresDatabase

TABLE = "CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t SELECT i, i FROM generate_series(1, 5) i"


@pytest.mark.parametrize("change", ["TRUNCATE t", "ALTER TABLE t ADD w int DEFAULT 7; INSERT INTO t VALUES (9, 9)"])
def test_a_schema_change_right_after_a_snapshot_is_applied(
    change: str, postgres_oldest_and_newest: PostgresDatabase, tmp_path: Path
) -> None:
    """It is the first logged transaction, and reading starts before the snapshot's position."""
    db = postgres_oldest_and_newest
    db.execute(f"{TABLE}; CREATE TABLE other (id int)")
    pipeline = Pipeline(db, tmp_path, "t")
    assert pipeline.run_that_dies_at("finished")
    db.execute(change)
    for n in range(3):
        pipeline.run()
        pipeline.assert_equal()
        db.execute(
            f"INSERT INTO t (id) VALUES ({100 + n}); ALTER TABLE t ADD c{n} int; INSERT INTO t (id) VALUES ({200 + n})"
        )
    pipeline.run()
    pipeline.assert_equal()


@pytest.mark.parametrize("step", ["before", "after"])
@pytest.mark.parametrize(
    "change",
    [
        "TRUNCATE t",
        "ALTER TABLE t ADD w int DEFAULT 7; INSERT INTO t VALUES (9, 9)",
        "BEGIN; INSERT INTO t VALUES (100, 1); TRUNCATE t; INSERT INTO t VALUES (101, 1); COMMIT",
        "BEGIN; INSERT INTO t VALUES (100, 1); ALTER TABLE t ADD w int; TRUNCATE t; INSERT INTO t VALUES (102, 1, 1); COMMIT",
    ],
)
def test_a_schema_change_after_a_heartbeat_survives_a_crash(
    change: str, step: str, postgres_database: PostgresDatabase, tmp_path: Path
) -> None:
    """A heartbeat is applied with the rows, the run dies before it is saved, and the replay has no heartbeat."""
    db = postgres_database
    db.execute(f"{TABLE}; CREATE TABLE other (id int)")
    pipeline = Pipeline(db, tmp_path, "t", heartbeatIntervalSeconds=0.05)
    pipeline.document["batch"] = {"maxIntervalSeconds": 1}
    pipeline.run()
    with pipeline.running_until_it_dies_at(step):
        db.execute("INSERT INTO t VALUES (20, 1)")
        for _ in range(8):
            time.sleep(0.1)
            db.execute("INSERT INTO other VALUES (1)")
    db.execute(change)
    for n in range(3):
        pipeline.run()
        pipeline.assert_equal()
        db.execute(f"INSERT INTO t (id, v) VALUES ({200 + n}, 1)")
        db.execute(f"ALTER TABLE t ADD c{n} int; INSERT INTO t (id) VALUES ({300 + n})")
    pipeline.run()
    pipeline.assert_equal()


class Workload:
    """Random transactions on one table, also some that change only its structure."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._columns: list[str] = []
        self._made = 0

    def statement(self) -> str:
        """One or several statements in one transaction."""
        kinds = [self.rows, self._truncate, self._add, self._drop, self._rename]
        if self._chance.random() < 0.4:
            parts = [self._chance.choice(kinds)() for _ in range(self._chance.randint(2, 4))]
            return f"BEGIN; {'; '.join(parts)}; COMMIT"
        return self._chance.choice(kinds)()

    def rows(self) -> str:
        """A statement that changes rows only."""
        self._made += 1
        return self._chance.choice(
            [
                f"INSERT INTO t (id) SELECT {self._made * 10} + i FROM generate_series(1, {self._chance.randint(1, 5)}) i",
                f"UPDATE t SET v = {self._made} WHERE id % 2 = 0",
                f"DELETE FROM t WHERE id % 3 = {self._made % 3}",
            ]
        )

    def _truncate(self) -> str:
        return "TRUNCATE t"

    def _add(self) -> str:
        self._made += 1
        self._columns.append(f"c{self._made}")
        default = self._chance.choice(["", f" DEFAULT {self._made}"])
        return f"ALTER TABLE t ADD {self._columns[-1]} int{default}"

    def _drop(self) -> str:
        if not self._columns:
            return self.rows()
        return f"ALTER TABLE t DROP {self._columns.pop(self._chance.randrange(len(self._columns)))}"

    def _rename(self) -> str:
        if not self._columns:
            return self.rows()
        self._made += 1
        at = self._chance.randrange(len(self._columns))
        old, self._columns[at] = self._columns[at], f"r{self._made}"
        return f"ALTER TABLE t RENAME {old} TO {self._columns[at]}"


@pytest.mark.parametrize("seed", range(4))
def test_random_schema_changes_are_applied_over_heartbeats_stops_and_crashes(
    seed: int, postgres_database: PostgresDatabase, tmp_path: Path
) -> None:
    chance, db = random.Random(seed), postgres_database
    db.execute(f"{TABLE}; CREATE TABLE other (id int)")
    pipeline, workload = Pipeline(db, tmp_path, "t", heartbeatIntervalSeconds=0.05), Workload(chance)
    pipeline.document["batch"] = {"maxIntervalSeconds": chance.choice([0.05, 0.5])}
    if chance.random() < 0.5:
        pipeline.run_that_dies_at("finished")
    for _ in range(8):
        kind = chance.choice(["stopped", "alive", "dies", "dies"])
        if kind == "alive":
            with pipeline.running():
                for _ in range(chance.randint(1, 5)):
                    db.execute(workload.statement())
                    time.sleep(chance.choice([0, 0.05, 0.3]))
        elif kind == "dies":
            with pipeline.running_until_it_dies_at(chance.choice(["before", "after", "ddl"]), 2):
                for _ in range(chance.randint(1, 4)):
                    db.execute(chance.choice([workload.rows, workload.rows, workload.statement])())
                    db.execute("INSERT INTO other VALUES (1)")
                    time.sleep(chance.choice([0, 0.1]))
        for _ in range(chance.randint(0, 2)):
            db.execute(workload.statement())
        # A schema change without a row after it is emitted at a heartbeat, for which a bounded run need not wait.
        db.execute("INSERT INTO t (id) SELECT coalesce(max(id), 0) + 1 FROM t")
        pipeline.run()
        pipeline.assert_equal()


def marks(run: Run) -> list[PostgresOffset]:
    """All offsets a run emitted."""
    found: list[PostgresOffset] = []
    for window in run.emitter.closed_windows:
        commits = window.commits
        assert commits is not None
        for i in range(len(commits)):
            offset = commits.offset_at(i)
            assert isinstance(offset, PostgresOffset)
            found.append(offset)
    return found


@pytest.mark.parametrize("version", [13, 18])
def test_a_transaction_begins_after_everything_before_it(version: int, private_postgres: PrivatePostgres) -> None:
    """On real servers, under traffic: heartbeats, slots' consistent points and commits before a transaction are at or
    before the start of its commit record, also with subtransactions, other databases' log, and prepared transactions.
    """
    with private_postgres(version, max_prepared_transactions=10).database() as db:
        _check_begins(db)


def _check_begins(db: PostgresDatabase) -> None:
    db.execute(f"{TABLE}; CREATE TABLE other (id int)")
    pump = Pump(db, "t", heartbeat_interval_seconds=0.02)
    pump.prepare()
    stop = threading.Event()

    def traffic(database: str, statement: str) -> None:
        with db.server.connect(database) as connection:
            while not stop.is_set():
                connection.execute(statement.encode())

    threads = [
        threading.Thread(target=traffic, args=("postgres", "SELECT pg_logical_emit_message(true, 'x', 'y')")),
        threading.Thread(target=traffic, args=(db.name, "INSERT INTO other VALUES (1)")),
    ]
    snapshots: list[tuple[PostgresOffset, int]] = []
    with pump.running() as run:
        for thread in threads:
            thread.start()
        try:
            for n in range(10, 30):
                db.execute(
                    f"BEGIN; INSERT INTO t VALUES ({n}, 1); SAVEPOINT a; TRUNCATE t; SAVEPOINT b;"
                    f" INSERT INTO t VALUES ({n}, 2); ROLLBACK TO b; RELEASE a; INSERT INTO t VALUES ({n}, 3); COMMIT"
                )
                if n % 5 == 0:
                    db.execute(f"BEGIN; TRUNCATE t; PREPARE TRANSACTION 'p{n}'")
                    db.execute(f"COMMIT PREPARED 'p{n}'")
                if n % 4 == 0:
                    exported = ExportedSnapshot(source_of(db).endpoint(), TestSourceContext())
                    run.wait_for(exported.position)
                    snapshots.append((exported.position, len(run.ddl)))
                    exported.close()
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        run.wait_for(pump.source.latest_offset())
    offsets = marks(run)
    assert offsets == sorted(offsets)
    begins = [offset for offset in offsets if offset.step == BEGIN]
    assert len(begins) == 24
    for event in run.ddl:
        assert isinstance(event, DDLEvent)
        assert isinstance(event.offset, PostgresOffset)
        assert event.offset.step == BEGIN
    by_lsn = {offset.commit: offset for offset in offsets if offset.step == 0}
    for begin in begins:
        assert begin < by_lsn[begin.commit], "a transaction begins before its own commit"
    for position, count in snapshots:
        for event in run.ddl[count:]:
            assert not event.offset < position, "a transaction after a snapshot begins after its position"


def test_a_replay_without_the_heartbeats_gives_the_same_positions(postgres_oldest_and_newest: PostgresDatabase) -> None:
    """Also of structure that no row announces, which is found at a heartbeat."""
    db = postgres_oldest_and_newest
    db.execute("CREATE TABLE t (id int PRIMARY KEY); CREATE TABLE u (id int PRIMARY KEY)")
    db.execute("CREATE TABLE quiet (id int PRIMARY KEY); CREATE TABLE calm (id int)")
    db.execute("ALTER TABLE calm REPLICA IDENTITY FULL")
    pump = Pump(db, "t", "u", "quiet", "calm")
    start = pump.prepare()
    with pump.running() as run:
        for n in range(4):
            db.execute(f"INSERT INTO t VALUES ({n}); TRUNCATE t")
            db.execute(f"ALTER TABLE quiet ADD c{n} int; ALTER TABLE calm ADD c{n} int")
            run.wait_until(lambda n=n: sum(e.table.table not in "tu" for e in run.ddl) == 2 * n + 2)  # type: ignore[misc]
            db.execute(
                f"INSERT INTO u (id) VALUES ({n}); ALTER TABLE u ADD c{n} int; INSERT INTO u (id) VALUES (1{n}); TRUNCATE t"
            )
            time.sleep(0.5)
        run.wait_for(pump.source.latest_offset())
    schemas = dict(pump.schemas)
    placed = [(e.offset, e.ordinal, e.table.table) for e in run.ddl]
    ends = {offset: rank for rank, offset in enumerate(marks(run))}
    for offset in [start, *ends]:
        base = [entry for entry in placed if not entry[0] < offset]
        pump.schemas, pump.offset = dict(schemas), offset
        for event in run.ddl:
            if event.offset < offset and event.schema is not None:
                pump.schemas[event.table] = event.schema
        with pump.running() as again:
            again.wait_for(max(ends))
        assert [(e.offset, e.ordinal, e.table.table) for e in again.ddl if not max(ends) < e.offset] == base, offset


def test_an_open_transaction_is_not_passed_by_a_change_emitted_after_it(
    postgres_database: PostgresDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A replay reads a transaction larger than a window before a change that was emitted after its end."""
    monkeypatch.setattr("replicator_source_postgres.streaming.reader._WINDOW_MESSAGES", 100)
    db = postgres_database
    db.execute("CREATE TABLE t (id int PRIMARY KEY); CREATE TABLE quiet (id int PRIMARY KEY)")
    pump = Pump(db, "t", "quiet")
    start = pump.prepare()
    with pump.running() as run:
        db.execute("INSERT INTO t SELECT generate_series(1, 1000)")
        db.execute("ALTER TABLE quiet ADD c int")
        run.wait_until(lambda: bool(run.ddl))
        run.wait_for(pump.source.latest_offset())
    pump.offset = start
    with pump.running() as again:
        again.wait_for(pump.source.latest_offset())
        again.wait_until(lambda: bool(again.ddl))  # it may be just after the end of the log
    assert [(e.offset, e.ordinal) for e in again.ddl] == [(e.offset, e.ordinal) for e in run.ddl]
    assert len(again.changes("t")) == 1000


def test_emitted_changes_are_stored_until_no_run_starts_before_them(postgres_database: PostgresDatabase) -> None:
    """More of them than were kept once, while the saved offset does not move."""
    db = postgres_database
    db.execute("CREATE TABLE t (id int PRIMARY KEY)")
    pump = Pump(db, "t", heartbeat_interval_seconds=0.01)
    start, schemas = pump.prepare(), dict(pump.schemas)
    with pump.running() as run:
        for n in range(210):
            db.execute(f"ALTER TABLE t ADD c{n} int")
            run.wait_until(lambda n=n: len(run.ddl) > n)  # type: ignore[misc]
    pump.offset, pump.schemas = start, schemas
    with pump.running() as again:
        again.wait_until(lambda: len(again.ddl) >= 210)
    assert [(e.offset, e.ordinal, e.schema) for e in again.ddl] == [(e.offset, e.ordinal, e.schema) for e in run.ddl]
    last = run.emitter.last_offset
    assert isinstance(last, PostgresOffset)
    pump.context.committed = pump.offset = last
    stored = len(pump.context.state["postgres-told"])
    pump.schemas = {pump.table("t"): run.ddl[-1].schema}  # type: ignore[dict-item]
    with pump.running() as more:
        db.execute("ALTER TABLE t DROP c0")
        more.wait_until(lambda: bool(more.ddl))
    assert len(pump.context.state["postgres-told"]) < stored / 50


def test_logical_messages_of_applications_delay_nothing(postgres_oldest_and_newest: PostgresDatabase) -> None:
    """Also outside transactions: they are no changes, and the offset passes them."""
    db = postgres_oldest_and_newest
    db.execute(TABLE)
    pump = Pump(db, "t")
    pump.prepare()
    with pump.running() as run:
        for n in range(10, 13):
            db.execute("SELECT pg_logical_emit_message(false, 'outbox', repeat('x', 1000))")
            db.execute(
                f"BEGIN; INSERT INTO t VALUES ({n}, 1); SELECT pg_logical_emit_message(true, 'outbox', 'y'); COMMIT"
            )
            db.execute("SELECT pg_logical_emit_message(false, 'outbox', repeat('x', 1000))")
            run.wait_for(pump.source.latest_offset())
    assert [row["id"] for _, row, _, _ in run.changes("t")] == [10, 11, 12]
