"""The target maintains its tables at its interval, in both kinds of stream, and never beside an apply."""

from __future__ import annotations

import itertools
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from replicator_runtime.engine.apply.rejoining import Rejoining
from replicator_sdk.testing.in_memory.target import MemoryConsumer, MemoryTarget
from tests.runtime.engine import in_memory_target
from tests.runtime.engine.apply.test_rejoining import at_work, fails
from tests.runtime.engine.in_memory_target import InMemoryConsumer, InMemoryTarget
from tests.runtime.engine.slices.test_distributed_stream import Pair
from tests.runtime.engine.test_run import Shop, fill, shop

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from replicator_sdk import DeltaTarget, TableId

__all__ = ["shop"]


class Watch:
    """What was maintained, and whether an apply was under way then."""

    def __init__(self, patch: pytest.MonkeyPatch, target: type[DeltaTarget], consumer: type, apply: str) -> None:
        self.maintained: list[list[str]] = []
        self.met = False
        self._applying = 0
        true_apply = getattr(consumer, apply)

        def watched(consumer: Any, changes: Any) -> Any:
            self._applying += 1
            try:
                time.sleep(0.05)
                return true_apply(consumer, changes)
            finally:
                self._applying -= 1

        patch.setattr(consumer, apply, watched)
        patch.setattr(target, "maintain", self._maintain)
        patch.setattr(target, "maintenance_interval_seconds", 2.0)

    def _maintain(self, context: object, tables: Sequence[TableId]) -> None:
        for _ in range(10):
            self.met = self.met or self._applying > 0
            time.sleep(0.02)
        self.maintained.append([table.table for table in tables])


def test_maintenance_comes_although_every_attempt_is_shorter_than_its_interval(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(shop)
    shop.run()
    watch = Watch(monkeypatch, InMemoryTarget, InMemoryConsumer, "apply_batch")
    began: list[float] = []
    init = Rejoining.__init__

    def note(self: Rejoining, *arguments: Any) -> None:
        began.append(time.monotonic())
        init(self, *arguments)

    monkeypatch.setattr(Rejoining, "__init__", note)
    fails("before", "notes", lambda: OSError("locked"))
    shop.sql("INSERT INTO notes VALUES ('held')")
    with at_work(shop):
        for number in range(100, 400):
            shop.sql(f"INSERT INTO customers VALUES ({number}, 'x')")
            if watch.maintained:
                break
            time.sleep(0.05)
    in_memory_target.STORAGE.fault = lambda at, where: None
    assert watch.maintained[0] == ["customers"]
    assert not watch.met
    assert max(b - a for a, b in itertools.pairwise(began)) < 2, "the attempts were short"


def test_executors_slices_and_maintenance_take_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pair = Pair(tmp_path, 3)
    pair.shop.trade()
    pair.run()
    watch = Watch(monkeypatch, MemoryTarget, MemoryConsumer, "apply_slice")
    stop = threading.Event()
    thread = threading.Thread(target=lambda: pair.run(until_current=False, stop=stop))
    thread.start()
    try:
        for _ in range(200):
            pair.shop.trade(5)
            if len(watch.maintained) > 1:
                break
            time.sleep(0.1)
    finally:
        stop.set()
        thread.join(30)
    assert watch.maintained[0] == ["customers", "notes", "stock"]
    assert not watch.met
