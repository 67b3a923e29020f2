"""Batcher applies every change of the log exactly once, however windows are cut and wherever a replay starts."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replicator_runtime.engine.batching.batching import Batcher, TableBatch
from replicator_runtime.engine.batching.sequencer import CommitMark
from replicator_runtime.engine.tables.table_watermark import TableWatermark
from replicator_sdk import DDLEvent, DDLOperation, Position, TableId
from replicator_sdk.errors import BugError
from tests.runtime.engine.log_model import Place, batch, commits, table, values

TABLES = {name: table(name) for name in "ab"}
START = Place(0)
Log = list[list[tuple[str, bool]]]
Watermarks = dict[TableId, TableWatermark]


class Draws(Protocol):
    """Whatever makes choices."""

    def draw(self, strategy: Any) -> Any: ...


@dataclass
class Target:
    """What durable tables hold: the identities applied, and each table's own position."""

    applied: dict[str, list[int]] = field(default_factory=lambda: {name: [] for name in TABLES})
    positions: dict[str, Position] = field(default_factory=lambda: {name: Position(START) for name in TABLES})

    def take(self, gathered: list[TableBatch]) -> None:
        for item in gathered:
            name, position = item.changes.table.table, item.changes.identity.position
            assert self.positions[name] <= position, "a position never goes back"
            found = values(item.changes)
            assert item.changes.rows == len(found)
            self.applied[name] += found
            self.positions[name] = position
            item.close()

    def watermarks(self) -> Watermarks:
        return {TABLES[n].table: TableWatermark(p) for n, p in self.positions.items()}


# A transaction is a list of events: ("a" | "b", is_ddl).
events = st.tuples(st.sampled_from("ab"), st.booleans())
transactions = st.lists(st.lists(events, max_size=5), min_size=1, max_size=8)


def identity(number: int, rank: int) -> int:
    return number * 100 + rank


def replay(log: Log, start: int, target: Target, data: st.DataObject, *, spill: bool) -> int:
    """Read from `start`, with random window cuts, until a random end; returns the offset that was saved."""
    watermarks = target.watermarks()
    batcher = Batcher((Place(start), 0), watermarks, generation=1, epoch=1, spill_bytes=0 if spill else 1 << 30)
    with closing(batcher):
        return _replayed(log, start, batcher, target, watermarks, data)


def _replayed(
    log: Log, start: int, batcher: Batcher, target: Target, watermarks: Watermarks, data: st.DataObject
) -> int:
    saved, at = start, start
    while at < len(log):
        if data.draw(st.integers(0, 9)) == 0:
            break  # crash: what is gathered is lost
        at = _window(log, at, batcher, target, watermarks, data)
        if data.draw(st.booleans()):
            target.take(batcher.take())
            saved = at
            for name, position in target.positions.items():
                watermarks[TABLES[name].table].position = max(watermarks[TABLES[name].table].position, position)
            if data.draw(st.integers(0, 4)) == 0:
                return data.draw(st.integers(start, saved))  # crash before the offset was saved
    else:
        target.take(batcher.take())
        saved = at
    return saved


def _window(log: Log, at: int, batcher: Batcher, target: Target, watermarks: Watermarks, data: Draws) -> int:
    """One window: a run of transactions; one that holds DDL starts a window (the contract's rule)."""
    first, ordinal = at, 0
    ends: list[int] = []
    while at < len(log):
        if ends and any(ddl for _, ddl in log[at]):
            break
        for rank, (name, ddl) in enumerate(log[at]):
            if ddl:
                _schema_change(name, ordinal, batcher, target, watermarks)
            else:
                batcher.add(batch(TABLES[name], [ordinal], [identity(at, rank)]))
            ordinal += 1
        at += 1
        ends.append(ordinal)
        if data.draw(st.booleans()):
            break
    batcher.commit(CommitMark(commits(ends, first + 1), Place(first), ordinal))
    return at


def _schema_change(name: str, ordinal: int, batcher: Batcher, target: Target, watermarks: Watermarks) -> None:
    """What the stream does with a DDL event."""
    schema = TABLES[name]
    event = DDLEvent(batcher.offset, DDLOperation.ALTER_TABLE, schema.table, schema, ordinal=ordinal)
    target.take(batcher.cut(event))
    position = Position(batcher.offset, ordinal + 1)
    watermark = watermarks[schema.table]
    watermark.position = max(watermark.position, target.positions[name])
    if not position <= watermark.position:
        target.positions[name] = watermark.position = position


@pytest.mark.parametrize("spill", [False, True])
@settings(max_examples=150, deadline=None)
@given(log=transactions, data=st.data())
def test_every_change_is_applied_exactly_once_over_crashes_and_other_cuts(
    spill: bool, log: Log, data: st.DataObject
) -> None:
    target = Target()
    saved = 0
    for _ in range(20):
        saved = replay(log, saved, target, data, spill=spill)
        if saved == len(log):
            break
    else:
        replay_to_end(log, saved, target)
    for name in TABLES:
        wanted = [identity(n, r) for n, tx in enumerate(log) for r, (t, ddl) in enumerate(tx) if t == name and not ddl]
        assert target.applied[name] == wanted


