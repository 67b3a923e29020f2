"""A table that fails for long holds the source's log no more: the offset moves, and a new copy makes it whole without a restart."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest
import structlog

from replicator_runtime.config.model import FailingTablesConfig
from replicator_runtime.engine.lifecycle.log_release import LogRelease
from replicator_runtime.engine.preparation import description, discovery
from replicator_runtime.engine.run_state import retry_budget
from replicator_runtime.engine.snapshot.table_copy import TableCopy
from replicator_runtime.engine.tables.table_store import TableRecord
from replicator_sdk import TableId, failpoint
from replicator_sdk.errors import DataError, RetryableError
from replicator_source_sqlite.catalogue import SqliteRegistry
from replicator_source_sqlite.plugin import SqliteSource
from replicator_source_sqlite.snapshots.snapshot import SqliteSnapshotReader
from tests.runtime.engine import in_memory_target
from tests.runtime.engine.apply.test_rejoining import at_work, count, fails
from tests.runtime.engine.preparation.test_selection_edits import states
from tests.runtime.engine.test_run import Shop, _wait, fill, shop

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["shop"]

SOON = {"holdLogHours": 0.5 / 3600, "maxCopyDelaySeconds": 1.5}


@pytest.fixture
def log() -> Iterator[list[Any]]:
    """What is logged, of all threads."""
    with structlog.testing.capture_logs() as found:
        yield found


def too_large() -> DataError:
    return DataError("a value is too large", code="RPL-5001", hint="change it", table="main.notes")


def away() -> RetryableError:
    return RetryableError("the table is locked", code="RPL-4001")


def works() -> None:
    in_memory_target.STORAGE.fault = lambda step, table: None


def passes(shop: Shop) -> bool:
    """Whether the saved offset moves after a change of another table; the status is written every five seconds."""
    before = shop.status()["offset"]
    shop.sql("INSERT INTO customers (name) VALUES ('later')")
    _wait(lambda: shop.status()["offset"] != before)
    return True


def is_released(log: list[Any]) -> bool:
    return any(entry["event"] == "table.log_released" for entry in log)


@pytest.mark.parametrize("error", [too_large, away])
def test_the_offset_moves_and_the_table_comes_back_without_a_restart(
    shop: Shop, log: list[Any], error: Callable[[], Exception]
) -> None:
    fill(shop)
    shop.document["failingTables"] = SOON
    shop.run()
    fails("before", "notes", error)
    shop.sql("INSERT INTO notes VALUES ('held')")
    with at_work(shop) as progress:
        _wait(lambda: is_released(log))
        assert len(in_memory_target.STORAGE.rows("notes")) == 20, "what was copied stays readable"
        assert passes(shop)
        works()
        _wait(lambda: len(in_memory_target.STORAGE.rows("notes")) == 21)
        _wait(lambda: all(t.state == "REPLICATING" for t in progress.snapshot().tables))
        shop.sql("INSERT INTO notes VALUES ('after')")
        _wait(lambda: len(in_memory_target.STORAGE.rows("notes")) == 22)
    for number in range(3):
        shop.run()
        shop.assert_equal()
        shop.sql(f"INSERT INTO notes (text) VALUES ('{number}')", f"ALTER TABLE notes ADD COLUMN n{number} TEXT")
        shop.sql(f"INSERT INTO notes (text, n{number}) VALUES ('{number}', 'new')")


def test_before_that_time_the_table_holds_the_offset_and_the_status_says_until_when(shop: Shop) -> None:
    fill(shop)
    shop.run()
    fails("before", "notes", too_large)
    shop.sql("INSERT INTO notes VALUES ('held')", "INSERT INTO customers (name) VALUES ('moves')")
    with pytest.raises(DataError):
        shop.run()
    held = shop.status()
    [notes] = [table for table in held["tables"] if table["table"] == "notes"]
    [customers] = [table for table in held["tables"] if table["table"] == "customers"]
    assert customers["failingSince"] is customers["copyAgainAt"] is None
    assert notes["failingSince"][:10] < notes["copyAgainAt"][:10], "a day later"
    with pytest.raises(DataError):
        shop.run()
    again = shop.status()
    assert again["offset"] == held["offset"]
    [later] = [table for table in again["tables"] if table["table"] == "notes"]
    assert later["failingSince"] == notes["failingSince"], "the time goes on over a restart"


def test_bounded_runs_release_the_log_too(shop: Shop, log: list[Any]) -> None:
    """The time passes between them; each start tries the table first."""
    fill(shop)
    shop.document["failingTables"] = {"holdLogHours": 0.000001}
    shop.run()
    before = shop.status()["offset"]
    fails("before", "notes", too_large)
    shop.sql("INSERT INTO notes VALUES ('held')", "INSERT INTO customers (name) VALUES ('moves')")
    for _ in range(2):
        with pytest.raises(DataError):
            shop.run()
    assert states(shop) == {"customers": "REPLICATING", "notes": "FAILING"}
    assert shop.status()["offset"] != before
    works()
    for number in range(3):
        shop.run()
        shop.assert_equal()
        shop.sql(f"INSERT INTO notes (text) VALUES ('{number}')", f"ALTER TABLE notes ADD COLUMN n{number} TEXT")


def test_rows_that_still_cannot_be_copied_leave_the_table_as_it_was(
    shop: Shop, log: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A value that cannot be copied is found before the target's rows are removed, and each copy waits longer than the last."""
    fill(shop)
    shop.document["failingTables"] = SOON
    shop.run()
    fails("before", "notes", too_large)
    shop.sql("INSERT INTO notes VALUES ('held')")
    opened = SqliteSnapshotReader.open
    bad = True

    def refuse(*_: Any) -> Any:
        raise too_large()

    def open_refusing(self: SqliteSnapshotReader, schema: Any, chunks: Any) -> Any:
        found = opened(self, schema, chunks)
        if bad and schema.table.table == "notes":
            monkeypatch.setattr(type(found), "read", property(lambda self: refuse), raising=False)
        return found

    monkeypatch.setattr(SqliteSnapshotReader, "open", open_refusing)
    monkeypatch.setattr(retry_budget, "_FIRST_WAIT_SECONDS", 0.4)
    with at_work(shop):
        _wait(lambda: sum(entry["event"] == "table.log_released" for entry in log) >= 4)
        assert len(in_memory_target.STORAGE.rows("notes")) == 20
        assert passes(shop)
    waits = [entry["seconds"] for entry in log if entry["event"] == "table.log_released"]
    assert waits[:4] == [0.4, 0.8, 1.5, 1.5]


