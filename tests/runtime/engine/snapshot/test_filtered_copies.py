"""`where` selects the rows that a copy has; changes of all rows follow."""

from __future__ import annotations

from typing import Any

import pytest

from replicator_runtime.config.problem import InvalidPipelineError
from replicator_sdk.errors import FencedError, NeedsUserError
from replicator_source_sqlite.plugin import SqliteSource
from tests.runtime.engine import in_memory_target
from tests.runtime.engine.planning.test_plans import plan
from tests.runtime.engine.test_run import Shop, fill, shop

__all__ = ["shop"]


def ids() -> list[int]:
    return sorted(row["id"] for row in in_memory_target.STORAGE.rows("customers"))


def texts() -> list[str]:
    return sorted(row["text"] for row in in_memory_target.STORAGE.rows("notes"))


def select(shop: Shop, customers: str = "", notes: str = "") -> None:
    wheres = {"customers": customers, "notes": notes}
    entries: list[dict[str, Any]] = [{"table": name, "where": where} for name, where in wheres.items() if where]
    shop.document["tables"] = entries + [{"table": name} for name, where in wheres.items() if not where]


def test_a_copy_has_the_rows_of_its_condition_and_changes_of_all_rows_follow(shop: Shop) -> None:
    fill(shop)
    select(shop, "id < 5 OR name = 'n19'", "text = 't0'")
    shop.run()
    assert ids() == [0, 1, 2, 3, 4, 19]
    assert texts() == ["t0"] * 7
    shop.sql(
        "UPDATE customers SET name = 'changed' WHERE id IN (4, 7)",
        "DELETE FROM customers WHERE id IN (0, 8)",
        "UPDATE customers SET id = 1009 WHERE id = 9",
        "INSERT INTO customers VALUES (100, 'new')",
        "INSERT INTO notes VALUES ('new')",
        "DELETE FROM notes WHERE text = 't0'",
    )
    shop.run()
    assert ids() == [1, 2, 3, 4, 7, 19, 100, 1009]
    assert texts() == ["new"]
    rows = {row["id"]: row["name"] for row in in_memory_target.STORAGE.rows("customers")}
    assert rows[7] == "changed"


def test_an_edited_condition_waits_for_the_next_copy_and_the_plan_says_so(shop: Shop) -> None:
    fill(shop)
    select(shop, "id < 5")
    shop.run()
    select(shop, "id < 9")
    [step] = plan(shop).steps
    assert (step.kind.value, step.subject, step.needs_approval) == ("rows", "main.customers", False)
    assert "table resync" in step.suggestion
    shop.run()
    assert ids() == [0, 1, 2, 3, 4]
    select(shop)
    assert "all rows" in plan(shop).steps[0].change


def test_a_copy_that_was_cut_off_begins_again_with_the_new_condition(shop: Shop) -> None:
    fill(shop)
    select(shop, "id < 9")
    shop.document["stages"][0]["plugin"]["properties"]["chunkRows"] = 1

    def dies(at: str, table: object) -> None:
        if at == "loaded" and "customers" in str(table):
            raise FencedError("the process dies", code="RPL-8001", table=str(table))

    in_memory_target.STORAGE.fault = dies
    with pytest.raises(FencedError):
        shop.run()
    in_memory_target.STORAGE.fault = lambda step, table: None
    select(shop, "id > 15")
    shop.run()
    assert ids() == [16, 17, 18, 19]


def test_a_condition_that_the_database_refuses_stops_its_table_alone(shop: Shop) -> None:
    fill(shop)
    select(shop, "nmae = 'n1'")
    with pytest.raises(NeedsUserError, match="nmae") as refused:
        shop.run()
    assert refused.value.code == "RPL-3531"
    shop.assert_equal("notes")
    select(shop, "name = 'n1'")
    shop.run()
    assert ids() == [1]


def test_a_condition_that_could_end_the_query_is_refused_before_anything_runs(shop: Shop) -> None:
    select(shop, "1) UNION SELECT * FROM notes WHERE (1")
    with pytest.raises(InvalidPipelineError, match="parenthesis"):
        shop.run()


def test_a_source_that_copies_whole_tables_only_refuses_a_condition(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SqliteSource, "filters_snapshots", False)
    select(shop, "id < 5")
    with pytest.raises(InvalidPipelineError) as refused:
        shop.run()
    assert [problem.code for problem in refused.value.problems] == ["RPL-2061"]
