"""Slices are as large as memory and ten seconds allow, and never so small that what each one costs anyway is most of the work."""

from __future__ import annotations

import random
from collections.abc import Callable
from statistics import median

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replicator_runtime.engine.run_state.run import Limits
from replicator_runtime.engine.slices.slice_size import SliceSize

_LIMITS = Limits(500_000, 128 << 20, 1.0, 1, 1, 1)
_RECORD_BYTES = 100
_MOST_BYTES = 500_000 * _RECORD_BYTES


@pytest.mark.parametrize(("seconds", "rows", "nbytes"), [(40.0, 10, 10), (0.1, 4_000_000, 10), (0.1, 10, 400 << 20)])
def test_slices_that_take_long_or_hold_much_make_the_next_ones_smaller(seconds: float, rows: int, nbytes: int) -> None:
    size = SliceSize(_LIMITS)
    before = size.limit_bytes
    size.learn(before, seconds, rows, nbytes)
    assert size.limit_bytes < before


def test_slices_of_a_backlog_take_as_long_as_the_target_lets_pass_between_them() -> None:
    """Else most of the time would be spent waiting."""
    size, slow = SliceSize(_LIMITS), SliceSize(_LIMITS, 90.0)
    for _ in range(30):
        for one in (size, slow):
            one.learn(one.limit_bytes, one.limit_bytes / 1e6, 10, 10)
    assert slow.limit_bytes / size.limit_bytes == pytest.approx(9, rel=0.2)


def test_slices_grow_while_there_is_a_backlog_and_stay_near_the_end() -> None:
    size = SliceSize(_LIMITS)
    before = size.limit_bytes
    size.learn(before // 10, 0.1, 10, 10)
    assert size.limit_bytes == before
    for _ in range(20):
        size.learn(size.limit_bytes, 1.0, 1000, 1000)
    assert size.limit_bytes > 100 * before


def drained(cost: Callable[[int], float], slices: int) -> list[tuple[int, float]]:
    """Bytes and seconds of slices that take what `cost` says of them."""
    size, done = SliceSize(_LIMITS), []
    for _ in range(slices):
        log_bytes = size.limit_bytes
        seconds = cost(log_bytes)
        done.append((log_bytes, seconds))
        size.learn(log_bytes, seconds, log_bytes // _RECORD_BYTES, log_bytes)
    return done


@settings(max_examples=200, deadline=None)
@given(
    fixed=st.floats(0.1, 90), seconds_a_megabyte=st.floats(0.01, 5), noise=st.floats(0, 0.3), seed=st.integers(0, 1000)
)
def test_however_dear_a_slice_is_the_backlog_goes_at_a_third_of_the_best_rate_or_in_ten_seconds_each(
    fixed: float, seconds_a_megabyte: float, noise: float, seed: int
) -> None:
    chance = random.Random(seed)

    def cost(log_bytes: int) -> float:
        return (fixed + seconds_a_megabyte * log_bytes / 1e6) * chance.uniform(1 - noise, 1 + noise)

    late = drained(cost, 40)[8:]
    rate = sum(b for b, _ in late) / sum(s for _, s in late)
    best = _MOST_BYTES / (fixed + seconds_a_megabyte * _MOST_BYTES / 1e6)
    assert rate > best / 3 or median(s for _, s in late) > 7
    assert rate > best / 6


def test_a_machine_that_becomes_slow_does_not_bring_slices_down_to_nothing() -> None:
    """As measured with other work on the cores: slices went from 6 to 18 seconds, then smaller and smaller at 12 each."""
    passed: list[int] = []

    def cost(log_bytes: int) -> float:
        passed.append(log_bytes)
        return (1.5 if len(passed) < 5 else 12.0) + log_bytes / 5e6

    late = drained(cost, 40)[10:]
    assert median(b for b, _ in late) > _MOST_BYTES / 3