def test_a_source_without_snapshots_keeps_holding_the_offset_and_says_so_once(
    shop: Shop, log: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SqliteSource, "create_snapshot_reader", lambda *_: None)
    shop.document["failingTables"] = {"holdLogHours": 0.000001}
    shop.run()
    fill(shop)
    fails("before", "notes", too_large)
    with at_work(shop) as progress:
        _wait(lambda: any(entry["event"] == "table.holds_log" for entry in log))
        before = shop.status()["offset"]
        shop.sql("INSERT INTO customers (name) VALUES ('more')")
        _wait(lambda: len(in_memory_target.STORAGE.rows("customers")) == 21)
        [notes] = [table for table in progress.snapshot().tables if table.table.table == "notes"]
        assert notes.failing_since is not None
        assert notes.copy_again_at is None
    assert shop.status()["offset"] == before
    assert sum(entry["event"] == "table.holds_log" for entry in log) == 1
    works()
    shop.run()
    shop.assert_equal()


def test_a_table_that_keeps_deleted_rows_is_not_copied_again(shop: Shop, log: list[Any]) -> None:
    """A copy would remove what the pipeline keeps on purpose."""
    fill(shop)
    shop.document |= {"failingTables": {"holdLogHours": 0.000001}, "dmlBlacklist": ["DELETE"]}
    shop.run()
    shop.sql("DELETE FROM notes WHERE text = 't1'")
    shop.run()
    fails("before", "notes", too_large)
    shop.sql("INSERT INTO notes VALUES ('held')")
    with at_work(shop):
        _wait(lambda: any(entry["event"] == "table.holds_log" for entry in log))
    works()
    shop.run()
    assert len(in_memory_target.STORAGE.rows("notes")) == 21


