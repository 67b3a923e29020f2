"""Few rows that come all the time are gathered; a change after a quiet time, and many rows, wait a second."""

from __future__ import annotations

import time

import pytest

from replicator_runtime.engine.batching.batch_interval import EARLY_COMMITS, LONGEST, SHORTEST, BatchInterval


class Clock:
    """A stream that applies what has waited for the interval, on a clock of its own."""

    def __init__(self, fixed: float | None = None) -> None:
        self.now = 1000.0
        self.interval: BatchInterval
        self.fixed = fixed

    def batches(self, seconds: float, each: float, rows: int = 1) -> int:
        """How many batches `seconds` have, when `rows` come each `each` seconds."""
        until, commits, waiting, since = self.now + seconds, 0, 0, 0.0
        while self.now < until:
            self.now += each
            if not waiting:
                self.interval.waiting()
                since = self.now
            waiting += rows
            if self.now - since >= self.interval.seconds(waiting):
                self.interval.applied(waiting)
                commits, waiting = commits + 1, 0
        return commits


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(time, "monotonic", lambda: made.now)
    made.interval = BatchInterval(None)
    return made


def test_a_row_a_second_makes_a_commit_each_four_seconds(clock: Clock) -> None:
    assert clock.batches(60, 0.5) > 25  # as before, for half a minute
    clock.batches(120, 0.5)
    assert clock.interval.seconds() == LONGEST
    assert clock.batches(3600, 1) <= 900


def test_a_change_after_a_quiet_time_waits_a_second(clock: Clock) -> None:
    clock.batches(300, 0.5)
    clock.now += 20
    clock.interval.waiting()
    assert clock.interval.seconds() == SHORTEST


def test_rows_each_six_seconds_wait_a_second(clock: Clock) -> None:
    for _ in range(100):
        clock.now += 6
        clock.interval.waiting()
        assert clock.interval.seconds(1) == SHORTEST
        clock.now += 1
        clock.interval.applied(1)


def test_many_rows_wait_a_second_at_once_and_from_then_on(clock: Clock) -> None:
    clock.batches(300, 0.5)
    assert clock.interval.seconds(5000) == SHORTEST
    clock.interval.applied(5000)
    assert clock.interval.seconds(1) == SHORTEST
    assert clock.batches(600, 0.1, rows=30) > 480


def comes(clock: Clock, after: float) -> bool:
    """Whether a change that comes so long after the batch before need not wait; it is applied."""
    clock.now += after
    clock.interval.waiting()
    need_not = clock.interval.seconds(1, is_current=True) < 0.1
    clock.interval.applied(1)
    return need_not


def test_a_change_that_comes_alone_does_not_wait_until_the_budget_is_used_up(clock: Clock) -> None:
    assert all(comes(clock, 1.5) for _ in range(EARLY_COMMITS))
    assert sum(comes(clock, 1.5) for _ in range(2400)) <= 3600 / LONGEST + 2400 * 1.5 / LONGEST
    assert sum(comes(clock, 1.5) for _ in range(2400)) <= 3600 / LONGEST + 1
    clock.now += EARLY_COMMITS * LONGEST
    assert comes(clock, 1.5)


def test_changes_that_come_one_after_the_other_wait_for_more(clock: Clock) -> None:
    assert comes(clock, 1.5)
    assert not comes(clock, 0.5)
    assert comes(clock, 1.5)


def test_a_backlog_waits_whatever_the_budget_is(clock: Clock) -> None:
    clock.now += 20
    clock.interval.waiting()
    assert clock.interval.seconds(1) == SHORTEST


def test_what_the_pipeline_says_counts(clock: Clock) -> None:
    clock.interval = BatchInterval(2.0)
    clock.batches(600, 0.5)
    assert clock.interval.seconds() == clock.interval.seconds(5000) == clock.interval.seconds(is_current=True) == 2.0
