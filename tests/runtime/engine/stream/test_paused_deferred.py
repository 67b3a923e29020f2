"""A target that commits in its own time gets a paused table's lane whole and once, and what is in a lane waits for no commit of it."""

from __future__ import annotations

import random
import threading
from typing import TYPE_CHECKING

import pytest

from replicator_runtime.engine.apply import lane_drains
from replicator_runtime.engine.apply.lane_applier import LaneApplier
from replicator_sdk import failpoint
from replicator_sdk.errors import ReplicatorError
from tests.runtime.engine import deferred_target, in_memory_target
from tests.runtime.engine.in_memory_target import TargetStorage
from tests.runtime.engine.stream.test_paused_tables import ask, change_more, files
from tests.runtime.engine.stream.test_pending_acks import DeferredShop, endless, wait_for
from tests.runtime.engine.test_run import fill

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[DeferredShop]:
    in_memory_target.STORAGE = TargetStorage()
    deferred_target.COMMITS_BY_ITSELF.clear()
    made = DeferredShop(tmp_path)
    made.document["batch"] = {"maxIntervalSeconds": 0.02, "maxRows": 5}
    fill(made)
    made.run()
    yield made
    failpoint.arm("")
    deferred_target.COMMITS_BY_ITSELF.clear()


def paused(shop: DeferredShop) -> None:
    """Pause notes, and let changes come."""
    ask(shop, "pause", "notes")
    for number in range(3):
        change_more(shop, number)
        shop.run()
    assert files(shop)


def test_a_lane_is_durable_at_the_target_before_its_files_are_deleted(shop: DeferredShop) -> None:
    paused(shop)
    ask(shop, "resume", "notes")
    steps = noted_steps()
    shop.run()
    shop.assert_equal()
    assert files(shop) == []
    assert not is_loaded("notes", steps), "the lane is enough"


def noted_steps() -> list[tuple[str, str]]:
    """What is done at the target from now on, and to which table."""
    steps: list[tuple[str, str]] = []
    in_memory_target.STORAGE.fault = lambda at, table: steps.append((at, table.table))
    return steps


def is_loaded(table: str, steps: list[tuple[str, str]]) -> bool:
    return ("load", table) in steps


def test_without_waiting_for_the_commit_a_lane_would_be_lost_and_the_table_copied_again(
    shop: DeferredShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The twin."""
    paused(shop)
    ask(shop, "resume", "notes")
    monkeypatch.setattr(lane_drains, "_settle", lambda consumer, step: None)
    steps = noted_steps()
    shop.run()
    assert is_loaded("notes", steps)


def test_what_is_in_a_lane_moves_the_offset_without_a_commit_of_its_table(shop: DeferredShop) -> None:
    paused(shop)
    saved, stop = shop.offset(), threading.Event()
    thread = endless(shop, stop)
    try:
        shop.sql("INSERT INTO notes VALUES ('in the lane')")
        wait_for(lambda: shop.offset() != saved)
        saved = shop.offset()
        shop.sql("INSERT INTO customers (name) VALUES ('taken')", "INSERT INTO notes VALUES ('in the lane')")
        wait_for(lambda: len(files(shop)) > 1)
        assert shop.offset() == saved, "the other table's changes are not durable"
        deferred_target.COMMITS_BY_ITSELF.append(lambda _: True)
        wait_for(lambda: shop.offset() != saved)
    finally:
        stop.set()
        thread.join(120)
    ask(shop, "resume", "notes")
    shop.run()
    shop.assert_equal()


def test_a_lane_whose_table_is_taken_for_deferred_holds_the_run_up(
    shop: DeferredShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The twin: nothing says that the target made durable what it was never given."""
    monkeypatch.setattr(LaneApplier, "is_deferred", lambda self, table: True)
    with pytest.raises(ReplicatorError, match="RPL-9012"):
        paused(shop)


@pytest.mark.parametrize("seed", range(2))
def test_tables_paused_and_resumed_under_load_are_equal(shop: DeferredShop, seed: int) -> None:
    chance, stop = random.Random(seed), threading.Event()
    thread = endless(shop, stop)
    try:
        for number in range(25):
            change_more(shop, seed * 1000 + number)
            if chance.random() < 0.4:
                ask(shop, chance.choice(["pause", "resume"]), chance.choice(["customers", "notes"]))
            if chance.random() < 0.5:
                table = chance.choice(["customers", "notes", ""])
                deferred_target.COMMITS_BY_ITSELF[:] = [lambda t, table=table: t.table == table]  # type: ignore[misc]
            if number in (8, 16):
                shop.sql(f"ALTER TABLE notes ADD COLUMN c{number} TEXT DEFAULT 'd'")
            stop.wait(0.05)
    finally:
        stop.set()
        thread.join(120)
    for table in ("customers", "notes"):
        ask(shop, "resume", table)
    shop.run()
    shop.assert_equal()
    assert files(shop) == []
