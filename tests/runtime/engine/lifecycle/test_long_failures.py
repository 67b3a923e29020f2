"""A table that has failed for some minutes holds the source's log no more: its changes go to a lane, which makes it whole without a copy."""

from __future__ import annotations

import contextlib
import random
from typing import TYPE_CHECKING, Any

import pytest

from replicator_runtime.config import build_pipeline
from replicator_runtime.engine.control.control import carry_out_alone
from replicator_runtime.engine.run_state import retry_budget
from replicator_sdk.errors import DataError, RetryableError
from replicator_state import OutcomeState
from tests.runtime.engine import in_memory_target
from tests.runtime.engine.apply.test_rejoining import at_work, count, fails
from tests.runtime.engine.preparation.test_selection_edits import states
from tests.runtime.engine.requests import requests
from tests.runtime.engine.stream.test_paused_tables import alone, change_more, files, three_runs, view
from tests.runtime.engine.test_run import Host, Shop, _wait, fill, shop

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["shop"]

SOON = {"laneAfterMinutes": 0.000001, "maxCopyDelaySeconds": 600}


def too_large() -> DataError:
    return DataError("a value is too large", code="RPL-5001", hint="change it", table="main.notes")


def away() -> RetryableError:
    return RetryableError("the table is locked", code="RPL-4001", table="main.notes")


def works() -> None:
    in_memory_target.STORAGE.fault = lambda step, table: None


@pytest.fixture
def failing(shop: Shop) -> Shop:
    """A shop whose table `notes` is refused by the target from now on."""
    fill(shop)
    shop.document["failingTables"] = SOON
    shop.run()
    fails("before", "notes", too_large)
    return shop


def fail_once(shop: Shop, seed: int) -> None:
    change_more(shop, seed)
    with pytest.raises(DataError):
        shop.run()


def test_bounded_runs_let_the_offset_move_and_end_with_the_tables_error(failing: Shop) -> None:
    offsets = set()
    for number in range(3):
        fail_once(failing, number)
        failing.assert_equal("customers")
        assert count("notes") == 20
        offsets.add(failing.status()["offset"])
    assert len(offsets) == 3
    assert states(failing) == {"customers": "REPLICATING", "notes": "FAILING"}
    shown = view(failing, "notes")
    assert shown["error"]["code"] == "RPL-5001"
    assert shown["pause"]["laneRows"] == 9
    works()
    three_runs(failing)
    assert files(failing) == []
    assert view(failing, "notes")["pause"] is None


@pytest.mark.parametrize("error", [too_large, away])
def test_the_table_catches_up_without_a_restart_and_without_a_copy(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, error: Callable[[], Exception]
) -> None:
    monkeypatch.setattr(retry_budget, "_FIRST_WAIT_SECONDS", 0.5)
    fill(shop)
    shop.document["failingTables"] = {"laneAfterMinutes": 0.01, "maxCopyDelaySeconds": 1}
    shop.run()
    fails("before", "notes", error)
    with at_work(shop) as progress:
        shop.sql("INSERT INTO notes VALUES ('first')")
        _wait(lambda: bool(files(shop)), 120)
        before = shop.status()["offset"]
        shop.sql("INSERT INTO customers (name) VALUES ('moves')", "INSERT INTO notes VALUES ('second')")
        _wait(lambda: shop.status()["offset"] != before, 120)
        assert count("notes") == 20
        works()
        _wait(lambda: count("notes") == 22, 120)
        _wait(lambda: all(t.state == "REPLICATING" for t in progress.snapshot().tables), 120)
        shop.sql("INSERT INTO notes VALUES ('after')")
        _wait(lambda: count("notes") == 23, 120)
    three_runs(shop)


def test_a_resume_is_refused_and_a_pause_keeps_the_lane(failing: Shop) -> None:
    fail_once(failing, 0)
    refused = alone(failing, "resume", "notes")
    assert refused.state is OutcomeState.REFUSED
    alone(failing, "pause", "notes")
    works()
    change_more(failing, 1)
    failing.run()
    failing.assert_equal("customers")
    assert count("notes") == 20
    assert states(failing)["notes"] == "PAUSED"
    assert view(failing, "notes")["pause"]["laneRows"] == 6
    alone(failing, "resume", "notes")
    three_runs(failing)


def test_a_resync_drops_the_lane(failing: Shop) -> None:
    fail_once(failing, 0)
    works()
    requests(failing).submit("table.resync", {"tables": ["notes"], "inPlace": True})
    carry_out_alone(build_pipeline(failing.document, host=Host()))  # type: ignore[arg-type]
    three_runs(failing)
    assert files(failing) == []


def test_a_full_lane_gives_the_log_up(failing: Shop) -> None:
    failing.document["lanes"] = {"maxBytes": 1}
    fail_once(failing, 0)
    with pytest.raises(DataError):
        failing.run()
    works()
    three_runs(failing)
    assert files(failing) == []


def test_no_lane_is_written_for_a_target_that_is_away(failing: Shop) -> None:
    def fault(step: str, table: Any) -> None:
        if step == "before":
            raise DataError("refused", code="RPL-5001", table=str(table))

    in_memory_target.STORAGE.fault = fault
    for number in range(3):
        fail_once(failing, number)
    assert files(failing) == []
    works()
    three_runs(failing)


@pytest.mark.parametrize("seed", range(6))
def test_random_histories_are_equal_in_the_end(failing: Shop, seed: int) -> None:
    chance = random.Random(seed)
    works()
    for number in range(8):
        broken = chance.random() < 0.6
        table = chance.choice(["notes", "customers"])
        if broken:
            fails(chance.choice(["before", "after"]), table, too_large)
        change_more(failing, number)
        if chance.random() < 0.4:
            failing.sql(f"ALTER TABLE {table} ADD COLUMN c{number} TEXT DEFAULT 'x'")
        if chance.random() < 0.2:
            failing.sql("DELETE FROM notes")
        with contextlib.suppress(DataError) if broken else contextlib.nullcontext():
            failing.run()
        if not broken:
            failing.assert_equal()
        works()
    three_runs(failing)
    assert files(failing) == []


def test_without_the_setting_a_failing_table_has_no_lane_and_holds_the_offset(failing: Shop) -> None:
    failing.document["failingTables"] = {"laneAfterMinutes": None, "maxCopyDelaySeconds": 600}
    fail_once(failing, 0)
    before = failing.status()["offset"]
    fail_once(failing, 1)
    failing.assert_equal("customers")
    assert failing.status()["offset"] == before
    assert files(failing) == []
    works()
    three_runs(failing)
