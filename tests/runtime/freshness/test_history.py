"""Minutes are counted once each, by what was known of the tables, and outlive runs in bounded space."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from replicator_runtime.freshness.figures import figures_of
from replicator_runtime.freshness.history import History, Measured, load, save
from replicator_runtime.freshness.minutes import minute_day, minute_of
from replicator_runtime.freshness.objective import Objective
from replicator_runtime.stored_forms import FRESHNESS, FRESHNESS_DAYS
from replicator_sdk import TableId
from replicator_state import ReplicatorDirectory

if TYPE_CHECKING:
    from replicator_state import StateStore

ORDERS, ITEMS = TableId("shop", "orders", "public"), TableId("shop", "items", "public")
WITHIN_5 = Objective(99.0, 5.0, 30)
NOON = 20_000 * 86_400.0 + 43_200.0


def fresh(objective: Objective = WITHIN_5, lag: float | None = 0.0, *, replicates: bool = True) -> Measured:
    return Measured(objective, lag, replicates)


def counted(history: History, table: TableId | None = ORDERS) -> tuple[int, int]:
    assert history.until is not None
    found = {one.table: one for one in figures_of(history, minute_day(history.until))}
    return found[table].fresh, found[table].broken


def store_of(folder: Path) -> StateStore:
    directory = ReplicatorDirectory(str(folder), "default", "shop")
    return directory.states(directory.acquire("run")).scoped("runtime")


def test_each_minute_is_counted_by_the_lag_measured_in_it() -> None:
    history = History()
    for minute, lag in enumerate([0.0, 299.0, 300.0, 301.0, 400.0, 2.0]):
        history.measure(NOON + 60 * minute + 1, WITHIN_5, {ORDERS: fresh(lag=lag)})
        history.measure(NOON + 60 * minute + 30, WITHIN_5, {ORDERS: fresh(lag=9999.0)})  # the same minute again
    assert counted(history) == (4, 2)


def test_a_table_counts_from_when_it_first_replicates() -> None:
    history = History()
    history.measure(NOON, WITHIN_5, {ORDERS: fresh(lag=None, replicates=False)})
    assert figures_of(history, minute_day(minute_of(NOON))) == ()
    history.measure(NOON + 60, WITHIN_5, {ORDERS: fresh()})
    history.measure(NOON + 120, WITHIN_5, {ORDERS: fresh(), ITEMS: fresh(lag=None, replicates=False)})
    assert counted(history) == (2, 0)
    assert ITEMS not in history.tables


def test_minutes_without_a_run_count_as_broken_from_when_the_last_known_state_is_too_old() -> None:
    history = History()
    history.measure(NOON, WITHIN_5, {ORDERS: fresh(lag=60.0)})  # complete as of a minute before
    history.measure(NOON + 3600, WITHIN_5, {ORDERS: fresh()})
    assert counted(history) == (1 + 4 + 1, 55), "four minutes more, until it was five minutes old"


def test_a_command_sees_the_minutes_since_the_last_run_without_storing_them(tmp_path: Path) -> None:
    store, history = store_of(tmp_path), History()
    history.measure(NOON, WITHIN_5, {ORDERS: fresh()})
    save(history, store, with_days=True)
    before = store.get(FRESHNESS)
    found = load(store)
    assert counted(found.as_of(NOON + 600)) == (6, 5)
    assert counted(found) == (1, 0)
    assert store.get(FRESHNESS) == before


def test_a_lag_that_is_not_known_is_the_time_since_the_table_was_complete() -> None:
    history = History()
    history.measure(NOON, WITHIN_5, {ORDERS: fresh(lag=0.0)})
    for minute in range(1, 9):
        history.measure(NOON + 60 * minute, WITHIN_5, {ORDERS: fresh(lag=None, replicates=minute % 2 == 0)})
    assert counted(history) == (6, 3)


def test_a_table_that_waits_is_as_old_as_it_was_known_to_be_complete() -> None:
    """Its last change may be old only because nothing changed at the source."""
    history = History()
    history.measure(NOON, WITHIN_5, {ORDERS: fresh(lag=0.0)})
    history.measure(NOON + 60, WITHIN_5, {ORDERS: fresh(lag=86_400.0, replicates=False)})
    assert counted(history) == (2, 0)
    history.measure(NOON + 120, WITHIN_5, {ORDERS: fresh(lag=86_400.0)})
    assert counted(history) == (2, 1)


def test_a_minute_of_the_pipeline_is_fresh_when_each_table_was_by_its_own_minutes() -> None:
    slow = Objective(90.0, 60.0, 30)
    history = History()
    history.measure(NOON, WITHIN_5, {ORDERS: fresh(), ITEMS: fresh(slow)})
    history.measure(NOON + 60, WITHIN_5, {ORDERS: fresh(lag=301.0), ITEMS: fresh(slow, lag=301.0)})
    history.measure(NOON + 120, WITHIN_5, {ORDERS: fresh(), ITEMS: fresh(slow, lag=3601.0)})
    history.measure(NOON + 180, WITHIN_5, {ORDERS: fresh(lag=300.0), ITEMS: fresh(slow, lag=3600.0)})
    assert (counted(history), counted(history, ITEMS), counted(history, None)) == ((3, 1), (3, 1), (2, 2))


@given(
    lags=st.lists(st.one_of(st.none(), st.integers(0, 700)), min_size=1, max_size=12),
    gaps=st.lists(st.integers(1, 4000), min_size=12, max_size=12),
    minutes=st.sampled_from([0.5, 5.0, 90.0, 1500.0]),
    days=st.sampled_from([1, 2, 30]),
)
def test_the_counts_are_those_of_counting_minute_by_minute(
    lags: list[int | None], gaps: list[int], minutes: float, days: int
) -> None:
    """A model that looks at each single minute, and at the days that count only in the end."""
    objective, now, history = Objective(99.0, minutes, days), NOON, History()
    model: dict[int, bool] = {}
    complete, until = NOON, minute_of(NOON) - 1
    for lag, gap in zip([0, *lags], [0, *gaps], strict=False):
        now += gap * 60.0
        history.measure(now, objective, {ORDERS: fresh(objective, None if lag is None else float(lag))})
        for minute in range(until + 1, minute_of(now)):
            model[minute] = minute * 60.0 - complete <= minutes * 60.0
        complete = complete if lag is None else now - lag
        model[minute_of(now)] = now - complete <= minutes * 60.0
        until = minute_of(now)
    in_window = [good for minute, good in model.items() if minute_day(minute) > minute_day(until) - days]
    assert counted(history) == (in_window.count(True), in_window.count(False))
    assert counted(history, None) == counted(history)


def test_what_is_counted_is_there_after_a_restart(tmp_path: Path) -> None:
    store, history = store_of(tmp_path), History()
    for hour in range(100):
        history.measure(NOON + 3600 * hour, WITHIN_5, {ORDERS: fresh(), ITEMS: fresh(Objective(50.0, 90.0, 2))})
        save(history, store, with_days=hour % 24 == 0)
    save(history, store, with_days=True)
    assert load(store) == history
    history.measure(NOON + 3600 * 100, WITHIN_5, {ORDERS: fresh(), ITEMS: fresh(Objective(50.0, 90.0, 2))})
    save(history, store, with_days=False)
    assert load(store) == history, "of one day no earlier one is written"


def test_the_days_stored_before_a_kill_are_not_counted_twice(tmp_path: Path) -> None:
    """The days are stored first; a kill between the two values leaves the present day's as it was."""
    store, history = store_of(tmp_path), History()
    history.measure(NOON, WITHIN_5, {ORDERS: fresh()})
    save(history, store, with_days=True)
    later = history.as_of(NOON)
    later.measure(NOON + 86_400, WITHIN_5, {ORDERS: fresh()})
    today = store.get(FRESHNESS)
    assert today is not None
    save(later, store, with_days=True)
    store.put(FRESHNESS, today)
    again = load(store)
    again.measure(NOON + 86_400, WITHIN_5, {ORDERS: fresh()})
    assert counted(again) == counted(later)


