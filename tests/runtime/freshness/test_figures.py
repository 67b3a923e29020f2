"""The ratio, the error budget, and the order of the tables."""

from __future__ import annotations

import pytest

from replicator_runtime.freshness.figures import figures_of
from replicator_runtime.freshness.history import History
from replicator_runtime.freshness.minutes import Minutes
from replicator_runtime.freshness.objective import Objective
from replicator_sdk import TableId

TODAY = 20_000
OBJECTIVE = Objective(99.0, 5.0, 30)
A, B, C = TableId("d", "a"), TableId("d", "b"), TableId("d", "c")


def history(**broken: int) -> History:
    made = History(Minutes(OBJECTIVE, {TODAY: (60, 40)}), until=TODAY * 1440 + 99)
    for name, minutes in broken.items():
        made.tables[TableId("d", name)] = Minutes(OBJECTIVE, {TODAY - 1: (900, 0), TODAY: (100 - minutes, minutes)})
    return made


def test_the_budget_is_what_may_be_broken_in_the_whole_window() -> None:
    whole, table = figures_of(history(a=432), TODAY)
    assert (whole.table, whole.ratio, whole.is_met) == (None, 0.6, True)
    assert OBJECTIVE.budget_minutes == pytest.approx(432.0)
    assert table.budget_left == pytest.approx(0.0)
    assert table.is_met
    assert figures_of(history(a=433), TODAY)[1].is_met is False


def test_the_tables_with_the_least_budget_left_are_first() -> None:
    assert [one.table for one in figures_of(history(a=1, b=40, c=2), TODAY)] == [None, B, C, A]


def test_days_before_the_window_do_not_count() -> None:
    made = history(a=7)
    made.tables[A].days[TODAY - 30] = (0, 1000)
    [_, table] = figures_of(made, TODAY)
    assert (table.fresh, table.broken) == (993, 7)
    [_, later] = figures_of(made, TODAY + 29)
    assert (later.fresh, later.broken) == (93, 7)
    assert figures_of(made, TODAY + 30)[1].ratio == 1.0


def test_the_json_says_all_of_it() -> None:
    [_, table] = figures_of(history(a=10), TODAY)
    shown = table.to_json()
    assert (shown["table"], shown["percent"], shown["minutes"], shown["window"]) == ("a", 99.0, 5.0, "30d")
    assert (shown["ratio"], shown["brokenMinutes"], shown["budgetMinutesLeft"]) == (0.99, 10, 422.0)
    assert (shown["since"], shown["isMet"]) == ("2024-10-03", True)
