"""The target maintains its tables beside both kinds of stream, and never beside an apply that a step holds."""

from __future__ import annotations

import itertools
import statistics
import threading
import time
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

import pytest

from replicator_runtime.engine.apply.rejoining import Rejoining
from replicator_sdk import AppliesHeld
from replicator_sdk.errors import FencedError
from replicator_sdk.testing.in_memory.target import MemoryConsumer, MemoryTarget
from tests.runtime.engine import in_memory_target
from tests.runtime.engine.apply.test_rejoining import at_work, count, fails
from tests.runtime.engine.in_memory_target import InMemoryConsumer, InMemoryTarget
from tests.runtime.engine.maintenance.maintained_target import Maintained
from tests.runtime.engine.slices.test_distributed_stream import Pair
from tests.runtime.engine.test_run import Shop, _wait, fill, shop

if TYPE_CHECKING:
    from pathlib import Path

    from replicator_sdk import TableId

__all__ = ["shop"]


def test_maintenance_comes_although_every_attempt_is_shorter_than_its_interval(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(shop)
    shop.run()
    watch = Maintained(monkeypatch, InMemoryTarget, every=2.0)
    watch.watch(monkeypatch, InMemoryConsumer, "apply_batch")
    began: list[float] = []
    init = Rejoining.__init__

    def note(self: Rejoining, *arguments: Any) -> None:
        began.append(time.monotonic())
        init(self, *arguments)

    monkeypatch.setattr(Rejoining, "__init__", note)
    fails("before", "notes", lambda: OSError("locked"))
    shop.sql("INSERT INTO notes VALUES ('held')")
    numbers = itertools.count(100)

    def maintained() -> bool:
        shop.sql(f"INSERT INTO customers VALUES ({next(numbers)}, 'x')")
        return watch.steps.count("customers") > 1

    with at_work(shop):
        _wait(maintained)
    in_memory_target.STORAGE.fault = lambda at, where: None
    assert not watch.met
    assert statistics.median(b - a for a, b in itertools.pairwise(began)) < 2, "the attempts were short"


@pytest.mark.parametrize("holds", list(AppliesHeld))
def test_no_table_is_applied_that_a_step_holds(shop: Shop, monkeypatch: pytest.MonkeyPatch, holds: AppliesHeld) -> None:
    """Changes come all the time, so that an apply is under way nearly always; steps come nevertheless."""
    fill(shop)
    shop.run()
    watch = Maintained(monkeypatch, InMemoryTarget, every=0.3, holds=holds)
    watch.watch(monkeypatch, InMemoryConsumer, "apply_batch")
    watch.step = lambda table: time.sleep(0.1)
    numbers = itertools.count(100)

    def maintained() -> bool:
        number = next(numbers)
        shop.sql(f"INSERT INTO customers VALUES ({number}, 'x')", f"INSERT INTO notes VALUES ('{number}')")
        is_beside = bool(watch.beside) or holds is not AppliesHeld.NONE
        return len(watch.steps) > 8 and set(watch.steps) == {"customers", "notes"} and is_beside

    with at_work(shop):
        _wait(maintained)
    assert not watch.met
    assert bool(watch.beside) == (holds is AppliesHeld.NONE)
    shop.run()
    shop.assert_equal()


def test_other_tables_are_applied_while_one_is_maintained(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(shop)
    shop.run()
    entered, leave = threading.Event(), threading.Event()
    watch = Maintained(monkeypatch, InMemoryTarget, every=0.2)

    def step(table: TableId) -> None:
        if table.table == "notes":
            entered.set()
            leave.wait(240)

    watch.step = step
    with at_work(shop):
        assert entered.wait(120)
        shop.sql("INSERT INTO notes VALUES ('waits')", "INSERT INTO customers VALUES (1000, 'goes on')")
        _wait(lambda: count("customers") == 21)
        assert count("notes") == 20
        leave.set()
        _wait(lambda: count("notes") == 21)


def test_a_table_whose_maintenance_fails_is_shown_and_the_others_are_maintained(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(shop)
    shop.run()
    watch = Maintained(monkeypatch, InMemoryTarget, every=0.2)
    failed: list[str] = []

    def step(table: TableId) -> None:
        if table.table == "customers":
            failed.append(table.table)
            raise OSError("the folder is gone")

    watch.step = step
    with at_work(shop):
        _wait(lambda: len(failed) > 1 and watch.steps.count("notes") > 2)
        shop.sql("INSERT INTO customers VALUES (1000, 'goes on')")
        _wait(lambda: count("customers") == 21)
    assert set(watch.steps) == {"notes"}
    status = shop.status()
    shown = {table["table"]: table["maintenance"]["tidy"] for table in status["tables"]}
    assert "OSError" in shown["customers"]["error"]
    assert shown["customers"]["doneAt"] is None
    assert shown["notes"]["error"] is None
    assert shown["notes"]["doneAt"] is not None


def test_a_run_whose_maintenance_is_fenced_ends(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(shop)
    shop.run()
    watch = Maintained(monkeypatch, InMemoryTarget, every=0.1)

    def step(table: TableId) -> None:
        raise FencedError("a newer run writes here", code="T-1", hint="", table=str(table))

    watch.step = step
    with pytest.raises(FencedError):
        shop.run(until_current=False)


def test_a_fenced_step_ends_the_run_also_when_its_answer_comes_late(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The step is over for a moment before its thread says how it ended; no other step begins until then."""
    fill(shop)
    shop.run()
    watch = Maintained(monkeypatch, InMemoryTarget, every=0.1)
    answer = Future.set_exception

    def late(self: Future[Any], error: BaseException | None) -> None:
        time.sleep(1)
        answer(self, error)

    def step(table: TableId) -> None:
        if not failed:
            failed.append(table)
            raise FencedError("a newer run writes here", code="T-1", hint="", table=str(table))

    failed: list[TableId] = []
    watch.step = step
    monkeypatch.setattr(Future, "set_exception", late)
    stop = threading.Event()
    timer = threading.Timer(120, stop.set)
    timer.start()
    try:
        with pytest.raises(FencedError):
            shop.run(until_current=False, stop=stop)
    finally:
        timer.cancel()


def test_a_run_that_is_to_stop_ends_after_the_step_under_way(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"extra_{number}" for number in range(60)]
    shop.sql(*(f"CREATE TABLE {name} (id INTEGER PRIMARY KEY)" for name in names))
    shop.run()
    watch = Maintained(monkeypatch, InMemoryTarget, every=0.01)
    begun, stop = threading.Event(), threading.Event()

    def step(table: TableId) -> None:
        begun.set()
        stop.wait(120)

    watch.step = step
    thread = threading.Thread(target=lambda: shop.run(until_current=False, stop=stop))
    thread.start()
    assert begun.wait(120)
    stop.set()
    thread.join(120)
    assert not thread.is_alive()
    assert len(watch.steps) < 10


def test_executors_slices_and_maintenance_take_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pair = Pair(tmp_path, 3)
    pair.shop.trade()
    pair.run()
    watch = Maintained(monkeypatch, MemoryTarget, every=1.0)
    watch.watch(monkeypatch, MemoryConsumer, "apply_slice")
    watch.step = lambda table: time.sleep(0.1)
    stop = threading.Event()
    thread = threading.Thread(target=lambda: pair.run(until_current=False, stop=stop))
    thread.start()
    try:

        def maintained() -> bool:
            pair.shop.trade(5)
            return len(watch.steps) > 5 and set(watch.steps) == {"customers", "notes", "stock"}

        _wait(maintained)
    finally:
        stop.set()
        thread.join(120)
    assert not watch.met
