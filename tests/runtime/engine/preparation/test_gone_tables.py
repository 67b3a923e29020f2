"""A table that was dropped at the source while its last changes could not be applied: they are not passed over."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Any

import pytest
import structlog

from replicator_runtime.engine.lifecycle.table_lifecycle import TableLifecycle
from replicator_sdk.errors import DataError, FencedError, ReplicatorError, SnapshotNeededError
from replicator_source_sqlite.catalogue import SqliteRegistry
from replicator_source_sqlite.streaming.reader import SqliteReader
from tests.runtime.engine import in_memory_target
from tests.runtime.engine.apply.test_rejoining import count, fails
from tests.runtime.engine.preparation.test_selection_edits import NOTES, codes, states
from tests.runtime.engine.test_run import Shop, fill, shop

if TYPE_CHECKING:
    from collections.abc import Callable

    from replicator_runtime.engine.tables.table_store import TableRecord
    from replicator_sdk import TableId

__all__ = ["shop"]


def drop_customers(shop: Shop) -> None:
    shop.sql("INSERT INTO customers VALUES (70, 'last')", "DROP TABLE customers", "INSERT INTO notes VALUES ('y')")


def create_customers(shop: Shop) -> None:
    shop.sql("CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT)", "INSERT INTO customers VALUES (1, 'new')")


def test_the_last_changes_of_a_dropped_table_wait_for_a_target_that_fails_for_a_while(shop: Shop) -> None:
    fill(shop)
    shop.run()
    drop_customers(shop)
    failures: list[str] = []

    def fault(at: str, where: TableId) -> None:
        if (at, where.table) == ("before", "customers") and len(failures) < 2:
            failures.append(at)
            raise OSError(errno.EIO, "locked")

    in_memory_target.STORAGE.fault = fault
    shop.run()
    shop.assert_equal("notes")
    assert count("customers") == 21
    create_customers(shop)
    shop.run()
    shop.assert_equal()


@pytest.mark.parametrize("error", [lambda: DataError("bad", code="RPL-5002"), lambda: OSError(errno.EIO, "locked")])
def test_a_dropped_table_that_failed_is_replaced_by_one_of_its_name_after_the_repair(
    shop: Shop, error: Callable[[], Exception]
) -> None:
    shop.document["retries"] = {"maxDurationSeconds": 0.5, "delaySeconds": 0.1}
    fill(shop)
    shop.run()
    fails("before", "customers", error)
    drop_customers(shop)
    for _ in range(3):
        with pytest.raises(ReplicatorError, match=r"RPL-5002|locked"):
            shop.run()
        shop.assert_equal("notes")
        shop.sql("INSERT INTO notes VALUES ('z')")
    create_customers(shop)
    in_memory_target.STORAGE.fault = lambda at, where: None
    for i in (2, 3, 4):
        shop.run()
        shop.assert_equal()
        shop.sql(f"INSERT INTO customers (id, name) VALUES ({i}, 'n')", f"ALTER TABLE customers ADD COLUMN c{i} TEXT")


def test_a_dropped_table_whose_changes_cannot_be_read_stops_alone(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(shop)
    shop.run()
    drop_customers(shop)
    emit = SqliteReader._emit_until

    def refuse(self: SqliteReader, *arguments: Any) -> None:
        if any(table.table == "customers" for table in self._definition.tables):
            raise DataError("bad", code="RPL-5002", table="main.customers")
        emit(self, *arguments)

    monkeypatch.setattr(SqliteReader, "_emit_until", refuse)
    with pytest.raises(DataError, match="RPL-5002"):
        shop.run()
    shop.assert_equal("notes")
    monkeypatch.undo()
    shop.run()
    assert count("customers") == 21


def test_a_table_that_neither_side_has_any_more_is_forgotten(shop: Shop) -> None:
    fill(shop)
    shop.run()
    drop_customers(shop)
    [gone] = [t for t in in_memory_target.STORAGE.tables if t.table == "customers"]
    del in_memory_target.STORAGE.tables[gone]
    shop.run()
    shop.assert_equal("notes")
    assert not codes(shop)
    create_customers(shop)
    shop.run()
    shop.assert_equal()


def test_a_failing_dropped_table_holds_nothing_once_it_is_not_selected(shop: Shop) -> None:
    fill(shop)
    shop.run()
    fails("before", "customers", lambda: DataError("bad", code="RPL-5002"))
    drop_customers(shop)
    with pytest.raises(DataError, match="RPL-5002"):
        shop.run()
    before = shop.status()["offset"]
    shop.document["tables"] = [NOTES]
    shop.run()
    assert shop.status()["offset"] != before


@pytest.mark.parametrize("change", ["DROP TABLE notes", "ALTER TABLE notes RENAME TO remarks"])
def test_a_table_that_is_gone_when_its_next_copy_begins_is_forgotten(
    change: str, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing reads its DROP or RENAME in the log, which passes; a run that dies before the copy leaves time for it."""
    fill(shop)
    shop.run()
    begin = TableLifecycle.copy_again

    def dies(self: TableLifecycle, record: TableRecord) -> None:
        begin(self, record)
        raise FencedError("the process dies", code="RPL-8001", table=str(record.table))

    def fault(step: str, table: TableId) -> None:
        if step == "before" and table.table == "notes":
            raise SnapshotNeededError("rewritten", code="RPL-3212", table=str(table))

    in_memory_target.STORAGE.fault = fault
    monkeypatch.setattr(TableLifecycle, "copy_again", dies)
    shop.sql("INSERT INTO notes VALUES ('later')")
    with pytest.raises(FencedError):
        shop.run()
    monkeypatch.setattr(TableLifecycle, "copy_again", begin)
    in_memory_target.STORAGE.fault = lambda step, table: None
    shop.sql(change)
    there = ["customers", "remarks"] if "remarks" in change else ["customers"]
    for number in range(3):
        shop.sql(f"INSERT INTO customers (name) VALUES ('{number}')")
        with structlog.testing.capture_logs() as log:
            assert shop.run().reached_goal
        shop.assert_equal(*there)
        assert sorted(states(shop)) == there
        left = [entry["table"] for entry in log if entry["event"] == "table.left"]
        assert left == (["main.notes"] if number == 0 else [])
    assert in_memory_target.STORAGE.rows("notes")
    shop.sql("CREATE TABLE notes (text TEXT)", "INSERT INTO notes VALUES ('another')")
    assert shop.run().reached_goal
    shop.assert_equal("notes", *there)


def test_the_error_of_a_table_that_is_hidden_while_it_is_copied_is_not_lost(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many catalogues list what the user may read: one whose right is taken fails, and is listed no more."""
    fill(shop)
    shop.document["tables"] = [{"database": "main", "table": "*"}]
    hidden: list[str] = []
    listed = SqliteRegistry.list_tables
    monkeypatch.setattr(
        SqliteRegistry, "list_tables", lambda self: [s for s in listed(self) if s.table.table not in hidden]
    )

    def refused() -> DataError:
        hidden.append("notes")
        return DataError("permission denied", code="RPL-5001", table="main.notes")

    fails("load", "notes", refused)
    with pytest.raises(DataError, match="permission denied"):
        shop.run()
    shop.assert_equal("customers")
    hidden.clear()
    in_memory_target.STORAGE.fault = lambda step, table: None
    shop.run()
    shop.assert_equal()