def test_a_table_dropped_while_it_waits_for_its_copy_is_forgotten(shop: Shop, log: list[Any]) -> None:
    fill(shop)
    shop.document["failingTables"] = SOON
    shop.run()
    fails("before", "notes", too_large)
    shop.sql("INSERT INTO notes VALUES ('held')")
    with at_work(shop) as progress:
        _wait(lambda: is_released(log))
        shop.sql("DROP TABLE notes")
        _wait(lambda: [t.table.table for t in progress.snapshot().tables] == ["customers"])
    assert len(in_memory_target.STORAGE.rows("notes")) == 20
    works()
    shop.run()
    shop.assert_equal("customers")


def test_a_table_that_waits_for_its_copy_and_is_missing_once_is_copied_later_where_new_tables_are_ignored(
    shop: Shop, log: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A catalogue may leave it out for a moment; a table that is forgotten would count as a new one, and never be copied."""
    fill(shop)
    shop.document |= {"failingTables": {"holdLogHours": 0.5 / 3600, "maxCopyDelaySeconds": 60}, "newTables": "ignore"}
    shop.run()
    fails("before", "notes", too_large)
    shop.sql("INSERT INTO notes VALUES ('held')")
    with at_work(shop):
        _wait(lambda: is_released(log))
    works()
    listed = SqliteRegistry.list_tables
    with monkeypatch.context() as once:
        once.setattr(SqliteRegistry, "list_tables", lambda self: [s for s in listed(self) if s.table.table != "notes"])
        shop.sql("INSERT INTO customers (name) VALUES ('later')")
        shop.run()
    shop.run()
    shop.assert_equal()


@pytest.mark.parametrize("is_dropped", [True, False])
def test_a_table_that_failed_in_an_earlier_run_and_is_left_out_now_ends_no_run(
    shop: Shop, log: list[Any], monkeypatch: pytest.MonkeyPatch, is_dropped: bool
) -> None:
    """It has no rows at the target: it is dropped before its copy begins, or left out since it cannot be described."""
    fill(shop)

    open_copy, describe = TableCopy._open, description.describe_listed

    def refuse_notes(table: TableId) -> None:
        if table.table == "notes":
            raise too_large()

    def open_refusing(self: TableCopy, opened: Any) -> Any:
        refuse_notes(self._copy.record.table)
        return open_copy(self, opened)

    def describe_refusing(run: Any, registry: Any, table: TableId) -> Any:
        refuse_notes(table)
        return describe(run, registry, table)

    with monkeypatch.context() as patch:
        if is_dropped:
            patch.setattr(TableCopy, "_open", open_refusing)
        else:
            patch.setattr(discovery, "describe_listed", describe_refusing)
        with pytest.raises(DataError):
            shop.run()
    assert states(shop)["notes"] == "FAILING"
    if is_dropped:
        shop.sql("DROP TABLE notes")
    else:
        shop.document["tables"] = [{"table": "customers"}]
    shop.document["failingTables"] = {"holdLogHours": 0.000001}
    with at_work(shop):
        shop.sql("INSERT INTO customers (name) VALUES ('later')")
        _wait(lambda: count("customers") == 21)
        assert passes(shop)
    assert not [entry for entry in log if entry["event"] in {"run.retry", "table.log_released"}]


T = TableId("db", "t")


def record() -> TableRecord:
    return TableRecord(T)


def test_a_failure_has_passed_when_the_offset_moves_while_the_table_takes_changes() -> None:
    release, table = LogRelease(FailingTablesConfig()), record()
    assert release.began(table)
    assert not release.began(table)
    first: Any = object()
    assert not release.is_passed(table, first)
    assert release.is_passed(table, object())  # type: ignore[arg-type]
    assert release.ended(table)
    assert table.failing_since is None


def test_a_table_is_taken_once_when_its_wait_is_over() -> None:
    release, table = LogRelease(FailingTablesConfig(max_copy_delay_seconds=0.001)), record()
    assert release.next_copy == math.inf
    release.delay_copy(table)
    assert release.next_copy < math.inf
    _wait(lambda: release.take_due() == [T])
    assert release.take_due() == []


def test_the_points_are_registered() -> None:
    assert {"engine.release.before_save", "engine.release.after_save"} <= set(failpoint.registered())
