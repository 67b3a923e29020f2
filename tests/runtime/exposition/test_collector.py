"""What Prometheus is given of a run: the documented names, bounded labels, values that are true at that moment."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from replicator_runtime.engine.tables.table_state import TableState
from replicator_runtime.engine.views.source_view import SourceView
from replicator_runtime.exposition.catalogue import METRICS, OTHER
from replicator_runtime.spark.executors import SparkUsage
from replicator_sdk import TableId
from replicator_sdk.discovery.source_health import SourceHealth
from replicator_sdk.discovery.table_storage import TableStorage
from replicator_sdk.errors import DataError
from tests.runtime.exposition.conftest import Shown, parsed

PAGE = Path(__file__).parents[3] / "docs" / "metrics.md"
ORDERS, ITEMS = TableId("shop", "orders", "public"), TableId("shop", "items", "public")

FRESHNESS: Any = SimpleNamespace(
    figures=(
        SimpleNamespace(table=None, ratio=0.25, budget_left=-3.0),
        SimpleNamespace(table=ORDERS, ratio=0.5, budget_left=2.0),
    )
)


def busy(shown: Shown) -> Shown:
    """The run has a value of every metric."""
    progress, metrics = shown.progress, shown.metrics
    progress.set_phase("streaming")
    progress.set_table(ORDERS, TableState.SNAPSHOTTING)
    progress.snapshot_chunks(ORDERS, 10, 1, 4)
    progress.set_table(ITEMS, TableState.PAUSED)
    progress.set_pause(ITEMS, time.time(), resuming=False, copied_again=False)
    progress.set_lane(ITEMS, 5, 512, time.time() - 60)
    metrics.count_all({("dml.insert", ORDERS): 10, ("snapshot.rows", ORDERS): 10})
    for name in ("dml.insert", "dml.update", "dml.delete", "ddl", "failures.RPL-4401", "retries", "delta.files"):
        metrics.count(name, 2, table=ORDERS)
    metrics.gauge("dml.unmatched", 1, table=ORDERS)
    metrics.stored(ORDERS, TableStorage(4, 4096, 100, 25))
    shown.spark.usage = SparkUsage(3, 12, 7)
    metrics.took("apply", 0.5)
    assert shown.collector.run is not None
    shown.collector.run.freshness = FRESHNESS
    health = SourceHealth(time.time(), 1, 2, 3, 4, 3600.0, 60.0, "retention.ms", 5.0)
    progress.answered(SourceView(time.time(), health, 0.5, 60.0))
    progress.read(False, int((time.time() - 3) * 1e6), None, 4096, int((time.time() - 2) * 1e6))
    return shown


def test_the_page_has_each_metric_that_a_scrape_gives_with_its_type_labels_and_meaning(shown: Shown) -> None:
    rows = re.findall(r"^\| `(replicator_\w+)` \| (\w+) \| (.*?) \| (.*) \|$", PAGE.read_text("utf-8"), re.MULTILINE)
    documented = {name: (kind, tuple(re.findall(r"`(\w+)`", labels)), text) for name, kind, labels, text in rows}
    assert len(rows) == len(documented)
    assert documented == {m.name: (m.kind, m.labels, m.meaning) for m in METRICS}
    text = busy(shown).text
    scraped = dict(re.findall(r"^# TYPE (\w+) (\w+)$", text, re.MULTILINE))
    assert scraped == {name: kind for name, (kind, _, _) in documented.items()}
    for name, labels in parsed(text):
        assert {label for label, _ in labels} == set(documented[re.sub(r"_(count|sum)$", "", name)][1]), name
    assert 'pipeline="shop"' in text
    assert (shown.value("replicator_slo_ratio", table=str(ORDERS)), shown.value("replicator_slo_ratio", table="")) == (
        0.5,
        0.25,
    )


def test_rows_of_copies_are_no_changes_of_the_log(shown: Shown) -> None:
    shown.metrics.count_all({("dml.insert", ORDERS): 10, ("snapshot.rows", ORDERS): 10})
    shown.metrics.count("dml.insert", 3, table=ORDERS)
    assert shown.value("replicator_changes_total", table=str(ORDERS), op="insert") == 3
    assert shown.value("replicator_snapshot_rows_total", table=str(ORDERS)) == 10


def test_what_is_counted_of_no_table_is_counted_once(shown: Shown) -> None:
    shown.metrics.count("failures.RPL-4401", 2, table=ORDERS)
    shown.metrics.count("failures.RPL-4401")
    assert shown.value("replicator_failures_total", table="", code="RPL-4401") == 1
    assert shown.value("replicator_failures_total", table=str(ORDERS), code="RPL-4401") == 2


def test_tables_beyond_the_limit_share_series_and_their_lag_is_the_largest() -> None:
    shown = Shown(limit=3)
    for number in range(10):
        table = TableId("shop", f"t{number}")
        shown.progress.set_table(table, TableState.FAILING if number > 7 else TableState.REPLICATING)
        shown.progress.applied(table, 1, int((time.time() - 100 * number) * 1e6))
        shown.metrics.count("dml.update", number, table=table)
    tables = {value for _, labels in parsed(shown.text) for label, value in labels if label == "table"}
    assert tables == {"shop.t0", "shop.t1", "shop.t2", OTHER}
    assert shown.value("replicator_changes_total", table=OTHER, op="update") == sum(range(3, 10))
    assert shown.value("replicator_table_state", table=OTHER, state="FAILING") == 2
    assert (shown.value("replicator_table_lag_seconds", table=OTHER) or 0) >= 900


def test_what_was_counted_of_dropped_tables_is_shared_and_their_places_are_taken_by_others() -> None:
    """However many tables come and go: neither the series nor what is kept of them grows, and the sum over all tables stays true."""
    shown = Shown(limit=2)
    counted = 0
    for number in range(50):
        table = TableId("shop", f"t{number}")
        shown.metrics.count("dml.update", 3, table=table)
        counted += 3
        assert shown.value("replicator_changes_total", table=str(table), op="update") == 3, (
            "the place of one that is gone"
        )
        shown.metrics.forget_others({table})
        for _ in range(2):
            series = [labels for name, labels in parsed(shown.text) if name == "replicator_changes_total"]
            assert len(series) <= 2
            assert shown.value("replicator_changes_total", table=OTHER, op="update") == (counted - 3 or None)
    assert len(shown.metrics.values().counters) == 2
    assert len(shown.collector._labels) <= 2


def test_what_tables_beyond_the_limit_share_never_falls() -> None:
    """Not when one of them is dropped or renamed, nor when a table with series of its own is dropped and leaves its place."""
    shown = Shown(limit=1)
    extra, renamed, new = (TableId("shop", name) for name in ("extra", "renamed", "new"))
    shown.metrics.count("dml.update", 5, table=ORDERS)
    assert shown.value("replicator_changes_total", table=str(ORDERS), op="update") == 5
    shown.metrics.count("dml.update", 7, table=ITEMS)
    shown.metrics.count("dml.update", 11, table=extra)
    shared = [shown.value("replicator_changes_total", table=OTHER, op="update")]
    changes: tuple[Callable[[], None], ...] = (
        lambda: shown.metrics.forget_others({ITEMS, extra}),
        lambda: shown.metrics.rename({ITEMS: renamed}),
        lambda: shown.metrics.forget_others({renamed}),
        lambda: shown.metrics.count("dml.update", 2, table=new),
    )
    for change in changes:
        change()
        shared += [shown.value("replicator_changes_total", table=OTHER, op="update") for _ in range(3)]
    assert shared == [18, *(23,) * 12]
    assert shown.value("replicator_changes_total", table=str(new), op="update") == 2
    assert shown.value("replicator_changes_total", table=str(renamed), op="update") is None


def test_a_table_keeps_its_series_when_others_come_before_it() -> None:
    shown = Shown(limit=1)
    shown.progress.set_table(ORDERS, TableState.REPLICATING)
    assert shown.value("replicator_table_state", table=str(ORDERS), state="REPLICATING") == 1
    shown.progress.set_table(ITEMS, TableState.REPLICATING)
    assert shown.value("replicator_table_state", table=str(ORDERS), state="REPLICATING") == 1
    assert shown.value("replicator_table_state", table=OTHER, state="REPLICATING") == 1


def test_an_unknown_lag_has_no_sample(shown: Shown) -> None:
    shown.progress.set_table(ORDERS, TableState.REPLICATING)
    assert shown.value("replicator_lag_seconds") is None
    assert shown.value("replicator_table_lag_seconds", table=str(ORDERS)) is None


def test_neither_messages_nor_values_of_errors_are_shown(shown: Shown) -> None:
    canary = "canary-7f3a"
    shown.progress.set_table(ORDERS, TableState.FAILING, DataError(f"value {canary}", code="RPL-4401", hint=canary))
    shown.progress.source_error = ConnectionError(canary)
    shown.progress.set_phase("retrying", canary)
    assert shown.value("replicator_failing") == 1
    assert canary not in shown.text


def test_names_of_tables_are_escaped(shown: Shown) -> None:
    strange = TableId("shop", 'o"r\nd\\ers')
    shown.progress.set_table(strange, TableState.REPLICATING)
    assert shown.value("replicator_table_state", table=str(strange), state="REPLICATING") == 1


def test_before_the_run_has_begun_its_phase_is_shown(shown: Shown) -> None:
    shown.collector.run = None
    assert shown.value("replicator_phase", phase="starting") == 1
    assert shown.value("replicator_sequence_number") is None


def test_rows_of_copies_are_taken_off_where_they_were_counted(shown: Shown) -> None:
    """What a dropped table had is shared after a restart; the copies of the others are not taken off that."""
    shown.metrics.count_gone({"dml.insert": 15, "snapshot.rows": 10})
    shown.metrics.count_all({("dml.insert", ORDERS): 1003, ("snapshot.rows", ORDERS): 1000})
    assert shown.value("replicator_changes_total", table=OTHER, op="insert") == 5
    assert shown.value("replicator_changes_total", table=str(ORDERS), op="insert") == 3
    assert shown.value("replicator_changes_total", table="", op="insert") is None
    assert shown.value("replicator_snapshot_rows_total", table=OTHER) == 10
