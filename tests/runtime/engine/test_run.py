"""Whole runs of the engine: a real SQLite source, a target in this process, faults at every step."""

from __future__ import annotations

import contextlib
import itertools
import json
import sqlite3
import threading
import time
from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from replicator_runtime.config import build_pipeline
from replicator_runtime.engine.run_state import status
from replicator_runtime.engine.run_state.progress import Progress
from replicator_runtime.engine.tables.table_state import TableState
from replicator_runtime.engine.worker import RunResult, run
from replicator_sdk import failpoint
from replicator_sdk.errors import (
    DataError,
    FencedError,
    HistoryLostError,
    NeedsUserError,
    ReplicatorError,
    RetryableError,
    SchemaDriftError,
    SnapshotNeededError,
)
from replicator_source_sqlite.capture.changelog import last_change
from replicator_source_sqlite.capture.ddl_detection import synchronise
from replicator_source_sqlite.catalogue import SqliteRegistry
from replicator_source_sqlite.connection import connect
from replicator_source_sqlite.plugin import SqliteSource
from replicator_source_sqlite.snapshots.snapshot import SqliteSnapshotReader
from replicator_source_sqlite.streaming.reader import SqliteReader
from tests import waits
from tests.runtime.engine import in_memory_target
from tests.runtime.engine.in_memory_target import InMemoryTarget, TargetStorage

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from replicator_sdk import TableId, TableSchema, TableSnapshot


class Host:
    """The two plugins of these tests."""

    def source(self, name: str) -> type[SqliteSource]:
        return SqliteSource

    def target(self, name: str) -> type[InMemoryTarget]:
        return InMemoryTarget


