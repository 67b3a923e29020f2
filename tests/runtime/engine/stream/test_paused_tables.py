"""A paused table keeps its rows at the target while its changes go to a lane; when it is resumed, it gets them once."""

from __future__ import annotations

import contextlib
import random
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import structlog

from replicator_runtime.config import build_pipeline
from replicator_runtime.engine.apply import lane_drains, periodic_work
from replicator_runtime.engine.control import control
from replicator_runtime.engine.control.control import carry_out_alone
from replicator_runtime.engine.lanes import lane as lane_module
from replicator_runtime.engine.lanes import lanes as lanes_module
from replicator_runtime.engine.run_state import run as run_module
from replicator_sdk.errors import DataError, FencedError, ReplicatorError
from replicator_state import Outcome, OutcomeState, Request
from tests.runtime.engine import in_memory_target
from tests.runtime.engine.apply.test_rejoining import at_work, count
from tests.runtime.engine.preparation.test_selection_edits import states
from tests.runtime.engine.requests import requests
from tests.runtime.engine.test_run import Host, Shop, _wait, change, fill, shop

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from replicator_sdk import TableId

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
    assert alone(shop, "resume", "notes").lines == ("main.notes will be resumed by the next run",)
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
        _wait(lambda: requests(shop).outcome(paused.request_id) is not None)
        shop.sql("INSERT INTO customers VALUES (900, 'in the lane')", "INSERT INTO notes VALUES ('beside')")
        _wait(lambda: count("notes") == 21)
        _wait(lambda: bool(files(shop)))
        assert count("customers") == 20
        resumed = ask(shop, "resume", "customers")
        _wait(lambda: count("customers") == 21)
        shop.sql("INSERT INTO customers VALUES (901, 'later')")
        _wait(lambda: count("customers") == 22)
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


