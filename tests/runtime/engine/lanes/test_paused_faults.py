"""A target that fails while it is given a lane, before or after it took a step, gets each step once."""

from __future__ import annotations

import random
import threading
from typing import TYPE_CHECKING

import pytest

from replicator_sdk.errors import ReplicatorError, RetryableError
from tests.runtime.engine import in_memory_target
from tests.runtime.engine.apply.test_rejoining import at_work, count
from tests.runtime.engine.stream.test_paused_tables import alone, ask, change_more, files, three_runs
from tests.runtime.engine.test_run import Shop, _wait, fill, shop

if TYPE_CHECKING:
    from replicator_sdk import TableId

__all__ = ["shop"]


def test_a_lane_that_the_target_takes_slowly_holds_up_no_other(shop: Shop) -> None:
    fill(shop)
    shop.run()
    alone(shop, "pause", "customers", "notes")
    change_more(shop, 0)
    shop.run()
    customers, others = count("customers"), threading.Event()

    def fault(at: str, where: TableId) -> None:
        if at == "before" and where.table == "customers":
            others.wait(60)

    in_memory_target.STORAGE.fault = fault
    ask(shop, "resume", "customers", "notes")
    with at_work(shop):
        _wait(lambda: count("notes") == len(shop.source_rows("notes")), 50)
        assert count("customers") == customers
        others.set()
    three_runs(shop)
    assert files(shop) == []


@pytest.mark.parametrize("seed", range(2))
def test_random_faults_of_the_target_while_tables_are_resumed_make_no_difference(shop: Shop, seed: int) -> None:
    chance = random.Random(seed)
    shop.document |= {"batch": {"maxIntervalSeconds": 0.02, "maxRows": 5}}
    fill(shop)
    shop.run()
    left = 0

    def fault(at: str, where: TableId) -> None:
        nonlocal left
        if left and at in {"before", "after", "ddl", "ddl applied"} and chance.random() < 0.5:
            left -= 1
            raise RetryableError("the table is locked", code="RPL-4001")

    in_memory_target.STORAGE.fault = fault
    for number in range(3):
        alone(shop, "pause", "customers", "notes")
        for step in range(3):
            change_more(shop, number * 100 + step)
            shop.sql(f"ALTER TABLE customers ADD COLUMN c{number}_{step} TEXT DEFAULT 'd{number}'")
            change_more(shop, number * 100 + step + 50)
            if step:
                shop.run()
        if chance.random() < 0.5:
            shop.sql("DELETE FROM notes")
        left = chance.randrange(1, 6)
        ask(shop, "resume", "customers")
        ask(shop, "resume", "notes")
        try:
            shop.run()
        except ReplicatorError:
            left = 0
            shop.run()
        left = 0
        shop.run()
        shop.assert_equal()
    three_runs(shop)
    assert files(shop) == []
