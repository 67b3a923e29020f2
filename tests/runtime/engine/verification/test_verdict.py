"""No comparison is at exactly one position, and yet what is reported as different differs, and what differs is found."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from replicator_runtime.engine.verification.verdict import KEY, OBSERVED, Verdict, of_each_kind

ROUNDS = 6


def observed(*keys: tuple[int, int], versioned: bool = True) -> Any:
    """Keys that differ by one row each: key and state."""
    return np.array([(key, 0, 0, 0, 1, state, versioned) for key, state in keys], OBSERVED)


def confirmed(verdict: Verdict) -> list[int]:
    return sorted(verdict.confirmed["k1"].tolist())


def pending(verdict: Verdict) -> list[int]:
    return sorted(verdict.pending["k1"].tolist())


def test_a_key_that_is_equal_once_is_equal() -> None:
    verdict = Verdict()
    verdict.take(observed((1, 10), (2, 20)), exact=False)
    verdict.take(observed((2, 21)), exact=False)
    verdict.take(observed((1, 10), (2, 21)), exact=False)
    assert (confirmed(verdict), pending(verdict)) == ([2], [])


def test_a_key_that_neither_side_changed_between_two_comparisons_differs() -> None:
    verdict = Verdict()
    verdict.take(observed((1, 10)), exact=False)
    assert confirmed(verdict) == []
    verdict.take(observed((1, 10)), exact=False)
    assert confirmed(verdict) == [1]


def test_a_key_that_always_changes_is_never_decided() -> None:
    verdict = Verdict()
    for state in range(ROUNDS):
        verdict.take(observed((1, state)), exact=False)
    assert (confirmed(verdict), pending(verdict)) == ([], [1])


def test_without_a_row_that_has_a_version_three_comparisons_are_needed() -> None:
    verdict = Verdict()
    for _ in range(2):
        verdict.take(observed((1, 10), versioned=False), exact=False)
        assert confirmed(verdict) == []
    verdict.take(observed((1, 10), versioned=False), exact=False)
    assert confirmed(verdict) == [1]


def test_a_comparison_at_one_position_decides_at_once() -> None:
    verdict = Verdict()
    verdict.take(observed((1, 10), (2, 20)), exact=False)
    verdict.take(observed((2, 21), versioned=False), exact=True)
    assert (confirmed(verdict), pending(verdict)) == ([2], [])


def test_nothing_that_differs_leaves_nothing_to_decide() -> None:
    verdict = Verdict()
    verdict.take(np.zeros(0, OBSERVED), exact=False)
    assert len(verdict.pending) == len(verdict.confirmed) == 0
    assert verdict.pending.dtype == KEY


@dataclass
class World:
    """One key at a source, in its log, and at a target that applies the log in batches: net, and at boundaries only.

    Values repeat, so that a row may go back to what it was; a row that is inserted again has a value of its own.
    """

    log: list[int | None] = field(default_factory=lambda: [0])
    applied: int = 0
    target: list[tuple[int, int]] = field(default_factory=lambda: [(0, 0)])
    """The target's rows: value, and the version of the row."""
    writes: int = 1
    inserted: int = 100
    damaged: bool = False

    def change(self, kind: int) -> None:
        """The source updates the row to one of three values, deletes or inserts it."""
        if self.log[-1] is None:
            self.inserted += 1
            self.log.append(self.inserted)
        else:
            self.log.append(None if kind == 3 else kind)

    def apply(self, count: int) -> None:
        """The target applies the next changes of the log in one batch: it writes the row whenever they touch one it may have."""
        upto = min(len(self.log) - 1, self.applied + count)
        if upto == self.applied:
            return
        existed = self.log[self.applied] is not None
        self.applied = upto
        value = self.log[upto]
        if value is None:
            self.damaged = self.damaged and not existed
            self.target = [] if existed else self.target
            return
        self.writes += 1
        self.target = [(value, self.writes)]
        self.damaged = False

    def damage(self, kind: str) -> None:
        """Another program changes the target."""
        if self.target:
            self.writes += 1
            row = self.target[0]
            self.target = {"delete": [], "double": [row, (row[0], self.writes)], "change": [(-1, self.writes)]}[kind]
            self.damaged = True