class Shop:
    """A SQLite database, its pipeline, and the target's rows."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "shop.db"
        self.document: dict[str, Any] = {
            "name": "shop",
            "offsetBasePath": str(folder / "state"),
            "stages": [
                {
                    "name": "db",
                    "plugin": {"name": "sqlite", "type": "cdcSource", "properties": {"path": str(self.path)}},
                },
                {"name": "lake", "plugin": {"name": "kept", "type": "cdcTarget"}},
            ],
            "connections": [{"from": "db", "to": "lake"}],
            "retries": {"maxDurationSeconds": 20, "delaySeconds": 0.1},
            "batch": {"maxIntervalSeconds": 0.05},
            "edits": "apply",
        }
        self.sql("PRAGMA journal_mode=WAL")
        self.sql("CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT)", "CREATE TABLE notes (text TEXT)")

    def sql(self, *statements: str) -> None:
        with sqlite3.connect(self.path, timeout=30) as database:
            for statement in statements:
                database.execute(statement)
        database.close()

    def run(self, **more: Any) -> RunResult:
        pipeline = build_pipeline(self.document, host=Host())  # type: ignore[arg-type]
        return run(pipeline, **{"until_current": True, **more})

    def source_rows(self, table: str) -> list[dict[str, Any]]:
        database = sqlite3.connect(self.path)
        database.row_factory = sqlite3.Row
        rows = [dict(r) for r in database.execute(f'SELECT * FROM "{table}"')]
        database.close()
        return rows

    def status(self) -> dict[str, Any]:
        """The status that was written last; waits for the first one, and for one that is just replaced."""
        found: list[Path] = []

        def look() -> list[Path]:
            found[:] = self.path.parent.glob("state/default/shop/*/state.json")
            return found

        waits.until(look, "there is a status")
        content: dict[str, Any] = json.loads(found[0].read_text())
        return content

    def assert_equal(self, *tables: str) -> None:
        for table in tables or ("customers", "notes"):
            wanted = Counter(tuple(sorted(r.items())) for r in self.source_rows(table))
            found = Counter(tuple(sorted(r.items())) for r in in_memory_target.STORAGE.rows(table))
            assert found == wanted, table


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    """A new one; its status is written more often than others are, since tests wait for it."""
    monkeypatch.setattr(status, "_EVERY_SECONDS", 0.3)
    in_memory_target.STORAGE = TargetStorage()
    yield Shop(tmp_path)
    failpoint.arm("")


def fill(shop: Shop, start: int = 0) -> None:
    for i in range(start, start + 20):
        shop.sql(f"INSERT INTO customers VALUES ({i}, 'n{i}')", f"INSERT INTO notes VALUES ('t{i % 3}')")


def change(shop: Shop) -> None:
    shop.sql(
        "UPDATE customers SET name = 'changed' WHERE id < 5",
        "DELETE FROM customers WHERE id = 7",
        "UPDATE customers SET id = 1007 WHERE id = 8",
        "INSERT INTO customers VALUES (7, 'again')",
        "UPDATE notes SET text = 'u' WHERE text = 't1'",
        "DELETE FROM notes WHERE rowid IN (SELECT rowid FROM notes WHERE text = 't2' LIMIT 2)",
        "INSERT INTO notes VALUES (NULL), (NULL)",
    )


def test_a_snapshot_then_the_log_make_the_target_equal(shop: Shop) -> None:
    fill(shop)
    assert shop.run().reached_goal
    shop.assert_equal()
    change(shop)
    result = shop.run()
    assert result.sequence_number > 0
    shop.assert_equal()


def test_a_run_without_changes_writes_nothing_at_the_target(shop: Shop) -> None:
    fill(shop)
    shop.run()
    change(shop)
    shop.run()
    commits = [t.commits for t in in_memory_target.STORAGE.tables.values()]
    shop.run()
    assert [t.commits for t in in_memory_target.STORAGE.tables.values()] == commits


STEPS = ["before", "after", "load", "loaded", "finished"]


@pytest.mark.parametrize(("step", "table"), list(itertools.product(STEPS, ["customers", "notes"])))
def test_a_failure_at_any_step_is_replayed_and_changes_nothing_twice(shop: Shop, step: str, table: str) -> None:
    fill(shop)
    failures = _fail_once(step, table)
    shop.run()
    change(shop)
    shop.run()
    assert failures, "the fault was reached"
    shop.assert_equal()


def test_a_snapshot_whose_end_only_the_target_knows_is_not_taken_again(shop: Shop) -> None:
    """The run is killed after the target's last commit, before it has stored that; then a batch replaces that commit."""
    shop.document["tables"] = [{"database": "main", "table": "customers"}]
    fill(shop)

    def dies(at: str, where: TableId) -> None:
        if at == "finished":
            raise FencedError("the process dies", code="RPL-8001", table=str(where))

    in_memory_target.STORAGE.fault = dies
    with pytest.raises(FencedError):
        shop.run()
    steps: list[str] = []
    in_memory_target.STORAGE.fault = lambda at, where: steps.append(at)
    for _ in range(2):
        change(shop)
        shop.run()
        shop.assert_equal("customers")
        shop.sql("DELETE FROM customers WHERE id = 1007")
    assert "after" in steps
    assert "load" not in steps


def _fail_once(step: str, table: str) -> list[str]:
    failures: list[str] = []

    def fault(at: str, where: TableId) -> None:
        if (at, where.table) == (step, table) and not failures:
            failures.append(at)
            raise OSError("the target went away")

    in_memory_target.STORAGE.fault = fault
    return failures


def test_a_zombies_batch_is_not_replayed_over_a_newer_runs(shop: Shop) -> None:
    """A table written by a higher epoch stops this run, and the table keeps what it has."""
    fill(shop)
    shop.run()
    before = in_memory_target.STORAGE.rows("customers")
    [kept] = [t for t in in_memory_target.STORAGE.tables.values() if t.schema.table.table == "customers"]
    assert kept.progress is not None
    import dataclasses

    kept.progress = dataclasses.replace(kept.progress, epoch=99)
    change(shop)
    with pytest.raises(ReplicatorError) as caught:
        shop.run()
    assert caught.value.exit_code == 8
    assert in_memory_target.STORAGE.rows("customers") == before


