"""`snapshot.mode` "never": tables begin empty at a position, have every change after it, and are never copied unasked."""

from __future__ import annotations

import contextlib

import pytest

from replicator_runtime.config import build_pipeline
from replicator_runtime.engine.control.control import carry_out_alone
from replicator_runtime.engine.control.reset import reset
from replicator_sdk import failpoint
from replicator_sdk.errors import NeedsUserError, RetryableError
from replicator_source_sqlite.plugin import SqliteSource
from tests.follows import follows
from tests.runtime.engine import in_memory_target
from tests.runtime.engine.planning.test_plans import plan
from tests.runtime.engine.requests import requests
from tests.runtime.engine.snapshot.test_filtered_copies import ids, texts
from tests.runtime.engine.test_run import Host, Shop, change, fill, shop

__all__ = ["shop"]


@pytest.fixture(params=[True, False], ids=["filtering source", "other source"])
def never(request: pytest.FixtureRequest, shop: Shop, monkeypatch: pytest.MonkeyPatch) -> Shop:
    monkeypatch.setattr(SqliteSource, "filters_snapshots", request.param)
    shop.document["snapshot"] = {"mode": "never"}
    return shop


def test_tables_begin_empty_and_have_what_changes_from_then_on(never: Shop) -> None:
    fill(never)
    never.run()
    assert (ids(), texts()) == ([], [])
    never.sql(
        "INSERT INTO customers VALUES (100, 'new')",
        "UPDATE customers SET name = 'changed' WHERE id = 3",
        "DELETE FROM customers WHERE id = 4",
        "DELETE FROM notes WHERE text = 't1'",
        "INSERT INTO notes VALUES ('new')",
        "ALTER TABLE customers ADD COLUMN city TEXT",
        "INSERT INTO customers VALUES (101, 'new', 'Rome')",
    )
    never.run()
    assert (ids(), texts()) == ([3, 100, 101], ["new"])
    never.run()
    assert (ids(), texts()) == ([3, 100, 101], ["new"])


@pytest.mark.parametrize("point", ["engine.snapshot.planned", "engine.snapshot.finished"])
def test_what_changes_between_a_run_that_was_cut_off_and_the_next_is_not_lost(never: Shop, point: str) -> None:
    """The tables are empty at first, so the target must be equal. A change of structure comes between, too."""
    never.document["parallelism"] = {"tables": 1}
    never.document["retries"] = {"maxDurationSeconds": 0}
    never.document["onTableError"] = "stop"
    failpoint.arm(f"{point}=raise")
    with pytest.raises(RetryableError):
        never.run()
    failpoint.arm("")
    fill(never)
    never.sql("ALTER TABLE customers ADD COLUMN city TEXT DEFAULT 'Rome'")
    never.run()
    kept = {row["id"] for row in in_memory_target.STORAGE.rows("customers")}
    assert kept == set(range(20))
    change_and_run(never)


def change_and_run(shop: Shop) -> None:
    for number in range(3):
        shop.sql(
            f"INSERT INTO customers (id, name) VALUES ({500 + number}, 'later')",
            f"INSERT INTO notes VALUES ('n{number}')",
        )
        shop.run()
    assert {500, 501, 502} <= set(ids())
    assert {"n0", "n1", "n2"} <= set(texts())


@follows("RPL-2063")
def test_a_table_that_needs_a_copy_stops_and_is_copied_when_asked(never: Shop) -> None:
    fill(never)
    never.run()
    before = dict(in_memory_target.STORAGE.tables)
    never.document["tables"] = [{"table": "customers", "columns": ["id"]}, {"table": "notes"}]
    [step] = plan(never).steps
    assert (step.code, step.refused, step.needs_approval) == ("RPL-2063", True, False)
    with pytest.raises(NeedsUserError, match=r"RPL-2063.*table resync"):
        never.run()
    never.sql("INSERT INTO notes VALUES ('goes on')")
    with pytest.raises(NeedsUserError, match="RPL-2063"):
        never.run()
    assert texts() == ["goes on"]
    assert before.keys() == in_memory_target.STORAGE.tables.keys()
    resync(never, "customers")
    never.run()
    assert ids() == list(range(20))
    never.sql("INSERT INTO customers VALUES (100, 'new')", "DELETE FROM customers WHERE id = 1")
    never.run()
    assert ids() == [0, *range(2, 20), 100]


def resync(shop: Shop, table: str) -> None:
    requests(shop).submit("table.resync", {"tables": [table], "inPlace": True})
    carry_out_alone(build_pipeline(shop.document, host=Host()))  # type: ignore[arg-type]


def test_a_reset_does_not_empty_what_the_target_has(never: Shop) -> None:
    never.run()
    fill(never)
    never.run()
    reset(build_pipeline(never.document, host=Host()))  # type: ignore[arg-type]
    with pytest.raises(NeedsUserError, match="RPL-2063"):
        never.run()
    never.assert_equal()
    for table in ("customers", "notes"):
        with contextlib.suppress(NeedsUserError):
            resync(never, table)
    change(never)
    never.run()
    never.assert_equal()


def test_a_pipeline_that_has_copied_its_tables_keeps_them_when_it_becomes_never(shop: Shop) -> None:
    fill(shop)
    shop.run()
    shop.document["snapshot"] = {"mode": "never"}
    assert [step.subject for step in plan(shop).steps] == ["snapshot.mode"]
    change(shop)
    shop.run()
    shop.assert_equal()
    shop.sql("CREATE TABLE later (id INTEGER PRIMARY KEY)", "INSERT INTO later VALUES (1)")
    shop.run()
    shop.sql("INSERT INTO later VALUES (2)")
    shop.run()
    assert [row["id"] for row in in_memory_target.STORAGE.rows("later")] == [2]
