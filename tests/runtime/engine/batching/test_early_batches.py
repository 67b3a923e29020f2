"""A change that comes when nothing else does is applied at once; a backlog is applied in large batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from replicator_runtime.engine.batching import batch_interval
from replicator_runtime.engine.run_state.progress import Progress
from replicator_runtime.engine.stream import stream
from tests.runtime.engine import in_memory_target
from tests.runtime.engine.test_run import Shop, fill, shop
from tests.services.threads import beside
from tests.waits import until

if TYPE_CHECKING:
    import pytest

__all__ = ["shop"]


def _customers() -> in_memory_target.InMemoryTable:
    [table] = [t for t in in_memory_target.STORAGE.tables.values() if t.schema.table.table == "customers"]
    return table


def test_changes_that_come_one_by_one_wait_for_no_others(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(shop)
    shop.run()
    for name in ("SHORTEST", "LONGEST"):  # a change that waited would wait for ever
        monkeypatch.setattr(batch_interval, name, 3600.0)
    monkeypatch.setattr(batch_interval, "_ALONE_SECONDS", 0.0)
    before = _customers().commits
    with beside(lambda stop: shop.run(until_current=False, stop=stop)):
        for key in range(3):
            shop.sql(f"INSERT INTO customers VALUES ({10_000 + key}, 'one')")
            until(lambda key=key: _customers().commits > before + key, "it is applied")  # type: ignore[misc]
    shop.assert_equal()


def test_what_is_old_at_the_source_is_gathered(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(shop)
    shop.run()
    before = _customers().commits
    for key in range(50):
        shop.sql(f"INSERT INTO customers VALUES ({10_000 + key}, 'one')")
    monkeypatch.setattr(stream, "_NEW_SECONDS", 0.0)
    monkeypatch.setattr(batch_interval, "SHORTEST", 3600.0)
    monkeypatch.setattr(batch_interval, "LONGEST", 3600.0)
    progress = Progress()
    with beside(lambda stop: shop.run(until_current=False, stop=stop, progress=progress)):
        until(lambda: progress.snapshot().waiting_bytes > 0, "they wait")
    shop.run()
    assert _customers().commits - before <= 2  # that of the stop, and of the run after it
    shop.assert_equal()
