"""Runs that are shorter than any interval maintain their tables, for a bounded time each."""

from __future__ import annotations

import threading
import time
from collections import Counter
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from replicator_runtime.config import build_pipeline
from replicator_runtime.engine.maintenance import maintenance
from replicator_runtime.engine.maintenance.maintenance_run import Wanted, run_maintenance
from replicator_sdk import DeltaTarget, failpoint
from replicator_sdk.errors import ConfigError
from tests.runtime.engine.in_memory_target import InMemoryTarget
from tests.runtime.engine.maintenance.maintained_target import Maintained
from tests.runtime.engine.test_run import Host, Shop, fill, shop

if TYPE_CHECKING:
    from replicator_sdk import TableId

__all__ = ["shop"]


def test_runs_shorter_than_the_interval_maintain_each_table_at_its_interval(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """31 runs, one a minute: tables are due every ten minutes."""
    watch = Maintained(monkeypatch, InMemoryTarget, every=600.0)
    real, minutes = time.time, 0
    monkeypatch.setattr("replicator_runtime.engine.maintenance.due_times.time.time", lambda: real() + 60 * minutes)
    fill(shop)
    for number in range(31):
        minutes = number
        shop.sql(f"INSERT INTO customers VALUES ({1000 + number}, 'x')")
        shop.run()
    assert set(watch.steps) == {"customers", "notes"}
    assert all(2 <= count <= 4 for count in Counter(watch.steps).values()), watch.steps


def test_a_run_ends_when_its_time_for_maintenance_is_over_and_the_next_one_goes_on(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.sql(*(f"CREATE TABLE extra_{number} (id INTEGER PRIMARY KEY)" for number in range(8)))
    shop.run()
    watch = Maintained(monkeypatch, InMemoryTarget, every=1.0)
    monkeypatch.setattr("replicator_runtime.engine.maintenance.beside_stream.BesideStream.poll", lambda *_: None)
    shop.run()
    time.sleep(1.5)
    watch.steps.clear()
    now = 0.0

    def step(table: TableId) -> None:
        nonlocal now
        now += 0.2

    watch.step = step
    monkeypatch.setattr(maintenance, "time", SimpleNamespace(monotonic=lambda: now, time=time.time))
    shop.document["maintenance"] = {"maxSecondsAtEnd": 0.5}
    shop.run()
    assert len(watch.steps) == 3
    first = set(watch.steps)
    shop.run()
    assert not first & set(watch.steps[len(first) :])


def test_a_run_that_is_to_do_none_at_its_end_does_none(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.document["maintenance"] = {"maxSecondsAtEnd": 0}
    watch = Maintained(monkeypatch, InMemoryTarget, every=0.05)
    monkeypatch.setattr("replicator_runtime.engine.maintenance.beside_stream.BesideStream.poll", lambda *_: None)
    shop.run()
    time.sleep(0.2)
    shop.run()
    assert watch.steps == []


def test_maintenance_of_a_pipeline_that_never_ran_leaves_nothing(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    Maintained(monkeypatch, InMemoryTarget, every=0.05)
    pipeline = build_pipeline(shop.document, host=Host())  # type: ignore[arg-type]
    assert run_maintenance(pipeline, Wanted(also_early=True)) == []
    with pytest.raises(ConfigError, match="RPL-1203"):
        run_maintenance(pipeline, Wanted(tables=["notes"]))
    with pytest.raises(ConfigError, match="RPL-1204"):
        run_maintenance(pipeline, Wanted(tasks=["polish"]))
    assert not (shop.path.parent / "state").exists()


def test_a_stop_ends_the_maintenance_at_the_end_of_a_run(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.sql(*(f"CREATE TABLE extra_{number} (id INTEGER PRIMARY KEY)" for number in range(30)))
    watch = Maintained(monkeypatch, InMemoryTarget, every=0.05)
    stop = threading.Event()
    shop.run()
    time.sleep(0.2)
    watch.steps.clear()

    def step(table: TableId) -> None:
        time.sleep(0.1)
        stop.set()

    watch.step = step
    shop.run(stop=stop)
    assert len(watch.steps) < 5


def test_a_step_that_was_cut_off_or_not_noted_is_done_again(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.run()
    for point in ("engine.maintenance.before", "engine.maintenance.after"):
        watch = Maintained(monkeypatch, InMemoryTarget, every=0.05)
        time.sleep(0.2)
        failpoint.arm(f"{point}=raise")
        shop.run()
        failpoint.arm("")
        watch.steps.clear()
        time.sleep(0.2)
        shop.run()
        assert set(watch.steps) == {"customers", "notes"}
        shop.assert_equal()


def test_a_target_with_the_older_method_is_maintained_table_by_table(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Plugins that override `maintain` and its interval go on working."""
    maintained: list[list[TableId]] = []
    assert InMemoryTarget.maintain is DeltaTarget.maintain
    monkeypatch.setattr(InMemoryTarget, "maintenance_interval_seconds", 0.05)
    monkeypatch.setattr(InMemoryTarget, "maintain", lambda target, context, tables: maintained.append(list(tables)))
    shop.run()
    time.sleep(0.2)
    shop.run()
    assert {tuple(t.table for t in tables) for tables in maintained} == {("customers",), ("notes",)}
