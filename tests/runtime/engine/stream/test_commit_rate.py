"""How many commits a table has to which a few rows come all the time, measured on a clock that runs faster."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from replicator_runtime.engine.batching import batch_interval
from tests.runtime.engine import in_memory_target
from tests.runtime.engine.test_run import Shop, fill, shop
from tests.services.threads import beside

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

__all__ = ["shop"]
_FASTER = 20


def commits(shop: Shop, rows: int) -> int:
    """The commits of `customers` while a row comes each twentieth of a second, which counts as a second."""
    shop.document["stages"][0]["plugin"]["properties"]["pollIntervalSeconds"] = 0.01
    shop.run()
    before = _customers().commits
    with beside(lambda stop: shop.run(until_current=False, stop=stop)):
        for key in range(rows):
            shop.sql(f"INSERT INTO customers VALUES ({10_000 + key}, 'one')")
            time.sleep(1 / _FASTER)
    shop.assert_equal()
    return _customers().commits - before


def _customers() -> in_memory_target.InMemoryTable:
    [table] = [t for t in in_memory_target.STORAGE.tables.values() if t.schema.table.table == "customers"]
    return table


def test_a_row_a_second_has_less_than_half_of_the_commits(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, record_property: Callable[[str, object], None]
) -> None:
    fill(shop)
    for name in ("SHORTEST", "LONGEST"):  # what counts as quiet stays, so that a busy machine is no quiet source
        monkeypatch.setattr(batch_interval, name, getattr(batch_interval, name) / _FASTER)
    monkeypatch.setattr(batch_interval, "_FEW_A_SECOND", batch_interval._FEW_A_SECOND * _FASTER)
    monkeypatch.setattr(batch_interval, "EARLY_COMMITS", 0)  # as when the budget is used up
    shop.document["batch"] = {"maxIntervalSeconds": 1 / _FASTER}
    rows = 200
    each_second = commits(shop, rows)
    shop.sql("DELETE FROM customers WHERE id >= 10000")
    del shop.document["batch"]
    gathered = commits(shop, rows)
    record_property("commits of 200 rows", f"{each_second}, gathered {gathered}")
    assert gathered < min(each_second, rows / 2), (each_second, gathered)