def test_an_edited_objective_counts_from_then_on_and_a_shorter_window_forgets() -> None:
    history = History()
    for day in range(10):
        history.measure(NOON + 86_400 * day, WITHIN_5, {ORDERS: fresh()})
    assert len(history.tables[ORDERS].days) == 10
    shorter = Objective(99.0, 2000.0, 2)
    history.measure(NOON + 86_400 * 10, shorter, {ORDERS: fresh(shorter)})
    assert len(history.tables[ORDERS].days) == 2
    history.measure(NOON + 86_400 * 11, shorter, {ORDERS: fresh(shorter)})
    fresh_minutes, broken = counted(history)
    assert broken == 0 or fresh_minutes > broken


def test_renamed_tables_keep_their_minutes_also_when_they_exchange_names() -> None:
    history = History()
    for minute in range(3):
        history.measure(NOON + 60 * minute, WITHIN_5, {ORDERS: fresh(), ITEMS: fresh(lag=400.0)})
    history.rename({ORDERS: ITEMS, ITEMS: ORDERS})
    assert (counted(history), counted(history, ITEMS)) == ((0, 3), (3, 0))


def test_a_thousand_tables_for_ninety_days_stay_small_and_each_minute_is_cheap(tmp_path: Path) -> None:
    tables = [TableId("warehouse", f"orders_of_region_{number}", "public") for number in range(1000)]
    objective = Objective(99.0, 5.0, 90)
    store, history = store_of(tmp_path), History()
    measured = {table: fresh(objective) for table in tables}
    history.measure(NOON, objective, measured)
    history.measure(NOON + 86_400 * 199, objective, measured)
    began = time.process_time()
    history.measure(NOON + 86_400 * 199 + 60, objective, measured)
    save(history, store, with_days=False)
    assert time.process_time() - began < 1.0, "measured: 30 ms"
    assert len(store.get(FRESHNESS) or b"") < 120_000
    save(history, store, with_days=True)
    assert len(store.get(FRESHNESS_DAYS) or b"") < 2_500_000
    assert len(json.loads(store.get(FRESHNESS_DAYS) or b"")["tables"][0][1]) == 89


def test_a_clock_that_was_years_ahead_for_a_moment_does_not_end_the_counting() -> None:
    history, year = History(), 366 * 86_400.0
    history.measure(NOON - 86_400, WITHIN_5, {ORDERS: fresh()})
    history.measure(NOON - 86_340, WITHIN_5, {ORDERS: fresh()})
    history.measure(NOON + year, WITHIN_5, {ORDERS: fresh(lag=None)})
    for minute in range(10):
        history.measure(NOON + 60 * minute, WITHIN_5, {ORDERS: fresh(lag=0.0 if minute < 7 else 400.0)})
    assert counted(history) == (7, 3)
    assert counted(history, None) == (7, 3)


def test_a_clock_that_is_set_back_by_an_hour_counts_no_minute_twice() -> None:
    history = History()
    for minute in (*range(120), *range(60, 130)):
        history.measure(NOON + 60 * minute, WITHIN_5, {ORDERS: fresh()})
    assert counted(history) == (130, 0)
