"""Numbers are a function of the log's order and the saved offset, not of how a reader cuts or filters."""

from __future__ import annotations

import pytest

from replicator_runtime.engine.batching.event_queue import EventQueue
from replicator_runtime.engine.batching.sequencer import CommitMark, Item, SequencingEmitter
from replicator_sdk import ChangeBatch, DDLEvent, DDLOperation, DMLEvent, DMLOperation
from replicator_sdk.errors import BugError
from tests.runtime.engine.log_model import Place, batch, commits, table

A, B = table("a"), table("b")


def emitter(sequence: int = 0) -> tuple[SequencingEmitter, EventQueue[Item]]:
    queue: EventQueue[Item] = EventQueue(1 << 30)
    made = SequencingEmitter(queue, {A.table: A, B.table: B})
    made.start(Place(0), sequence)
    return made, queue


def drain(queue: EventQueue[Item]) -> list[Item]:
    items = []
    while (item := queue.get(0)) is not None:
        items.append(item)
    return items


def test_numbers_continue_after_the_saved_one_over_all_tables() -> None:
    made, queue = emitter(sequence=100)
    made.emit_batch(batch(A, [0, 2], [1, 2]))
    made.emit_batch(batch(B, [1], [3]))
    made.emit_commits(commits([3], 1))
    made.emit_batch(batch(B, [0], [4]))
    numbers = [
        i.sequence_numbers.tolist()
        for i in drain(queue)
        if isinstance(i, ChangeBatch) and i.sequence_numbers is not None
    ]
    assert numbers == [[101, 103], [102], [104]]


def test_events_left_out_by_the_reader_keep_their_numbers() -> None:
    """A table that is not captured leaves a gap, so that another selection never renumbers."""
    made, queue = emitter()
    made.emit_batch(batch(A, [5], [1]))
    made.emit_commits(commits([9], 1))
    first, mark = drain(queue)
    assert isinstance(first, ChangeBatch)
    assert first.sequence_numbers is not None
    assert first.sequence_numbers.tolist() == [6]
    assert isinstance(mark, CommitMark)
    assert mark.sequence_number == 9


def test_a_change_of_structure_keeps_its_ordinal_after_a_later_one_of_another_table() -> None:
    """Within a window, tables come in any order."""
    made, queue = emitter()
    for schema, ordinal in ((A, 5), (B, 3), (B, 7), (A, 6)):
        made.emit(DDLEvent(Place(0), DDLOperation.TRUNCATE_TABLE, schema.table, schema, ordinal=ordinal))
    made.emit_commits(commits([8], 1))
    made.emit(DDLEvent(Place(1), DDLOperation.TRUNCATE_TABLE, A.table, A))
    events = [item for item in drain(queue) if isinstance(item, DDLEvent)]
    assert [(event.ordinal, event.sequence_number) for event in events] == [(5, 6), (3, 4), (7, 8), (6, 7), (0, 9)]


def test_row_events_are_numbered_like_batches() -> None:
    """DDL and rows one by one; a COMMIT ends the window."""
    made, queue = emitter()
    start = Place(0)
    made.emit(DMLEvent(start, DMLOperation.INSERT, A.table, {"id": 1}))
    made.emit(DDLEvent(start, DDLOperation.TRUNCATE_TABLE, B.table, B))
    made.emit(DMLEvent(start, DMLOperation.DELETE, A.table, before={"id": 1}))
    made.emit(DMLEvent(Place(1), DMLOperation.COMMIT))
    first, ddl, second, mark = drain(queue)
    assert isinstance(first, ChangeBatch)
    assert first.sequence_numbers is not None
    assert first.sequence_numbers.tolist() == [1]
    assert isinstance(ddl, DDLEvent)
    assert (ddl.sequence_number, ddl.ordinal, ddl.offset) == (2, 1, start)
    assert isinstance(second, ChangeBatch)
    assert second.ordinals.tolist() == [2]
    assert second.before is not None
    assert second.before.to_pylist() == [{"id": 1}]
    assert isinstance(mark, CommitMark)
    assert (mark.sequence_number, mark.commits.last, mark.commits.events) == (3, Place(1), 3)


def test_ordinals_that_do_not_ascend_are_refused() -> None:
    made, _ = emitter()
    with pytest.raises(BugError, match="RPL-9003"):
        made.emit_batch(batch(A, [1, 1], [1, 2]))


def test_offsets_that_go_back_are_refused() -> None:
    made, _ = emitter()
    made.emit_commits(commits([1], 5))
    with pytest.raises(BugError, match="RPL-9004"):
        made.emit_commits(commits([1], 4))
