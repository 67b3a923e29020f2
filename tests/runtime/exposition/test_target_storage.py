"""What a target says of its tables, and what a run has of Spark, as Prometheus is given it."""

from __future__ import annotations

from replicator_runtime.engine.tables.table_state import TableState
from replicator_runtime.exposition.catalogue import OTHER
from replicator_runtime.spark.executors import SparkUsage
from replicator_sdk import TableId
from replicator_sdk.discovery.table_storage import TableStorage
from tests.runtime.exposition.conftest import Shown, parsed

ORDERS, ITEMS = TableId("shop", "orders"), TableId("shop", "items")


def _replicated(shown: Shown, *tables: TableId) -> None:
    for table in tables:
        shown.progress.set_table(table, TableState.REPLICATING)


def _target(shown: Shown, table: str) -> dict[str, float | None]:
    return {
        name: shown.value(f"replicator_target_{name}", table=table)
        for name in ("files", "bytes", "rows", "deleted_rows")
    }


def test_the_last_of_what_a_target_says_of_a_table_counts(shown: Shown) -> None:
    _replicated(shown, ORDERS)
    shown.metrics.stored(ORDERS, TableStorage(9, 9000, 900, 300))
    shown.metrics.stored(ORDERS, TableStorage(4, 4096, 600, 0))
    assert _target(shown, str(ORDERS)) == {"files": 4, "bytes": 4096, "rows": 600, "deleted_rows": 0}


def test_what_a_target_does_not_know_or_say_is_missing_and_not_zero(shown: Shown) -> None:
    _replicated(shown, ORDERS, ITEMS)
    shown.metrics.stored(ORDERS, TableStorage(4, deleted_rows=1))
    assert _target(shown, str(ORDERS)) == {"files": 4, "bytes": None, "rows": None, "deleted_rows": 1}
    assert set(_target(shown, str(ITEMS)).values()) == {None}


def test_tables_beyond_the_limit_have_the_sum_of_theirs() -> None:
    shown = Shown(limit=2)
    tables = [TableId("shop", f"t{number}") for number in range(10)]
    _replicated(shown, *tables)
    for number, table in enumerate(tables):
        shown.metrics.stored(table, TableStorage(1, 1000 * number, 100, number))
    assert {dict(labels)["table"] for name, labels in parsed(shown.text) if name.startswith("replicator_target_")} == {
        "shop.t0",
        "shop.t1",
        OTHER,
    }
    assert _target(shown, OTHER) == {"files": 8, "bytes": 44_000, "rows": 800, "deleted_rows": 44}


def test_a_table_takes_what_was_said_of_it_to_its_new_name(shown: Shown) -> None:
    _replicated(shown, ORDERS)
    shown.metrics.stored(ORDERS, TableStorage(4, 4096, 100, 25))
    shown.progress.rename_tables({ORDERS: ITEMS})
    shown.metrics.rename({ORDERS: ITEMS})
    assert _target(shown, str(ORDERS))["files"] is None
    assert _target(shown, str(ITEMS))["files"] == 4


def test_nothing_is_shown_of_tables_that_are_replicated_no_more(shown: Shown) -> None:
    """Neither of one that is forgotten, nor of one that the target was asked about once."""
    _replicated(shown, ORDERS)
    shown.metrics.stored(ORDERS, TableStorage(4, 4096, 100, 25))
    shown.metrics.stored(ITEMS, TableStorage(1, 1, 1, 0))
    assert "shop.items" not in shown.text
    shown.metrics.forget_gauges(ORDERS)
    assert _target(shown, str(ORDERS))["files"] is None
    shown.metrics.forget_others({ORDERS})
    assert not shown.metrics.values().storage


def test_spark_is_missing_while_the_run_has_no_session(shown: Shown) -> None:
    assert "replicator_spark" not in shown.text
    shown.spark.usage = SparkUsage(3, 12, 7)
    assert [shown.value(f"replicator_spark_{name}") for name in ("executors", "cores", "running_tasks")] == [3, 12, 7]