Step = tuple[str, int]


def go(world: World, steps: list[Step]) -> None:
    for what, number in steps:
        world.change(number) if what == "change" else world.apply(number + 1)


def compare(world: World, between: list[Step], after: list[Step], verdict: Verdict) -> None:
    """One comparison: the source's row now, and the target's once it has everything up to there, and perhaps more."""
    source, position = world.log[-1], len(world.log) - 1
    go(world, between)
    if world.applied < position:
        world.apply(position - world.applied)
    go(world, after)
    rows = [value for value, _ in world.target]
    expected = [] if source is None else [source]
    found = observed((1, hash((source, tuple(world.target)))), versioned=bool(rows))
    verdict.take(found if sorted(rows) != expected else found[:0], exact=world.applied == position)


def test_a_row_that_alternates_between_two_values_is_not_reported() -> None:
    """The source shows one value and the target the other, each time; only the versions say that the row was written."""
    world, verdict = World(), Verdict()
    for _ in range(ROUNDS):
        go(world, [("change", 1)])
        compare(world, [], [("change", 2), ("apply", 3)], verdict)
    assert (confirmed(verdict), pending(verdict)) == ([], [1])


def steps(chance: random.Random, most: int = 5) -> list[Step]:
    return [(chance.choice(["change", "apply"]), chance.randrange(4)) for _ in range(chance.randrange(most + 1))]


def compared(world: World, chance: random.Random) -> Verdict:
    """As many comparisons as there are at most, with changes before, within and after each."""
    verdict = Verdict()
    for _ in range(ROUNDS):
        go(world, steps(chance))
        compare(world, steps(chance), steps(chance, 2), verdict)
    return verdict


@pytest.mark.parametrize("seed", range(4))
def test_a_target_that_is_right_is_never_reported_as_different(seed: int) -> None:
    chance = random.Random(seed)
    for number in range(1500):
        assert confirmed(compared(World(), chance)) == [], number


@pytest.mark.parametrize("kind", ["delete", "double", "change"])
def test_a_target_that_stays_damaged_is_never_reported_as_equal(kind: str) -> None:
    """It is found, or undecided while it changes; a later change of the row repairs it, and then it may be equal."""
    chance, stayed = random.Random(kind), 0
    for number in range(1500):
        world = World()
        go(world, steps(chance))
        world.apply(len(world.log))
        world.damage(kind)
        was_damaged = world.damaged
        verdict = compared(world, chance) if chance.random() < 0.5 else still_compared(world)
        if was_damaged and world.damaged and world.log[-1] is not None:
            stayed += 1
            assert confirmed(verdict) + pending(verdict) == [1], number
    assert stayed > 100


def still_compared(world: World) -> Verdict:
    """The same while nothing changes, at positions that are not the same."""
    verdict = Verdict()
    for _ in range(ROUNDS):
        rows = [value for value, _ in world.target]
        found = observed((1, hash(tuple(world.target))), versioned=bool(rows))
        verdict.take(
            found if rows != [value for value in world.log[-1:] if value is not None] else found[:0], exact=False
        )
    assert pending(verdict) == []
    return verdict


@given(
    kinds=st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1), st.integers(0, 1)), max_size=40),
    count=st.integers(0, 30),
)
def test_of_each_kind_of_difference_some_are_shown(kinds: list[tuple[int, int, int]], count: int) -> None:
    kinds = [kind for kind in kinds if any(kind)]
    found = np.array([(n, 0, *kind, 0, True) for n, kind in enumerate(kinds)], OBSERVED)
    shown = of_each_kind(found, count)
    assert len(shown) == min(count, len(found))
    assert sorted(shown["k1"]) == list(shown["k1"])
    for kind in ("missing", "surplus", "different"):
        assert (shown[kind] > 0).sum() >= min((found[kind] > 0).sum(), count // 3)