def replay_to_end(log: Log, start: int, target: Target) -> None:
    class Straight:
        def draw(self, strategy: object) -> bool:
            return False

    batcher = Batcher((Place(start), 0), watermarks := target.watermarks(), generation=1, epoch=1, spill_bytes=1 << 30)
    at = start
    while at < len(log):
        at = _window(log, at, batcher, target, watermarks, Straight())
    target.take(batcher.take())


def test_a_batch_never_splits_a_transaction() -> None:
    """Changes of a transaction that has not ended are not handed out."""
    batcher = Batcher((START, 0), Target().watermarks(), generation=1, epoch=1, spill_bytes=1 << 30)
    batcher.add(batch(TABLES["a"], [0], [1]))
    assert batcher.empty
    assert batcher.take() == []
    batcher.commit(CommitMark(commits([1], 1), START, 1))
    [item] = batcher.take()
    assert values(item.changes) == [1]
    assert item.changes.identity.position == Position(Place(1))


def test_commit_times_are_those_of_each_transaction() -> None:
    """A row's timestamp is its own transaction's, also across an empty transaction in one window."""
    batcher = Batcher((START, 0), Target().watermarks(), generation=1, epoch=1, spill_bytes=1 << 30)
    batcher.add(batch(TABLES["a"], [0, 1, 2], [1, 2, 3]))
    batcher.commit(CommitMark(commits([1, 1, 3], 1), START, 3))
    [item] = batcher.take()
    [part] = item.changes.batches()
    assert part.timestamps is not None
    assert part.timestamps.tolist() == [1000, 1002, 1002]
    assert item.changes.source_timestamp == 1002


def test_a_batch_says_up_to_when_its_table_has_all_changes() -> None:
    """The newest commit of the log so far; where the log is in no order of commits what its reader says last."""
    marks = Target().watermarks()
    batcher = Batcher((START, 0), marks, generation=1, epoch=1, spill_bytes=1 << 30)
    batcher.add(batch(TABLES["a"], [0, 1], [1, 2]))
    batcher.commit(CommitMark(commits([1, 2], 1), START, 2))
    batcher.add(batch(TABLES["b"], [0], [3]))
    batcher.commit(CommitMark(commits([1], 3), Place(2), 3))
    assert [item.changes.valid_through for item in batcher.take()] == [1001, 1001]
    batcher.add(batch(TABLES["a"], [0], [4]))
    batcher.commit(CommitMark(replace(commits([1], 4), valid_through=-1), Place(3), 4))
    assert [item.changes.valid_through for item in batcher.take()] == [1001]
    batcher.add(batch(TABLES["a"], [0], [5]))
    batcher.commit(CommitMark(replace(commits([1], 5), valid_through=1500), Place(4), 5))
    assert [item.changes.valid_through for item in batcher.take()] == [1500]


def test_a_schema_change_after_another_commit_in_one_window_is_refused() -> None:
    """Its place would differ between replays, so the engine stops rather than guesses."""
    batcher = Batcher((START, 0), Target().watermarks(), generation=1, epoch=1, spill_bytes=1 << 30)
    event = DDLEvent(START, DDLOperation.ALTER_TABLE, TABLES["a"].table, TABLES["a"], ordinal=3)
    batcher.cut(event)
    with pytest.raises(BugError, match="RPL-9006"):
        batcher.commit(CommitMark(commits([1, 4], 1), START, 4))


def test_a_transaction_larger_than_memory_goes_to_disk_and_comes_back_whole() -> None:
    """With spilling at every batch the changes, their order and their times are the same."""
    batcher = Batcher((START, 0), Target().watermarks(), generation=1, epoch=1, spill_bytes=0)
    for i in range(0, 50, 5):
        batcher.add(batch(TABLES["a"], list(range(i, i + 5)), list(range(i, i + 5))))
    batcher.commit(CommitMark(commits([50], 1), START, 50))
    [item] = batcher.take()
    assert values(item.changes) == list(range(50))
    assert values(item.changes) == list(range(50)), "batches() starts again at each call"
    item.close()


@pytest.mark.parametrize("spill_bytes", [0, 1 << 30])
def test_changes_in_and_after_the_overlap_are_never_applied_together(spill_bytes: int) -> None:
    """The border is the end of the last transaction the snapshot's rows may hold, also inside a window."""
    watermarks = {TABLES["a"].table: TableWatermark(Position(START), overlap_until=Place(2))}
    batcher = Batcher((START, 0), watermarks, generation=1, epoch=1, spill_bytes=spill_bytes)
    batcher.add(batch(TABLES["a"], [0, 1, 2, 3], [1, 2, 3, 4]))
    batcher.commit(CommitMark(commits([1, 2, 3, 4], 1), START, 4))
    batcher.add(batch(TABLES["a"], [0], [5]))
    batcher.commit(CommitMark(commits([1], 5), Place(4), 5))
    inside, after = batcher.take()
    assert (values(inside.changes), inside.changes.overlap) == ([1, 2], True)
    assert inside.changes.identity.position == Position(Place(2))
    assert (values(after.changes), after.changes.overlap) == ([3, 4, 5], False)
    assert after.changes.identity.position == Position(Place(5))
    inside.close()
    after.close()