@pytest.mark.parametrize("seed", range(3))
def test_a_random_history_of_pauses_ends_and_changes_makes_the_target_equal(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    chance = random.Random(seed)
    shop.document["batch"] = {"maxIntervalSeconds": 0.02, "maxRows": 5}
    fill(shop)
    shop.run()
    ends = 0
    for number in range(9):
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


def lanes(shop: Shop, **bounds: float) -> None:
    shop.document["lanes"] = bounds


@pytest.mark.parametrize("bounds", [{"maxBytes": 1}, {"maxHours": 1e-9}], ids=str)
def test_a_lane_past_its_bound_is_dropped_and_the_table_copied_again_when_it_is_resumed(
    shop: Shop, bounds: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(periodic_work, "_LOOK_SECONDS", 0.0)
    lanes(shop, **bounds)
    fill(shop)
    shop.run()
    alone(shop, "pause", "notes")
    with structlog.testing.capture_logs() as logged, at_work(shop):
        shop.sql("INSERT INTO notes VALUES ('in the lane')")
        _wait(lambda: bool((view(shop, "notes")["pause"] or {}).get("copiedAgain")))
        shop.sql("INSERT INTO notes VALUES ('in no lane')", "INSERT INTO customers VALUES (900, 'n')")
        _wait(lambda: count("customers") == 21)
    assert "RPL-4130" in {entry.get("code") for entry in logged}
    for number in range(2):
        change_more(shop, number)
        shop.run()
        shop.assert_equal("customers")
        assert (states(shop)["notes"], count("notes"), files(shop)) == ("PAUSED", 20, [])
    assert alone(shop, "resume", "notes").lines == ("main.notes will be copied again by the next run",)
    three_runs(shop)


def test_a_lane_that_passes_its_bound_while_it_is_drained_is_dropped_and_the_table_copied(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(periodic_work, "_LOOK_SECONDS", 0.0)
    fill(shop)
    shop.run()
    alone(shop, "pause", "notes")
    change(shop)
    shop.run()
    lanes(shop, maxBytes=1)
    alone(shop, "resume", "notes")
    three_runs(shop)
    assert states(shop) == {"customers": "REPLICATING", "notes": "REPLICATING"}
    assert files(shop) == []


def test_a_table_that_is_not_copied_yet_is_paused_without_a_lane_and_copied_when_it_is_resumed(shop: Shop) -> None:
    fill(shop)
    in_memory_target.STORAGE.fault = _fails("load", "notes")
    with contextlib.suppress(ReplicatorError):
        shop.run()
    in_memory_target.STORAGE.fault = lambda step, table: None
    assert alone(shop, "pause", "notes").lines == ("main.notes is paused, and is copied again when it is resumed",)
    for number in range(2):
        change_more(shop, number)
        shop.run()
        shop.assert_equal("customers")
    assert (states(shop)["notes"], files(shop)) == ("PAUSED", [])
    alone(shop, "resume", "notes")
    three_runs(shop)


def test_a_failing_table_that_is_paused_holds_nothing_and_gets_its_changes_when_it_is_resumed(shop: Shop) -> None:
    fill(shop)
    shop.run()
    change(shop)
    in_memory_target.STORAGE.fault = _fails("before", "notes")
    with pytest.raises(DataError):
        shop.run()
    held = shop.status()["offset"]
    alone(shop, "pause", "notes")
    shop.run()
    assert states(shop)["notes"] == "PAUSED"
    assert shop.status()["offset"] != held
    alone(shop, "resume", "notes")
    with pytest.raises(DataError):
        shop.run()
    assert states(shop)["notes"] == "FAILING"
    in_memory_target.STORAGE.fault = lambda step, table: None
    three_runs(shop)


def _fails(step: str, table: str) -> Callable[[str, TableId], None]:
    def fault(at: str, where: TableId) -> None:
        if (at, where.table) == (step, table):
            raise DataError("a value does not fit", code="RPL-5001")

    return fault


def test_the_target_is_not_asked_for_a_paused_table_whose_lane_was_begun(shop: Shop) -> None:
    fill(shop)
    shop.run()
    alone(shop, "pause", "notes")
    change(shop)
    shop.run()
    asked: list[str] = []
    in_memory_target.STORAGE.fault = lambda step, table: asked.append(table.table)
    change_more(shop, 1)
    shop.run()
    assert set(asked) == {"customers"}


@pytest.mark.parametrize("created", [True, False])
def test_a_dropped_table_stays_at_the_target_and_paused(shop: Shop, created: bool) -> None:
    fill(shop)
    shop.run()
    alone(shop, "pause", "notes")
    shop.sql("INSERT INTO notes VALUES ('last')", "DROP TABLE notes")
    shop.run()
    assert count("notes") == 20
    if created:
        shop.sql("CREATE TABLE notes (text TEXT, more TEXT)", "INSERT INTO notes VALUES ('a', 'b')")
        shop.run()
        assert count("notes") == 20
    assert states(shop)["notes"] == "PAUSED"
    alone(shop, "resume", "notes")
    shop.run()
    if created:
        three_runs(shop)
    else:
        assert states(shop) == {"customers": "REPLICATING"}
        assert count("notes") == 20


def test_a_renamed_table_is_paused_under_its_new_name_and_copied_when_it_is_resumed(shop: Shop) -> None:
    fill(shop)
    shop.run()
    alone(shop, "pause", "notes")
    shop.sql("INSERT INTO notes VALUES ('last')", "ALTER TABLE notes RENAME TO remarks")
    shop.run()
    shop.sql("INSERT INTO remarks VALUES ('later')")
    shop.run()
    assert states(shop) == {"customers": "REPLICATING", "remarks": "PAUSED"}
    assert {table.table for table in in_memory_target.STORAGE.tables} == {"customers", "notes"}
    alone(shop, "resume", "remarks")
    shop.run()
    shop.assert_equal("customers", "remarks")
    shop.sql("INSERT INTO remarks VALUES ('latest')", "ALTER TABLE remarks ADD COLUMN more TEXT")
    shop.run()
    shop.assert_equal("customers", "remarks")


def test_a_paused_table_that_is_not_selected_any_more_is_forgotten_with_its_lane(shop: Shop) -> None:
    fill(shop)
    shop.run()
    alone(shop, "pause", "notes")
    change(shop)
    shop.run()
    assert files(shop)
    shop.document["tables"] = [{"table": "customers"}]
    shop.run()
    assert files(shop) == []
    del shop.document["tables"]
    three_runs(shop)


def test_what_does_not_fit_the_state_of_a_table_is_refused_and_changes_nothing(shop: Shop) -> None:
    fill(shop)
    shop.run()
    assert alone(shop, "resume", "notes").code == "RPL-1291"
    assert alone(shop, "pause", "notes", "nothing").code == "RPL-1220"
    assert alone(shop, "pause", "notes").state is OutcomeState.DONE
    for command, code in (("pause", "RPL-1290"), ("resync", "RPL-1293"), ("retry", "RPL-1221")):
        request = requests(shop).submit(f"table.{command}", {"tables": ["customers", "notes"], "inPlace": True})
        carry_out_alone(build_pipeline(shop.document, host=Host()))  # type: ignore[arg-type]
        assert outcome(shop, request).code == (code if command != "retry" else "RPL-1221")
    assert alone(shop, "resume", "customers", "notes").code == "RPL-1291"
    shop.run()
    assert states(shop) == {"customers": "REPLICATING", "notes": "PAUSED"}
    alone(shop, "resume", "notes")
    three_runs(shop)


def test_two_commands_at_once_are_done_in_their_order(shop: Shop) -> None:
    fill(shop)
    shop.run()
    made = [ask(shop, command, "notes") for command in ("pause", "pause", "resume", "pause", "resume")]
    change(shop)
    shop.run()
    found = [(outcome(shop, request).state, outcome(shop, request).code) for request in made]
    done, refused = (OutcomeState.DONE, ""), (OutcomeState.REFUSED, "RPL-1290")
    assert found == [done, refused, done, done, done]
    three_runs(shop)


def test_a_target_that_went_on_from_inside_a_lane_is_copied_again(shop: Shop) -> None:
    """A run that was superseded committed after the lane was begun: nothing says which of the lane's changes the target has."""
    fill(shop)
    shop.run()
    alone(shop, "pause", "notes")
    change(shop)
    shop.run()
    [kept] = [t for name, t in in_memory_target.STORAGE.tables.items() if name.table == "notes"]
    assert kept.progress is not None
    position = kept.progress.position
    kept.progress = replace(kept.progress, position=replace(position, events_after=position.events_after + 1))
    alone(shop, "resume", "notes")
    three_runs(shop)


@pytest.mark.parametrize(
    ("lost", "resumed"),
    [("the newest", "later"), ("one between", "later"), ("one between", "at once"), ("all, and changes come", "later")],
)
def test_a_lane_that_lost_files_after_the_offset_was_saved_is_dropped_and_the_table_copied(
    shop: Shop, lost: str, resumed: str
) -> None:
    fill(shop)
    shop.run()
    alone(shop, "pause", "notes")
    for number in range(3):
        change_more(shop, number)
        shop.run()
    kept = sorted(files(shop), key=lambda path: path.stat().st_mtime_ns)
    assert len(kept) == 3
    for path in {"the newest": kept[2:], "one between": kept[1:2]}.get(lost, kept):
        path.unlink()
    if lost == "all, and changes come":
        change_more(shop, 3)
    if resumed == "later":
        shop.run()
        assert view(shop, "notes")["pause"]["copiedAgain"]
        assert (states(shop)["notes"], count("notes"), files(shop)) == ("PAUSED", 20, [])
    alone(shop, "resume", "notes")
    three_runs(shop)


def test_a_whole_lane_is_kept_whatever_ends_between_it_and_the_offset(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its end is stored before the offset, and never ahead of the lane."""
    fill(shop)
    shop.run()
    alone(shop, "pause", "notes")

    def dies(name: str) -> None:
        if name == "engine.offset.before_save":
            raise FencedError("the process dies", code="RPL-8001")

    for number in range(2):
        change_more(shop, number)
        with monkeypatch.context() as patch:
            patch.setattr(run_module, "failpoint", dies)
            with pytest.raises(FencedError):
                shop.run()
    shop.run()
    assert not view(shop, "notes")["pause"]["copiedAgain"]
    assert view(shop, "notes")["pause"]["laneRows"] == 6
    alone(shop, "resume", "notes")
    shop.run()
    shop.assert_equal()
    three_runs(shop)


@pytest.mark.parametrize("harm", ["damaged", "gone"])
def test_a_table_whose_lane_was_harmed_is_copied_again(shop: Shop, harm: str) -> None:
    fill(shop)
    shop.run()
    alone(shop, "pause", "notes")
    for number in range(2):
        change_more(shop, number)
        shop.run()
    first = min(files(shop), key=lambda path: path.stat().st_mtime_ns)
    alone(shop, "resume", "notes")
    if harm == "damaged":
        first.write_bytes(first.read_bytes()[:-9] + b"x" * 9)
    else:
        first.unlink()
    three_runs(shop)
    assert files(shop) == []
