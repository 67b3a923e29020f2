"""The time budget of failures starts again with every progress."""

from __future__ import annotations

import pytest

from replicator_runtime.config.model import RetriesConfig
from replicator_runtime.engine.run_state.retry_budget import RetryBudget, TableRetryBudgets
from replicator_sdk import TableId


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [1000.0]
    monkeypatch.setattr("replicator_runtime.engine.run_state.retry_budget.time.monotonic", lambda: now[0])
    return now


def test_the_wait_doubles_up_to_the_configured_delay(clock: list[float]) -> None:
    budget = RetryBudget(RetriesConfig(delay_seconds=4))
    delays = [budget.next_delay() for _ in range(8)]
    for delay, longest in zip(delays, [0.5, 1, 2, 4, 4, 4, 4, 4], strict=True):
        assert delay is not None
        assert 0.75 * longest <= delay <= longest


def test_the_budget_ends_and_progress_renews_it(clock: list[float]) -> None:
    budget = RetryBudget(RetriesConfig(max_duration_seconds=60))
    assert budget.next_delay() is not None
    clock[0] += 59
    assert budget.next_delay() is not None
    clock[0] += 2
    assert budget.next_delay() is None
    budget.progressed()
    assert budget.next_delay() is not None


def test_without_a_budget_it_is_retried_for_ever(clock: list[float]) -> None:
    budget = RetryBudget(RetriesConfig())
    for _ in range(50):
        clock[0] += 1e6
        assert budget.next_delay() is not None


def test_each_table_has_a_budget_of_its_own(clock: list[float]) -> None:
    budget = TableRetryBudgets(RetriesConfig(max_duration_seconds=10))
    a, b = TableId("d", "a"), TableId("d", "b")
    assert budget.next_delay(a) is not None
    clock[0] += 11
    assert budget.next_delay(b) is not None
    assert budget.next_delay(a) is None
    budget.succeeded(a)
    assert budget.next_delay(a) is not None
