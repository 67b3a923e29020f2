"""A paused table keeps its rows at the target while its changes go to a lane; when it is resumed, it gets them once."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

from replicator_runtime.config import build_pipeline
from replicator_runtime.engine.apply import lane_drains
from replicator_runtime.engine.control import control
from replicator_runtime.engine.control.control import carry_out_alone
from replicator_runtime.engine.lanes import lane as lane_module
from replicator_runtime.engine.lanes import lanes as lanes_module
from replicator_runtime.engine.run_state import run as run_module
from replicator_sdk.errors import FencedError
from replicator_state import Outcome, OutcomeState, Request
from tests.runtime.engine import in_memory_target
from tests.runtime.engine.apply.test_rejoining import at_work, count
from tests.runtime.engine.preparation.test_selection_edits import states
from tests.runtime.engine.requests import requests
from tests.runtime.engine.test_run import Host, Shop, _wait, change, fill, shop

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["shop"]


def ask(shop: Shop, command: str, *tables: str) -> Request:
    return requests(shop).submit(f"table.{command}", {"tables": list(tables)})


def alone(shop: Shop, command: str, *tables: str) -> Outcome:
    """Ask for a command, and carry it out without a run."""
    request = ask(shop, command, *tables)
    carry_out_alone(build_pipeline(shop.document, host=Host()))  # type: ignore[arg-type]
    return outcome(shop, request)


def outcome(shop: Shop, request: Request) -> Outcome:
    found = requests(shop).outcome(request.request_id)
    assert found is not None
    return found


def files(shop: Shop) -> list[Path]:
    return sorted(shop.path.parent.glob("state/default/shop/*/lanes/*"))


def view(shop: Shop, name: str) -> dict[str, Any]:
    [found] = [table for table in shop.status()["tables"] if table["table"] == name]
    return dict(found)


def three_runs(shop: Shop) -> None:
    """Changes, an ALTER and a TRUNCATE between the runs that follow."""
    for number in range(3):
        shop.run()
        shop.assert_equal()
        change_more(shop, number)
        shop.sql(f"ALTER TABLE customers ADD COLUMN after_{number} TEXT DEFAULT 'x'")
        if number == 1:
            shop.sql("DELETE FROM notes")
    shop.run()
    shop.assert_equal()


def change_more(shop: Shop, seed: int) -> None:
    shop.sql(
        f"INSERT INTO customers (name) VALUES ('more {seed}')",
        f"UPDATE customers SET name = 'seed {seed}' WHERE id % 3 = 0",
        f"INSERT INTO notes (text) VALUES ('{seed}'), ('{seed}')",
        "DELETE FROM notes WHERE rowid IN (SELECT rowid FROM notes LIMIT 1)",
    )


def test_a_paused_table_stays_as_it_is_and_holds_no_offset_and_gets_everything_when_it_is_resumed(shop: Shop) -> None:
    fill(shop)
    shop.run()
    assert alone(shop, "pause", "notes").lines == ("main.notes is paused",)
    offsets = set()
    for number in range(3):
        change_more(shop, number)
        assert shop.run().reached_goal
        shop.assert_equal("customers")
        assert count("notes") == 20
        offsets.add(shop.status()["offset"])
    assert len(offsets) == 3
    assert states(shop) == {"customers": "REPLICATING", "notes": "PAUSED"}
    assert view(shop, "notes")["pause"]["laneRows"] == 9
    assert view(shop, "notes")["pause"]["laneBytes"] == sum(file.stat().st_size for file in files(shop))
    assert alone(shop, "resume", "notes").lines == ("main.notes is resumed",)
    shop.run()
    shop.assert_equal()
    assert view(shop, "notes")["pause"] is None
    three_runs(shop)
    assert files(shop) == []


def test_a_table_is_paused_and_resumed_beside_a_run(shop: Shop) -> None:
    fill(shop)
    shop.run()
    with at_work(shop):
        paused = ask(shop, "pause", "customers")
        _wait(lambda: requests(shop).outcome(paused.request_id) is not None, 20)
        shop.sql("INSERT INTO customers VALUES (900, 'in the lane')", "INSERT INTO notes VALUES ('beside')")
        _wait(lambda: count("notes") == 21, 20)
        _wait(lambda: bool(files(shop)), 20)
        assert count("customers") == 20
        resumed = ask(shop, "resume", "customers")
        _wait(lambda: count("customers") == 21, 20)
        shop.sql("INSERT INTO customers VALUES (901, 'later')")
        _wait(lambda: count("customers") == 22, 20)
    assert outcome(shop, resumed).state is OutcomeState.DONE
    three_runs(shop)


def test_changes_of_structure_are_kept_in_order_with_the_rows(shop: Shop) -> None:
    fill(shop)
    shop.run()
    alone(shop, "pause", "customers", "notes")
    change(shop)
    shop.sql(
        "ALTER TABLE customers ADD COLUMN city TEXT DEFAULT 'Ulm'", "INSERT INTO customers VALUES (30, 'n', 'Bonn')"
    )
    shop.run()
    shop.sql("ALTER TABLE customers RENAME COLUMN city TO town", "DELETE FROM notes", "INSERT INTO notes VALUES ('b')")
    shop.run()
    assert in_memory_target.STORAGE.ddl == []
    shop.sql("ALTER TABLE customers ADD COLUMN size INTEGER DEFAULT 4")
    alone(shop, "resume", "customers", "notes")
    shop.run()
    shop.assert_equal()
    three_runs(shop)


POINTS = {
    "engine.request.carried_out": control,
    "engine.lane.before_write": lane_module,
    "engine.lane.after_write": lane_module,
    "engine.offset.before_save": run_module,
    "engine.offset.after_save": run_module,
    "engine.lane.before_step": lane_drains,
    "engine.lane.after_step": lane_drains,
    "engine.lane.emptied": lane_drains,
    "engine.lane.ended": lane_drains,
    "engine.lane.tidied": lanes_module,
}


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("command", ["pause", "resume"])
def test_a_run_that_ends_at_any_step_loses_and_doubles_nothing(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, point: str, command: str
) -> None:
    fill(shop)
    shop.run()
    if command == "resume":
        alone(shop, "pause", "customers", "notes")
        change(shop)
        shop.sql("ALTER TABLE customers ADD COLUMN city TEXT DEFAULT 'Ulm'")
        change_more(shop, 7)
        shop.run()
    ask(shop, command, "customers", "notes")
    change_more(shop, 8)
    died: list[str] = []

    def dies(name: str) -> None:
        if name == point and not died:
            died.append(name)
            raise FencedError("the process dies", code="RPL-8001")

    with monkeypatch.context() as patch:
        patch.setattr(POINTS[point], "failpoint", dies)
        try:
            shop.run()
        except FencedError:
            assert died
    in_lanes = point.startswith("engine.lane") and "write" not in point
    assert bool(died) == (command == "resume" or not in_lanes) or "write" in point
    change_more(shop, 9)
    shop.run()
    if command == "pause":
        alone(shop, "resume", "customers", "notes")
    three_runs(shop)
    assert files(shop) == []


@pytest.mark.parametrize("seed", range(6))
def test_a_random_history_of_pauses_ends_and_changes_makes_the_target_equal(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    chance = random.Random(seed)
    shop.document["batch"] = {"maxIntervalSeconds": 0.02, "maxRows": 5}
    fill(shop)
    shop.run()
    ends = 0
    for number in range(14):
        for table in ("customers", "notes"):
            if chance.random() < 0.4:
                ask(shop, chance.choice(["pause", "resume"]), table)
        for _ in range(chance.randrange(3)):
            change_more(shop, chance.randrange(1000) * 1000 + number)
        if chance.random() < 0.3:
            shop.sql(f"ALTER TABLE customers ADD COLUMN c{number} TEXT DEFAULT 'd{number}'")
        if chance.random() < 0.2:
            shop.sql("DELETE FROM notes")
        left = chance.randrange(1, 12)
        point = chance.choice(list(POINTS))

        def dies(name: str, point: str = point) -> None:
            nonlocal left, ends
            left -= name == point
            if name == point and left == 0:
                ends += 1
                raise FencedError("the process dies", code="RPL-8001")

        with monkeypatch.context() as patch:
            for module in set(POINTS.values()):
                patch.setattr(module, "failpoint", dies)
            try:
                shop.run()
            except FencedError:
                assert left == 0
    for table in ("customers", "notes"):
        ask(shop, "resume", table)
    shop.run()
    shop.assert_equal()
    three_runs(shop)
    assert files(shop) == []