def test_what_a_newer_owner_does_at_the_source_is_not_taken_for_the_fault(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A deletion claims the state, then removes the source's log: the older run says that it was superseded."""
    fill(shop)
    shop.run()

    def deleted(reader: SqliteReader) -> None:
        for claim in shop.path.parent.glob("state/default/shop/**/epoch.*"):
            claim.unlink()
        raise HistoryLostError("the changelog ends before the saved offset", code="RPL-3507")

    monkeypatch.setattr(SqliteReader, "run", deleted)
    with pytest.raises(FencedError, match="RPL-7131"):
        shop.run(until_current=False)


def test_one_failing_table_stops_and_the_others_continue(shop: Shop) -> None:
    fill(shop)
    shop.run()
    change(shop)

    def fault(at: str, where: TableId) -> None:
        if at == "before" and where.table == "notes":
            raise DataError("a value does not fit", code="RPL-5001", hint="widen it")

    in_memory_target.STORAGE.fault = fault
    with pytest.raises(DataError, match=r"RPL-5001.*main\.notes"):
        shop.run()
    shop.assert_equal("customers")
    states = {t["table"]: t["state"] for t in shop.status()["tables"]}
    assert states == {"customers": "REPLICATING", "notes": "FAILING"}
    shop.sql("INSERT INTO customers VALUES (5000, 'later')")

    in_memory_target.STORAGE.fault = lambda at, where: None
    shop.run()
    shop.assert_equal()


def test_a_table_that_fails_for_a_while_holds_no_other_back_and_catches_up(shop: Shop) -> None:
    fill(shop)
    shop.run()
    change(shop)
    failures: list[int] = []
    applied = threading.Event()

    def fault(at: str, where: TableId) -> None:
        if (at, where.table) == ("before", "notes") and (len(failures) < 2 or not applied.is_set()):
            failures.append(1)
            raise OSError("locked")
        if (at, where.table) == ("after", "customers"):
            applied.set()

    in_memory_target.STORAGE.fault = fault
    shop.run()
    assert applied.is_set(), "customers went on while notes failed"
    shop.assert_equal()


def test_a_table_the_log_cannot_complete_is_copied_again(shop: Shop) -> None:
    fill(shop)
    shop.run()
    change(shop)
    asked: list[str] = []

    def fault(at: str, where: TableId) -> None:
        if (at, where.table) == ("before", "customers") and not asked:
            asked.append(at)
            raise SnapshotNeededError("old values cannot be found", code="RPL-5403")
        if at == "load":
            asked.append(where.table)

    in_memory_target.STORAGE.fault = fault
    shop.run()
    assert asked == ["before", "customers"], "only that table"
    shop.assert_equal()


def test_a_table_that_the_source_finds_changed_without_its_log_is_copied_again(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reader raises it, whenever it finds that out; the other tables are not copied and lose nothing."""
    fill(shop)
    shop.run()
    change(shop)
    asked: list[str] = []
    read = SqliteReader.run

    def run_reader(reader: SqliteReader) -> None:
        if not asked:
            asked.append("raised")
            raise SnapshotNeededError("rows were rewritten", code="RPL-3606", table="main.customers")
        read(reader)

    def fault(at: str, where: TableId) -> None:
        if at == "load":
            asked.append(where.table)

    monkeypatch.setattr(SqliteReader, "run", run_reader)
    in_memory_target.STORAGE.fault = fault
    shop.run()
    assert asked == ["raised", "customers"]
    for _ in range(2):
        shop.assert_equal()
        shop.sql("INSERT INTO notes VALUES ('later')")
        shop.run()
    shop.assert_equal()


@pytest.mark.parametrize("error", [None, OSError("locked")])
def test_only_tables_that_join_are_asked_for_unless_something_failed(shop: Shop, error: Exception | None) -> None:
    """A target with many tables takes a while to report how far each of them is."""
    fill(shop)
    shop.run()
    shop.sql("ALTER TABLE customers RENAME TO clients", "INSERT INTO notes VALUES ('meanwhile')")
    asked: list[str] = []

    def fault(at: str, where: TableId) -> None:
        if at == "progress":
            asked.append(where.table)
        if (at, where.table) == ("before", "notes") and error is not None and "failed" not in asked:
            asked.append("failed")
            raise error

    in_memory_target.STORAGE.fault = fault
    shop.run()
    shop.assert_equal("clients", "notes")
    assert asked.count("clients") >= 1
    assert asked.count("notes") == (1 if error is None else 2)


@pytest.mark.parametrize("error", [OSError("locked"), DataError("a value does not fit", code="RPL-5001")])
def test_a_change_of_structure_waits_for_the_rows_before_it_that_fail(shop: Shop, error: Exception) -> None:
    """Otherwise the table's position would be after rows that it never got."""
    fill(shop)
    shop.run()
    shop.sql("INSERT INTO customers VALUES (7000, 'before')")
    shop.sql("ALTER TABLE customers ADD COLUMN city TEXT")
    with connect(shop.path) as database:
        synchronise(database, last_change(database))  # as a reader at work does; a later one logs the rows once more
    shop.sql("INSERT INTO customers VALUES (7001, 'later', 'Rome')", "INSERT INTO notes VALUES ('meanwhile')")
    failures: list[str] = []

    def fault(at: str, where: TableId) -> None:
        if (at, where.table) == ("before", "customers") and not failures:
            failures.append(at)
            raise error

    in_memory_target.STORAGE.fault = fault
    with contextlib.suppress(DataError):
        shop.run()
    assert failures
    shop.run()
    shop.assert_equal()


def test_the_offset_is_held_while_a_table_has_stopped(shop: Shop) -> None:
    fill(shop)
    offset = shop.run().offset
    change(shop)

    def fault(at: str, where: TableId) -> None:
        if at == "before" and where.table == "notes":
            raise DataError("a value does not fit", code="RPL-5001")

    in_memory_target.STORAGE.fault = fault
    with pytest.raises(DataError):
        shop.run()
    assert shop.status()["offset"] == offset


def test_with_stop_a_bad_table_stops_the_run(shop: Shop) -> None:
    shop.document["onTableError"] = "stop"
    fill(shop)
    shop.run()
    change(shop)

    def fault(at: str, where: TableId) -> None:
        if at == "before" and where.table == "notes":
            raise DataError("a value does not fit", code="RPL-5001")

    in_memory_target.STORAGE.fault = fault
    with pytest.raises(DataError):
        shop.run(until_current=False)


def test_a_fault_that_stays_ends_the_run_after_the_budget(shop: Shop) -> None:
    fill(shop)
    shop.document["retries"] = {"maxDurationSeconds": 0.5, "delaySeconds": 0.1}

    def fault(at: str, where: TableId) -> None:
        raise RetryableError("the target is away", code="RPL-4999", hint="wait")

    in_memory_target.STORAGE.fault = fault
    with pytest.raises(RetryableError) as caught:
        shop.run()
    assert caught.value.exit_code == 4
    assert shop.status()["sourceState"] == "FAILING"


def test_a_damaged_newest_offset_falls_back_to_the_one_before(shop: Shop) -> None:
    """The source got the offset before it, so it still has the log from there on."""
    fill(shop)
    shop.run()
    change(shop)
    shop.run()
    shop.sql("INSERT INTO customers VALUES (3000, 'x')")
    shop.run()
    newest = max(shop.path.parent.glob("state/default/shop/*/offset.*"))
    newest.write_bytes(newest.read_bytes()[:-1])
    shop.sql("INSERT INTO customers VALUES (3001, 'y')")
    shop.run()
    shop.assert_equal()


def test_an_offset_is_never_taken_for_absent_because_it_is_damaged(shop: Shop) -> None:
    fill(shop)
    shop.run()
    change(shop)
    shop.run()
    for file in shop.path.parent.glob("state/default/shop/*/offset.*"):
        file.write_bytes(b"damaged")
    before = in_memory_target.STORAGE.rows("customers")
    with pytest.raises(ReplicatorError, match="RPL-71"):
        shop.run()
    assert in_memory_target.STORAGE.rows("customers") == before


def test_a_missing_table_is_named_with_the_nearest_one(shop: Shop) -> None:
    shop.document["tables"] = [{"database": "main", "table": "custmers"}]
    with pytest.raises(NeedsUserError, match=r"custmers.*did you mean main\.customers"):
        shop.run()


def test_a_table_that_goes_between_being_listed_and_described_is_left_out(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As ghosts of online schema changes do; one that stays and cannot be described is the user's business."""
    fill(shop)
    shop.sql("CREATE TABLE ghost (id INTEGER PRIMARY KEY)")
    describe = SqliteRegistry.describe_table

    def with_a_ghost(self: SqliteRegistry, table: TableId) -> TableSchema:
        if table.table == "ghost":
            if goes:
                shop.sql("DROP TABLE IF EXISTS ghost")
            raise NeedsUserError("it is not there", code="RPL-1", table=str(table), hint="look for it")
        return describe(self, table)

    goes = False
    monkeypatch.setattr(SqliteRegistry, "describe_table", with_a_ghost)
    with pytest.raises(NeedsUserError, match="it is not there"):
        shop.run()
    goes = True
    shop.run()
    shop.assert_equal()


def test_a_table_that_goes_before_it_is_copied_is_left_out_of_the_next_attempt(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(shop)
    shop.sql("CREATE TABLE ghost (id INTEGER PRIMARY KEY)")
    opened = []
    reader_open = SqliteSnapshotReader.open

    def open_late(self: SqliteSnapshotReader, schema: TableSchema, *chunks: Any) -> TableSnapshot:
        opened.append(schema.table.table)
        shop.sql("DROP TABLE IF EXISTS ghost")
        return reader_open(self, schema, *chunks)

    monkeypatch.setattr(SqliteSnapshotReader, "open", open_late)
    shop.run()
    shop.assert_equal()
    assert opened.count("ghost") == 1


def test_another_database_under_the_same_state_is_refused(shop: Shop) -> None:
    fill(shop)
    shop.run()
    shop.path.unlink()
    for extra in shop.path.parent.glob("shop.db-*"):
        extra.unlink()
    shop.sql("CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT)", "CREATE TABLE notes (text TEXT)")
    with pytest.raises(HistoryLostError, match="foreign source"):
        shop.run()


def test_schema_changes_reach_the_target_in_order(shop: Shop) -> None:
    fill(shop)
    shop.run()
    shop.sql(
        "UPDATE customers SET name = 'x' WHERE id = 1",
        "ALTER TABLE customers ADD COLUMN city TEXT DEFAULT 'Ulm'",
        "UPDATE customers SET city = 'Bonn' WHERE id = 2",
        "INSERT INTO customers VALUES (2000, 'new', 'Kiel')",
    )
    shop.run()
    shop.assert_equal()


def test_a_renamed_table_joins_under_its_new_name_where_the_target_renames_none(shop: Shop) -> None:
    """The old name keeps at the target what it held; the new one is equal to the source."""
    in_memory_target.STORAGE.renames = False
    fill(shop)
    shop.run()
    shop.sql(
        "UPDATE customers SET name = 'x' WHERE id = 1",
        "ALTER TABLE customers RENAME TO clients",
        "UPDATE clients SET name = 'y' WHERE id = 2",
    )
    shop.run()
    shop.assert_equal("clients", "notes")
    assert len(in_memory_target.STORAGE.rows("customers")) == 20
    shop.sql("DELETE FROM clients WHERE id = 3")
    shop.run()
    shop.assert_equal("clients", "notes")
    assert len(in_memory_target.STORAGE.rows("customers")) == 20


def test_a_dropped_table_stays_at_the_target_and_can_come_back(shop: Shop) -> None:
    fill(shop)
    shop.run()
    shop.sql("DROP TABLE notes")
    shop.run()
    assert len(in_memory_target.STORAGE.rows("notes")) == 20
    shop.sql("CREATE TABLE notes (text TEXT, more TEXT)", "INSERT INTO notes VALUES ('a', 'b')")
    shop.run()
    shop.assert_equal()


def test_a_blacklisted_alter_stops_the_table_with_an_error(shop: Shop) -> None:
    fill(shop)
    shop.document["ddlBlacklist"] = ["ALTER_TABLE"]
    shop.run()
    shop.sql("ALTER TABLE customers ADD COLUMN city TEXT", "INSERT INTO customers VALUES (2000, 'new', 'Kiel')")
    with pytest.raises(SchemaDriftError, match="ddlBlacklist"):
        shop.run()
    shop.document["ddlBlacklist"] = []
    shop.run()
    shop.assert_equal()


def test_blacklisted_changes_are_left_out(shop: Shop) -> None:
    fill(shop)
    shop.document["dmlBlacklist"] = ["DELETE"]
    shop.run()
    shop.sql("DELETE FROM customers WHERE id = 3", "UPDATE customers SET name = 'y' WHERE id = 4")
    shop.run()
    names = {r["id"]: r["name"] for r in in_memory_target.STORAGE.rows("customers")}
    assert (names[3], names[4]) == ("n3", "y")
    shop.sql("INSERT INTO customers VALUES (3, 'again')")
    shop.run()
    assert [r["name"] for r in in_memory_target.STORAGE.rows("customers") if r["id"] == 3] == ["again"], "not doubled"


def test_an_endless_run_takes_in_a_new_table_and_drains_when_stopped(shop: Shop) -> None:
    """A table that appears later joins while the others go on; a stop leaves everything applied and saved."""
    fill(shop)
    shop.document["newTablesIntervalSeconds"] = 0.2
    stop, progress = threading.Event(), Progress()
    results: list[RunResult] = []
    thread = threading.Thread(
        target=lambda: results.append(shop.run(until_current=False, stop=stop, progress=progress))
    )
    thread.start()
    try:
        _wait(lambda: [t.state for t in progress.snapshot().tables] == [TableState.REPLICATING] * 2)
        shop.sql("CREATE TABLE late (id INTEGER PRIMARY KEY, v TEXT)", "INSERT INTO late VALUES (1, 'a')")
        fill(shop, 100)
        _wait(lambda: len(progress.snapshot().tables) == 3)
        shop.sql("INSERT INTO late VALUES (2, 'b')", "UPDATE customers SET name = 'z' WHERE id = 101")
        _wait(
            lambda: any(
                t.schema.table.table == "late" and t.rows.total() == 2
                for t in list(in_memory_target.STORAGE.tables.values())
            )
        )
    finally:
        time.sleep(0.5)
        stop.set()
        thread.join(120)
    assert results
    shop.assert_equal("customers", "notes", "late")


def _wait(condition: Any, seconds: float = 120) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "it did not happen in time"
        time.sleep(0.05)


def test_a_second_run_at_once_is_refused(shop: Shop) -> None:
    fill(shop)
    stop, progress = threading.Event(), Progress()
    thread = threading.Thread(target=lambda: shop.run(until_current=False, stop=stop, progress=progress))
    thread.start()
    try:
        _wait(lambda: progress.snapshot().phase == "streaming")
        with pytest.raises(ReplicatorError, match="RPL-"):
            shop.run()
    finally:
        stop.set()
        thread.join(120)


@pytest.mark.parametrize(
    "point",
    ["engine.offset.after_save", "engine.batch.applied", "engine.table.after_apply", "engine.snapshot.chunks_loaded"],
)
def test_the_replay_recovers_from_a_fault_between_two_durable_steps(shop: Shop, point: str) -> None:
    fill(shop)
    failpoint.arm(f"{point}=raise@1")
    shop.run()
    change(shop)
    failpoint.arm(f"{point}=raise@1")
    shop.run()
    shop.assert_equal()


def test_a_reader_that_brings_its_own_rows_starts_again_where_it_first_began(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It begins at the end of the log; what is committed before an early error must not be passed over."""
    monkeypatch.setattr(SqliteSource, "create_snapshot_reader", lambda *_: None)
    started: list[Any] = []
    run_reader = SqliteReader.run

    def fails_first(self: SqliteReader) -> None:
        started.append(self._position)
        if len(started) <= 3:
            fill(shop, start=100 * len(started))
        if len(started) < 3:
            raise OSError("the connection is lost")
        run_reader(self)

    monkeypatch.setattr(SqliteReader, "run", fails_first)
    stop, progress = threading.Event(), Progress()
    thread = threading.Thread(target=lambda: shop.run(until_current=False, stop=stop, progress=progress))
    thread.start()
    try:
        _wait(lambda: len(started) == 3 and sum(t.rows for t in progress.snapshot().tables) >= 120)
    finally:
        stop.set()
        thread.join(120)
    assert len(set(started)) == 1, "every attempt began at the same place"
    shop.assert_equal()
    for start in (400, 500, 600):
        fill(shop, start)
        shop.run()
        shop.assert_equal()


def test_a_snapshot_of_a_table_that_was_altered_meanwhile_begins_again_with_the_new_column(shop: Shop) -> None:
    """The change of structure is before the new copy and not applied to it again; later ones come by the log."""
    shop.document["tables"] = [{"database": "main", "table": "customers"}]
    fill(shop)

    def dies(at: str, where: TableId) -> None:
        if at == "loaded":
            raise FencedError("the process dies", code="RPL-8001", table=str(where))

    in_memory_target.STORAGE.fault = dies
    with pytest.raises(FencedError):
        shop.run()
    in_memory_target.STORAGE.fault = lambda at, where: None
    for life in range(3):
        shop.sql(
            f"INSERT INTO customers (id, name) VALUES ({900 + life}, 'new')",
            f"ALTER TABLE customers ADD COLUMN extra{life} TEXT DEFAULT 'x'",
        )
        with connect(shop.path) as database:
            synchronise(database, last_change(database))
        shop.sql(f"UPDATE customers SET extra{life} = 'y' WHERE id < 3")
        shop.run()
        shop.assert_equal("customers")
        added = [a.column.name for e in in_memory_target.STORAGE.ddl for a in e.alters if a.column is not None]
        assert added == [f"extra{n}" for n in range(1, life + 1)]


def test_a_run_that_cannot_reach_its_source_shows_what_an_earlier_one_saved(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(shop)
    shop.run()

    def refused(source: object) -> Any:
        raise NeedsUserError("the server refuses the password", code="RPL-3101")

    monkeypatch.setattr(SqliteSource, "create_table_registry", refused)
    monkeypatch.setattr(SqliteSource, "latest_offset", refused)
    with pytest.raises(NeedsUserError):
        shop.run()
    shown = shop.status()
    assert shown["offset"] is not None
    assert {table["state"] for table in shown["tables"]} == {"REPLICATING"}


def test_the_status_of_a_run_that_ended_has_no_lag_and_says_when_it_was_current(shop: Shop) -> None:
    """The age of the last change is not a lag."""
    fill(shop)
    shop.run()
    change(shop)
    before = datetime.now(UTC)
    shop.run()
    shown = shop.status()
    assert shown["phase"] == "done"
    assert [shown["lagSeconds"], *(table["lagSeconds"] for table in shown["tables"])] == [None, None, None]
    assert datetime.fromisoformat(shown["currentAt"]) >= before.replace(microsecond=0)


def test_lag_rises_while_the_source_is_locked_and_falls_when_it_is_not(shop: Shop) -> None:
    shop.sql("PRAGMA journal_mode=DELETE")
    fill(shop)
    stop, progress = threading.Event(), Progress()
    thread = threading.Thread(target=lambda: shop.run(until_current=False, stop=stop, progress=progress))
    thread.start()
    database = sqlite3.connect(shop.path, timeout=30, isolation_level=None)
    try:
        _wait(lambda: progress.snapshot().lag_seconds == 0.0)
        database.execute("BEGIN EXCLUSIVE")
        _wait(lambda: (progress.snapshot().lag_seconds or 0) > 1)
        database.execute("ROLLBACK")
        _wait(lambda: progress.snapshot().lag_seconds == 0.0)
    finally:
        database.close()
        stop.set()
        thread.join(120)


def test_an_unknown_exception_without_end_is_shown_with_what_to_do_and_without_its_text(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run goes on trying, as it must; a person learns from status and log that this does not pass by itself."""

    def broken(source: object) -> Any:
        raise ValueError("ada@example.org")

    monkeypatch.setattr(SqliteSource, "create_table_registry", broken)
    stop, progress = threading.Event(), Progress()
    thread = threading.Thread(target=lambda: shop.run(until_current=False, stop=stop, progress=progress))
    thread.start()
    try:
        _wait(lambda: "times in a row without progress" in progress.message)
        _wait(lambda: any(shop.path.parent.glob("state/default/shop/*/state.json")))
        _wait(lambda: (shop.status()["sourceError"] or {}).get("code") == "RPL-9015")
        shown = json.dumps(shop.status())
    finally:
        stop.set()
        thread.join(120)
    assert "ValueError at" in shown
    assert "author of the plugin" in shown
    assert "ada@example.org" not in shown + progress.message


@pytest.mark.parametrize("successor", [False, True])
def test_a_table_that_was_away_while_half_copied_is_copied_from_scratch(shop: Shop, successor: bool) -> None:
    """The log passed while the source did not list it, so that its chunks are no part of what it holds now."""
    fill(shop)
    shop.document["stages"][0]["plugin"]["properties"]["chunkRows"] = 2
    shop.document["tables"] = [{"database": "main", "table": name} for name in ("customers", "notes")]

    def dies(at: str, where: TableId) -> None:
        if at == "loaded" and where.table == "customers":
            raise FencedError("the process dies", code="RPL-8001", table=str(where))

    in_memory_target.STORAGE.fault = dies
    with pytest.raises(FencedError):
        shop.run()
    in_memory_target.STORAGE.fault = lambda at, where: None
    shop.sql("DROP TABLE customers" if successor else "ALTER TABLE customers RENAME TO aside")
    for _ in range(3):
        shop.sql("INSERT INTO notes VALUES ('y')")
        with contextlib.suppress(ReplicatorError):  # RPL-2001 at the end; the other table goes on
            shop.run()
    if successor:
        shop.sql("CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT)")
        shop.sql(*(f"INSERT INTO customers VALUES ({n}, 'new')" for n in range(10, 20)))
    else:
        shop.sql(
            "UPDATE aside SET name = 'new'", "DELETE FROM aside WHERE id = 2", "ALTER TABLE aside RENAME TO customers"
        )
    for _ in range(3):
        shop.sql("INSERT INTO notes VALUES ('z')")
        shop.run()
        shop.assert_equal("customers", "notes")


def test_a_selected_column_that_is_gone_before_its_copy_is_said(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.document["retries"] = {"maxDurationSeconds": 60, "delaySeconds": 0.1}
    shop.document["tables"] = [{"database": "main", "table": "customers", "columns": ["id", "name"]}]
    fill(shop)
    opened = SqliteSnapshotReader.open
    done: list[int] = []

    def late(self: SqliteSnapshotReader, schema: TableSchema, *arguments: Any) -> Any:
        if not done:
            done.append(1)
            shop.sql("ALTER TABLE customers RENAME name TO label")
        return opened(self, schema, *arguments)

    monkeypatch.setattr(SqliteSnapshotReader, "open", late)
    with pytest.raises(NeedsUserError, match="RPL-2003"):
        shop.run()
