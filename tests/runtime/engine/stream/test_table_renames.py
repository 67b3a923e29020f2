"""A table that is renamed at the source is renamed at the target, whatever stops the run; else it is copied under its new name."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest

from replicator_runtime.engine import attempt
from replicator_sdk import DDLOperation, failpoint
from replicator_sdk.errors import FencedError, ReplicatorError, SnapshotNeededError
from tests.runtime.engine import in_memory_target
from tests.runtime.engine.test_run import Shop, change, fill, shop

if TYPE_CHECKING:
    from replicator_runtime.engine.lifecycle.table_lifecycle import TableLifecycle
    from replicator_sdk import EventConsumer, TableId

__all__ = ["shop"]
SWAP = ("ALTER TABLE customers RENAME TO x", "ALTER TABLE notes RENAME TO customers", "ALTER TABLE x RENAME TO notes")


def renamed() -> list[tuple[str, str]]:
    """The renames that the target has done: name before, name after."""
    events = [e for e in in_memory_target.STORAGE.ddl if e.operation is DDLOperation.RENAME_TABLE]
    return [(e.prev_table.table, e.table.table) for e in events if e.prev_table is not None]


def tables() -> set[str]:
    """The tables at the target."""
    return {table.table for table in in_memory_target.STORAGE.tables}


def copied(shop: Shop, run: Any) -> list[str]:
    """The tables that are copied while `run` runs."""
    found: list[str] = []

    def fault(step: str, where: TableId) -> None:
        if step == "load":
            found.append(where.table)

    in_memory_target.STORAGE.fault = fault
    run()
    in_memory_target.STORAGE.fault = lambda step, where: None
    return found


def three_runs(shop: Shop, table: str, *more: str) -> None:
    """Changes and another change of structure between the runs that follow."""
    for number in range(3):
        shop.run()
        shop.assert_equal(table, *more)
        shop.sql(f"UPDATE {table} SET name = 'run {number}' WHERE id < 10", f"DELETE FROM {table} WHERE id = {number}")
        if number == 1:
            shop.sql(f"ALTER TABLE {table} ADD COLUMN later TEXT DEFAULT 'x'", f"INSERT INTO {table} (id) VALUES (77)")
    shop.run()
    shop.assert_equal(table, *more)


def test_a_renamed_table_is_renamed_at_the_target_and_not_copied(shop: Shop) -> None:
    fill(shop)
    shop.run()
    change(shop)
    shop.sql("ALTER TABLE customers RENAME TO clients", "UPDATE clients SET name = 'y' WHERE id = 2")
    assert copied(shop, shop.run) == []
    assert renamed() == [("customers", "clients")]
    assert tables() == {"clients", "notes"}
    assert {t["table"] for t in shop.status()["tables"]} == {"clients", "notes"}
    three_runs(shop, "clients", "notes")


def test_a_table_that_is_renamed_twice_has_its_last_name(shop: Shop) -> None:
    fill(shop)
    shop.run()
    shop.sql("ALTER TABLE customers RENAME TO clients", "ALTER TABLE clients RENAME TO people")
    assert copied(shop, shop.run) == []
    shop.sql("ALTER TABLE people RENAME TO clients", "UPDATE clients SET name = 'y' WHERE id = 2")
    assert copied(shop, shop.run) == []
    assert tables() == {"clients", "notes"}
    three_runs(shop, "clients", "notes")


def test_tables_that_exchange_their_names_are_exchanged_at_the_target(shop: Shop) -> None:
    fill(shop)
    shop.run()
    change(shop)
    shop.sql(
        *SWAP, "INSERT INTO customers VALUES ('once a note')", "INSERT INTO notes VALUES (5000, 'once a customer')"
    )
    assert copied(shop, shop.run) == []
    assert len(renamed()) == 3
    assert tables() == {"customers", "notes"}
    three_runs(shop, "notes", "customers")


def test_three_tables_take_each_others_names(shop: Shop) -> None:
    shop.sql("CREATE TABLE third (id INTEGER PRIMARY KEY, name TEXT)", "INSERT INTO third VALUES (1, 'third')")
    fill(shop)
    shop.run()
    shop.sql(
        "ALTER TABLE customers RENAME TO x",
        "ALTER TABLE third RENAME TO customers",
        "ALTER TABLE notes RENAME TO third",
        "ALTER TABLE x RENAME TO notes",
        "DELETE FROM notes WHERE id = 3",
    )
    assert copied(shop, shop.run) == []
    three_runs(shop, "notes", "customers", "third")


def test_a_new_table_of_the_former_name_is_copied(shop: Shop) -> None:
    fill(shop)
    shop.run()
    shop.sql("ALTER TABLE customers RENAME TO clients")
    shop.run()
    shop.sql("CREATE TABLE customers (id INTEGER PRIMARY KEY, other TEXT)", "INSERT INTO customers VALUES (1, 'new')")
    assert copied(shop, shop.run) == ["customers"]
    assert tables() == {"customers", "clients", "notes"}
    three_runs(shop, "clients", "customers", "notes")


def test_tables_are_right_when_the_former_name_is_taken_before_the_run_sees_it(shop: Shop) -> None:
    """As a cut-over of an online change of structure does."""
    fill(shop)
    shop.run()
    shop.sql(
        "ALTER TABLE customers RENAME TO clients",
        "CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT)",
        "INSERT INTO customers VALUES (1, 'new')",
    )
    three_runs(shop, "clients", "customers", "notes")


POINTS = ["saved", "applied"]


class DiedError(FencedError):
    """The process dies."""


def dies_at(monkeypatch: pytest.MonkeyPatch, shop: Shop, point: str, time: int) -> None:
    """A run that ends when it comes to this point for the `time`-th time."""
    left = itertools.count(1)

    def fail(name: str) -> None:
        if name == f"engine.rename.{point}" and next(left) == time:
            raise DiedError("the process dies", code="RPL-8001")

    with monkeypatch.context() as patch:
        patch.setattr("replicator_runtime.engine.preparation.renames.failpoint", fail)
        patch.setattr("replicator_runtime.engine.stream.table_renames.failpoint", fail)
        with pytest.raises(DiedError):
            shop.run()


@pytest.mark.parametrize("point", POINTS)
def test_a_run_that_ends_beside_a_rename_is_followed_by_runs_that_go_on(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    fill(shop)
    shop.run()
    change(shop)
    shop.sql("ALTER TABLE customers RENAME TO clients", "UPDATE clients SET name = 'y' WHERE id = 2")
    dies_at(monkeypatch, shop, point, 1)
    shop.sql("ALTER TABLE clients ADD COLUMN city TEXT DEFAULT 'Ulm'", "DELETE FROM clients WHERE id = 4")
    assert copied(shop, shop.run) == []
    assert renamed() == [("customers", "clients")]
    three_runs(shop, "clients", "notes")


@pytest.mark.parametrize(("point", "time"), [("saved", 1), ("applied", 1), ("applied", 2), ("applied", 3)])
def test_a_run_that_ends_inside_an_exchange_is_followed_by_runs_that_go_on(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, point: str, time: int
) -> None:
    fill(shop)
    shop.run()
    change(shop)
    shop.sql(*SWAP, "INSERT INTO customers VALUES ('once a note')")
    dies_at(monkeypatch, shop, point, time)
    shop.sql("ALTER TABLE notes ADD COLUMN city TEXT DEFAULT 'Ulm'", "DELETE FROM notes WHERE id = 4")
    assert copied(shop, shop.run) == []
    three_runs(shop, "notes", "customers")


def test_a_rename_is_followed_once_though_another_table_holds_the_offset(shop: Shop) -> None:
    """Every run reads the log from before the rename again."""
    fill(shop)
    shop.run()
    shop.sql("INSERT INTO notes VALUES ('held')")

    def fault(step: str, where: TableId) -> None:
        if step == "before" and where.table == "notes":
            raise ReplicatorError("it fails", code="RPL-9198")

    in_memory_target.STORAGE.fault = fault
    shop.document["retries"] = {"maxDurationSeconds": 1, "delaySeconds": 0.1}
    for number in range(3):
        shop.sql(
            f"UPDATE {'customers' if not number else 'clients'} SET name = 'n{number}'",
            *(["ALTER TABLE customers RENAME TO clients"] if not number else []),
            f"INSERT INTO clients VALUES ({900 + number}, 'later')",
        )
        with pytest.raises(ReplicatorError):
            shop.run()
        shop.assert_equal("clients")
    assert renamed() == [("customers", "clients")]
    in_memory_target.STORAGE.fault = lambda step, where: None
    three_runs(shop, "clients", "notes")


def test_a_table_that_failed_while_others_took_its_former_and_its_later_name_gets_no_rows_of_theirs(shop: Shop) -> None:
    """`a` becomes `b` and then `x`; meanwhile `c` becomes `b`, which the target does at once, and the failing `d` becomes `a`."""
    fill(shop)
    for name in "acd":
        shop.sql(
            f"CREATE TABLE {name} (id INTEGER PRIMARY KEY, name TEXT)", f"INSERT INTO {name} VALUES (1, 'of {name}')"
        )
    shop.run()
    failing = {"a", "d"}

    def fault(step: str, where: TableId) -> None:
        assert step != "before" or where.table not in failing, "it fails"

    in_memory_target.STORAGE.fault = fault
    shop.document["retries"] = {"maxDurationSeconds": 1, "delaySeconds": 0.1}
    for statements in (
        ("INSERT INTO a VALUES (2, 'of a')", "INSERT INTO d VALUES (3, 'of d')", "ALTER TABLE a RENAME TO b"),
        ("ALTER TABLE b RENAME TO x",),
        ("ALTER TABLE c RENAME TO b",),
        ("ALTER TABLE d RENAME TO a", "INSERT INTO a VALUES (4, 'of d')"),
    ):
        shop.sql(*statements)
        with pytest.raises(ReplicatorError):
            shop.run()
    in_memory_target.STORAGE.fault = lambda step, where: None
    three_runs(shop, "a", "b", "x", "customers", "notes")


@pytest.mark.parametrize("why", ["target", "blacklist", "occupied", "columns"])
def test_a_table_that_cannot_be_renamed_is_copied_under_its_new_name(shop: Shop, why: str) -> None:
    fill(shop)
    if why == "occupied":
        shop.sql("CREATE TABLE clients (id INTEGER)", "INSERT INTO clients VALUES (1)")
    shop.run()
    if why == "occupied":
        shop.sql("DROP TABLE clients")
        shop.run()
    if why == "target":
        in_memory_target.STORAGE.renames = False
    if why == "blacklist":
        shop.document["ddlBlacklist"] = ["RENAME_TABLE"]
    shop.sql("ALTER TABLE customers RENAME TO clients")
    if why == "columns":
        shop.sql("ALTER TABLE clients ADD COLUMN city TEXT DEFAULT 'Ulm'")
    assert copied(shop, shop.run) == ["clients"]
    assert renamed() == []
    assert len(in_memory_target.STORAGE.rows("customers")) == 20
    three_runs(shop, "clients", "notes") if why != "columns" else shop.assert_equal("clients", "notes")


def test_a_table_that_leaves_the_selection_by_its_new_name_stays_at_the_target(shop: Shop) -> None:
    shop.document["tables"] = [{"database": "main", "table": "customers"}, {"database": "main", "table": "notes*"}]
    fill(shop)
    shop.run()
    shop.sql("ALTER TABLE notes RENAME TO other", "INSERT INTO customers VALUES (5000, 'x')")
    shop.run()
    assert tables() == {"customers", "notes"}
    shop.sql("ALTER TABLE other RENAME TO notes2")
    assert copied(shop, shop.run) == ["notes2"]
    shop.assert_equal("customers", "notes2")


def test_a_table_that_the_target_refuses_to_rename_is_copied(shop: Shop) -> None:
    fill(shop)
    shop.run()
    shop.sql("ALTER TABLE customers RENAME TO clients")

    def fault(step: str, where: TableId) -> None:
        if (step, where.table) == ("ddl", "clients"):
            in_memory_target.STORAGE.tables[where] = in_memory_target.STORAGE.tables[
                next(t for t in in_memory_target.STORAGE.tables if t.table == "notes")
            ]

    in_memory_target.STORAGE.fault = fault
    shop.run()
    in_memory_target.STORAGE.fault = lambda step, where: None
    assert renamed() == []
    three_runs(shop, "clients", "notes")


@pytest.fixture(autouse=True)
def no_failpoint() -> Any:
    yield
    failpoint.arm("")


@pytest.mark.parametrize("steps", [0, 1, 2])
def test_names_exchanged_in_part_leave_nothing_under_a_name_of_the_replicators_own(
    monkeypatch: pytest.MonkeyPatch, shop: Shop, steps: int
) -> None:
    """The target refuses after that many steps; the run that has noted that is killed, and another one deletes."""
    fill(shop)
    shop.run()
    shop.sql(*SWAP)
    done = itertools.count()

    def fault(step: str, where: TableId) -> None:
        if step == "ddl" and next(done) == steps:
            raise SnapshotNeededError("no", code="RPL-9197", table=str(where))

    in_memory_target.STORAGE.fault = fault
    monkeypatch.setattr(attempt, "discard_remains", _dies)
    with pytest.raises(DiedError):
        shop.run()
    monkeypatch.undo()
    in_memory_target.STORAGE.fault = lambda step, where: None
    if steps:
        assert tables() - {"customers", "notes"}
    three_runs(shop, "notes", "customers")
    assert tables() == {"customers", "notes"}


def _dies(lifecycle: TableLifecycle, consumer: EventConsumer) -> None:
    if lifecycle.run.table_store.remains.noted():
        raise DiedError("dead", code="RPL-9198", hint="none")
