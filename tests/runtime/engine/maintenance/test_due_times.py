"""When a table is due: stored, spread over the interval, later after a failure."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from replicator_runtime.engine.maintenance.due_times import DueTimes
from replicator_sdk import MaintenanceTask, TableId
from replicator_state import ReplicatorDirectory

if TYPE_CHECKING:
    from pathlib import Path

    from replicator_state import StateStore

_DAY = MaintenanceTask("vacuum", 86400.0)
_SHOP = TableId("shop", "customers")


@pytest.fixture
def store(tmp_path: Path) -> StateStore:
    directory = ReplicatorDirectory(str(tmp_path), "default", "shop")
    return directory.states(directory.acquire("run"))


def test_tables_that_are_new_are_due_at_different_times_within_one_interval(store: StateStore) -> None:
    now, times = time.time(), DueTimes(store)
    hours = [(times.due_at(TableId("shop", f"table {n}"), _DAY) - now) / 3600 for n in range(200)]
    assert min(hours) >= 0
    assert max(hours) <= 24.01
    assert all(any(start <= hour < start + 6 for hour in hours) for start in (0, 6, 12, 18))


def test_due_times_survive_a_restart(store: StateStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first run ends long before the task is due; the second one knows since when it has been wanted."""
    times = DueTimes(store)
    due = times.due_at(_SHOP, _DAY)
    times.save()
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + 3000)
    assert DueTimes(store).due_at(_SHOP, _DAY) == due


def test_a_task_that_is_done_is_due_one_interval_later(store: StateStore) -> None:
    times = DueTimes(store)
    now = time.time()
    times.done(_SHOP, "vacuum")
    times.save()
    assert DueTimes(store).due_at(_SHOP, _DAY) == pytest.approx(now + 86400, abs=60)


def test_a_task_that_fails_comes_again_after_a_delay_that_doubles_up_to_the_interval(
    store: StateStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now)
    times, delays = DueTimes(store), []
    for _ in range(12):
        times.failed(_SHOP, "vacuum", "no")
        delays.append(round(times.due_at(_SHOP, _DAY) - now))
    assert delays[:4] == [60, 120, 240, 480]
    assert delays[-1] == 86400
    assert times.done(_SHOP, "vacuum").failures == 0


def test_a_clock_that_goes_back_delays_a_task_by_one_interval_at_most(
    store: StateStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    other, failing = TableId("shop", "notes"), TableId("shop", "orders")
    times = DueTimes(store)
    times.done(_SHOP, "vacuum")
    times.due_at(other, _DAY)
    times.failed(failing, "vacuum", "no")
    real, back = time.time, 10 * 86400
    monkeypatch.setattr(time, "time", lambda: real() - back)
    for table in (_SHOP, other, failing):
        assert times.due_at(table, _DAY) <= time.time() + 86400
    times.save()
    back -= 86500
    again = DueTimes(store)
    for table in (_SHOP, other, failing):
        assert again.due_at(table, _DAY) <= time.time(), "a day later it is due, although the clock is still back"


def test_tables_that_are_not_replicated_any_more_are_forgotten(store: StateStore) -> None:
    times = DueTimes(store)
    for name in ("customers", "notes"):
        times.done(TableId("shop", name), "vacuum")
    times.forget_others({_SHOP})
    times.save()
    assert list(DueTimes(store).known()) == [(_SHOP, "vacuum")]


def test_a_store_that_fails_ends_no_run(store: StateStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(key: str, value: bytes) -> None:
        raise OSError("no space")

    times = DueTimes(store)
    times.done(_SHOP, "vacuum")
    with monkeypatch.context() as patch:
        patch.setattr(store, "put", full)
        times.save()
    times.save()
    assert DueTimes(store).known()[_SHOP, "vacuum"].done_at is not None
