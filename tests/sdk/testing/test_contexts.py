"""The collecting emitter numbers as the runtime does, and holds readers to the rules."""

from __future__ import annotations

import threading
from dataclasses import replace

import numpy as np
import pytest

from replicator_sdk import (
    ChangeBatch,
    Commits,
    DDLEvent,
    DDLOperation,
    DMLEvent,
    DMLOperation,
    NumberOffset,
    ReaderClosed,
    TableId,
    single_commit,
)
from replicator_sdk.errors import BugError
from replicator_sdk.testing.contexts import CollectingEmitter
from replicator_sdk.testing.histories.batches import to_batch
from replicator_sdk.testing.histories.history import load_case, load_cases, parse_history
from replicator_sdk.testing.histories.reference import RowChange
from replicator_sdk.testing.recording import lay_out

SCHEMA = load_case("seed_transactions").tables["customers"]


def batch(*ordinals: int) -> ChangeBatch:
    rows = [RowChange(SCHEMA, DMLOperation.INSERT, {"id": o, "name": None}) for o in ordinals]
    return to_batch(rows, ordinals)


def truncate(ordinal: int) -> DDLEvent:
    return DDLEvent(NumberOffset(0), DDLOperation.TRUNCATE_TABLE, SCHEMA.table, SCHEMA, ordinal=ordinal)


def test_sequence_numbers_count_every_event_over_windows() -> None:
    emitter = CollectingEmitter(first_sequence=100)
    emitter.emit_batch(batch(0, 3))
    emitter.emit(truncate(2))
    emitter.emit_commits(single_commit(5, NumberOffset(1)))
    emitter.emit_batch(batch(0))
    emitter.emit_commits(single_commit(1, NumberOffset(2)))
    first, second = emitter.closed_windows
    assert isinstance(first.events[0], ChangeBatch)
    assert first.events[0].sequence_numbers is not None
    assert first.events[0].sequence_numbers.tolist() == [101, 104]
    assert isinstance(first.events[1], DDLEvent)
    assert first.events[1].sequence_number == 103
    assert isinstance(second.events[0], ChangeBatch)
    assert second.events[0].sequence_numbers is not None
    assert second.events[0].sequence_numbers.tolist() == [106]
    assert emitter.sequence == 106


def test_single_events_are_numbered_and_end_with_their_commit() -> None:
    emitter = CollectingEmitter()
    for key in range(2):
        emitter.emit(DMLEvent(NumberOffset(0), DMLOperation.INSERT, SCHEMA.table, {"id": key, "name": "x"}))
    emitter.emit(DMLEvent(NumberOffset(1), DMLOperation.COMMIT))
    laid = list(lay_out(emitter.closed_windows, {SCHEMA.table: SCHEMA}))
    assert [(entry.ordinal, entry.offset) for entry in laid] == [(0, NumberOffset(1)), (1, NumberOffset(1))]


def test_changes_are_laid_out_in_log_order_with_the_offset_of_their_transaction() -> None:
    emitter = CollectingEmitter()
    emitter.emit_batch(batch(1, 3))
    emitter.emit_batch(batch(0, 2))
    ends = np.array([2, 4], np.int64)
    emitter.emit_commits(Commits(ends, ends, lambda i: NumberOffset(i + 1)))
    laid = list(lay_out(emitter.closed_windows, {}))
    assert [(entry.ordinal, str(entry.offset)) for entry in laid] == [(0, "1"), (1, "1"), (2, "2"), (3, "2")]


@pytest.mark.parametrize(
    ("code", "batches", "ddl", "commits"),
    [
        ("RPL-9102", [(1, 1)], None, single_commit(2, NumberOffset(1))),
        ("RPL-9103", [(0, 1), (1, 2)], None, single_commit(3, NumberOffset(1))),
        ("RPL-9103", [(0, 5)], None, single_commit(5, NumberOffset(1))),
        ("RPL-9104", [(0, 1)], 3, Commits(np.array([2, 4]), np.array([0, 0]), lambda i: NumberOffset(i + 1))),
        ("RPL-9105", [(0,)], None, single_commit(1, NumberOffset(0))),
    ],
)
def test_a_reader_that_breaks_the_rules_is_stopped(
    code: str, batches: list[tuple[int, ...]], ddl: int | None, commits: Commits
) -> None:
    emitter = CollectingEmitter()
    emitter.emit_commits(single_commit(0, NumberOffset(0)))

    def window() -> None:
        for ordinals in batches:
            emitter.emit_batch(batch(*ordinals))
        if ddl is not None:
            emitter.emit(truncate(ddl))
        emitter.emit_commits(commits)

    with pytest.raises(BugError, match=code):
        window()


def test_a_change_of_structure_may_have_the_ordinal_of_another_tables_row_but_not_of_its_own() -> None:
    emitter = CollectingEmitter()
    emitter.emit_batch(batch(0, 1))
    emitter.emit(replace(truncate(1), table=TableId("d", "another")))
    emitter.emit_commits(single_commit(3, NumberOffset(1)))
    emitter.emit_batch(batch(0, 1))
    emitter.emit(truncate(1))
    with pytest.raises(BugError, match="RPL-9103"):
        emitter.emit_commits(single_commit(3, NumberOffset(2)))


def test_a_closed_emitter_ends_the_reader() -> None:
    emitter = CollectingEmitter()
    emitter.close()
    with pytest.raises(ReaderClosed):
        emitter.emit_batch(batch(0))
    with pytest.raises(ReaderClosed):
        emitter.emit_commits(single_commit(0, NumberOffset(1)))


def test_waiting_ends_when_the_offset_is_reached_or_time_is_up() -> None:
    emitter = CollectingEmitter()
    assert not emitter.wait_for(NumberOffset(1), 0.02)
    assert not emitter.wait_for(NumberOffset(1), 10, alive=lambda: False)
    thread = threading.Timer(0.05, lambda: emitter.emit_commits(single_commit(0, NumberOffset(3))))
    thread.start()
    assert emitter.wait_for(NumberOffset(1), 10)
    thread.join()


def test_every_case_says_what_it_shows_and_is_in_one_file() -> None:
    cases = load_cases()
    assert len(cases) > 50
    for case in cases:
        assert case.claim.endswith("."), case.name
        assert case.transactions, case.name


def test_an_unknown_step_or_key_in_a_case_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown step 'upsert'"):
        parse_history("x", {"claim": "c", "tables": {}, "transactions": [[{"upsert": "t"}]]})
    with pytest.raises(ValueError, match="need"):
        parse_history("x", {"claim": "c", "need": [], "tables": {}, "transactions": []})


def test_events_that_are_emitted_one_by_one_are_counted_changes_of_structure_too() -> None:
    emitter = CollectingEmitter()
    start = NumberOffset(0)
    for number in (1, 2):
        emitter.emit(DMLEvent(start, DMLOperation.INSERT, SCHEMA.table, {"id": number}))
        emitter.emit(DDLEvent(start, DDLOperation.TRUNCATE_TABLE, SCHEMA.table, SCHEMA))
        emitter.emit(DMLEvent(start, DMLOperation.INSERT, SCHEMA.table, {"id": number}))
        emitter.emit(DMLEvent(NumberOffset(number), DMLOperation.COMMIT))
    assert [window.ordinals for window in emitter.closed_windows] == [[(0,), (1,), (2,)]] * 2
    events = [event for window in emitter.closed_windows for event in window.events]
    assert [event.sequence_number for event in events if not isinstance(event, ChangeBatch)] == [1, 2, 3, 4, 5, 6]
