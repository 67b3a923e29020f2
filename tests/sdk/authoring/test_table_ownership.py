"""One run writes a table: its own replicator's, its own table's, and no newer run's; its record says how far it is."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from replicator_sdk.authoring.table_ownership import SUPERSEDED_HINT, TableOwnership, TableRecord, owner_of
from replicator_sdk.errors import FencedError, NeedsUserError
from replicator_sdk.offset import NumberOffset, Position
from replicator_sdk.schema import TableId
from replicator_sdk.target import TableProgress
from replicator_sdk.testing.contexts import TestTargetContext

ORDERS, OTHER = TableId("shop", "orders"), TableId("shop", "Orders")


class Ownership(TableOwnership):
    def foreign(self, whose: str) -> NeedsUserError:
        return NeedsUserError(f"the table is {whose}", code="RPL-7000", hint="move it away", table=str(self.table))

    def superseded(self, epoch: int | None) -> FencedError:
        return FencedError(f"run {epoch} has it", code="RPL-7001", hint=SUPERSEDED_HINT, table=str(self.table))


def context(epoch: int = 3, name: str = "orders", generation: int = 2) -> TestTargetContext:
    return TestTargetContext(NumberOffset.from_fields, epoch=epoch, generation=generation, name=name)


def at(number: int) -> Position:
    return Position(NumberOffset(number))


@pytest.fixture
def ownership() -> Ownership:
    return Ownership(ORDERS, context())


def record(ownership: TableOwnership, number: int = 5) -> TableRecord:
    return ownership.record(ownership.progress_at(None, at(number), 40), None)


def test_a_run_may_write_what_it_and_older_runs_wrote(ownership: Ownership) -> None:
    ownership.check(record(ownership))
    ownership.check(record(Ownership(ORDERS, context(epoch=2))))


def test_a_table_without_a_record_is_refused(ownership: Ownership) -> None:
    with pytest.raises(NeedsUserError, match="not written by a replicator"):
        ownership.check(None)


def test_a_table_of_another_replicator_is_refused_whatever_its_epoch_is(ownership: Ownership) -> None:
    for epoch in (1, 3, 9):
        foreign = record(Ownership(ORDERS, context(epoch=epoch, name="another")))
        with pytest.raises(NeedsUserError, match=f"of replicator {foreign.owner}"):
            ownership.check(foreign)


def test_a_table_that_a_newer_run_has_taken_over_is_refused(ownership: Ownership) -> None:
    with pytest.raises(FencedError, match="run 4 has it"):
        ownership.check(record(Ownership(ORDERS, context(epoch=4))))


def test_the_record_of_an_older_run_can_carry_the_epoch_of_a_newer_one(ownership: Ownership) -> None:
    """A target may store a takeover beside the progress."""
    with pytest.raises(FencedError):
        ownership.check(replace(record(ownership), epoch=4))


def test_a_table_that_holds_another_one_is_refused(ownership: Ownership) -> None:
    with pytest.raises(NeedsUserError, match=r"of another table of this replicator: shop\.Orders"):
        ownership.check(record(Ownership(OTHER, context())))


def test_an_older_run_learns_that_it_is_superseded_and_not_that_the_table_is_another(ownership: Ownership) -> None:
    with pytest.raises(FencedError):
        ownership.check(record(Ownership(OTHER, context(epoch=4))))


def test_the_former_name_is_accepted_during_a_rename(ownership: Ownership) -> None:
    ownership.check(record(Ownership(OTHER, context())), former=OTHER)


def test_the_place_of_a_dropped_table_may_be_taken(ownership: Ownership) -> None:
    ownership.check(replace(record(Ownership(OTHER, context())), dropped=True))


def test_a_position_is_reached_when_the_progress_is_there_or_beyond(ownership: Ownership) -> None:
    here = record(ownership, 5)
    assert [here.has_reached(at(n)) for n in (4, 5, 6)] == [True, True, False]
    assert not here.has_reached(Position(NumberOffset(5), 1))
    assert not replace(here, progress=None).has_reached(at(0))


def test_progress_at_a_position_keeps_the_snapshot_and_names_this_run(ownership: Ownership) -> None:
    before = TableProgress(1, 1, at(5), 40, "batch", frozenset({1}), "plan", 7)
    after = ownership.progress_at(before, at(6), 41)
    assert after == TableProgress(2, 3, at(6), 41, "", frozenset({1}), "plan", 7)
    assert ownership.progress_at(before, at(6), 1).last_sequence == 40
    assert ownership.progress_at(None, at(6), 41) == TableProgress(2, 3, at(6), 41)


def test_taking_over_changes_the_epoch_alone(ownership: Ownership) -> None:
    before = TableProgress(1, 1, at(5), 40, "batch", frozenset({1}), "plan", 7)
    assert ownership.taken_over(before) == replace(before, epoch=3)


def test_loaded_chunks_add_up_and_stay_known_after_the_snapshot(ownership: Ownership) -> None:
    """The same plan may be begun again after it was finished."""
    begun = ownership.record(ownership.snapshot_begun("plan", at(5)), None)
    assert begun.progress is not None
    assert begun.progress.snapshot_chunks == frozenset()
    one = ownership.record(ownership.chunks_loaded(begun.progress, [1]), begun)
    assert one.progress is not None
    two = ownership.record(ownership.chunks_loaded(one.progress, [0, 2]), one)
    assert two.progress is not None
    done = ownership.record(ownership.snapshot_finished(two.progress, at(6)), two)
    assert done.progress is not None
    assert done.progress.snapshot_chunks is None
    assert done.progress.position == at(6)
    altered = ownership.record(ownership.progress_at(done.progress, at(7)), done)
    assert altered.chunks_of("plan") == frozenset({0, 1, 2})
    assert altered.chunks_of("another plan") == frozenset()


def test_a_batch_and_a_new_plan_end_what_was_known_of_the_chunks(ownership: Ownership) -> None:
    loaded = ownership.record(ownership.chunks_loaded(ownership.snapshot_begun("plan", at(5)), [0]), None)
    assert ownership.record(TableProgress(2, 3, at(9)), loaded).chunks == frozenset()
    assert ownership.record(ownership.snapshot_begun("another", at(5)), loaded).chunks == frozenset()


def test_a_record_keeps_whether_the_table_is_dropped_until_it_is_said(ownership: Ownership) -> None:
    first = record(ownership)
    assert first.progress is not None
    dropped = ownership.record(first.progress, first, dropped=True)
    assert (first.dropped, dropped.dropped) == (False, True)
    assert ownership.record(first.progress, dropped).dropped
    assert not ownership.record(first.progress, dropped, dropped=False).dropped


def test_a_record_survives_json(ownership: Ownership) -> None:
    progress = ownership.chunks_loaded(ownership.snapshot_begun("plan", at(5)), [2, 1])
    stored = ownership.record(progress, None, dropped=True)
    assert TableRecord.from_json(json.loads(json.dumps(stored.to_json())), NumberOffset.from_fields) == stored


def test_the_owner_is_the_namespace_and_the_name_of_the_replicator() -> None:
    run = context()
    assert owner_of(run) == f"{run.namespace}/orders"
