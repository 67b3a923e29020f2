"""Metrics have the documented names, prefixed with the target's, and lose nothing between threads."""

from __future__ import annotations

import json
import threading

from replicator_runtime.observability.metrics import MetricsRegistry
from replicator_sdk import TableId

ORDERS, ITEMS = TableId("shop", "orders"), TableId("shop", "items")


def test_names_are_prefixed_with_the_target_and_totals_cover_all_tables() -> None:
    metrics = MetricsRegistry("delta")
    metrics.count("dml.insert", 3, table=ORDERS)
    metrics.count("dml.insert", 2, table=ITEMS)
    metrics.count("ddl")
    metrics.gauge("dml.latency.seconds", 1.5, table=ORDERS)
    metrics.gauge("dml.latency.seconds", 0.5, table=ORDERS)
    assert metrics.snapshot() == {
        "counters": {"delta.ddl": 1, "delta.dml.insert": 5},
        "gauges": {},
        "tables": {
            "shop.items": {"counters": {"delta.dml.insert": 2}, "gauges": {}},
            "shop.orders": {"counters": {"delta.dml.insert": 3}, "gauges": {"delta.dml.latency.seconds": 0.5}},
        },
    }
    assert json.dumps(metrics.snapshot())
    assert (metrics.total("dml.insert"), metrics.total("dml.insert", table=ITEMS), metrics.total("x")) == (5, 2, 0)


def test_counts_of_many_threads_add_up_while_snapshots_are_taken() -> None:
    metrics = MetricsRegistry("delta")

    def count() -> None:
        for _ in range(2000):
            metrics.count("dml.update", table=ORDERS)

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        metrics.snapshot()
    assert metrics.snapshot()["tables"]["shop.orders"]["counters"]["delta.dml.update"] == 8000


def test_tables_that_exchange_names_keep_their_numbers() -> None:
    metrics = MetricsRegistry("delta")
    metrics.count("dml.insert", 3, table=ORDERS)
    metrics.count("dml.insert", 2, table=ITEMS)
    metrics.gauge("dml.latency.seconds", 1.5, table=ORDERS)
    metrics.rename({ORDERS: ITEMS, ITEMS: ORDERS})
    assert metrics.snapshot()["tables"] == {
        "shop.items": {"counters": {"delta.dml.insert": 3}, "gauges": {"delta.dml.latency.seconds": 1.5}},
        "shop.orders": {"counters": {"delta.dml.insert": 2}, "gauges": {}},
    }
    assert metrics.total("dml.insert") == 5


def test_a_gauge_of_the_whole_has_its_last_value() -> None:
    metrics = MetricsRegistry("delta")
    assert metrics.value("source.valid_through") is None
    metrics.gauge("source.valid_through", 1.0)
    metrics.gauge("source.valid_through", 2.0)
    assert metrics.value("source.valid_through") == 2.0
