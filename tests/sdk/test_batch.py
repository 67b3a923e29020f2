"""Changes in columns, commits, and what a target receives."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from replicator_sdk import BatchIdentity, Commits, NumberOffset, Position, TableChanges, TableProgress, single_commit
from replicator_sdk.errors import BugError
from replicator_sdk.event import DMLOperation
from replicator_sdk.testing.histories.batches import from_batch, to_batch
from replicator_sdk.testing.histories.history import load_case
from replicator_sdk.testing.histories.reference import RowChange

NOTES = load_case("unchanged_column").tables["notes"]
INSERT = RowChange(NOTES, DMLOperation.INSERT, {"id": 1, "title": "t", "body": "b"})
UPDATE = RowChange(NOTES, DMLOperation.UPDATE, {"id": 2, "title": None}, {"id": 1}, frozenset({"body"}))
DELETE = RowChange(NOTES, DMLOperation.DELETE, {}, {"id": 2})
BATCH = to_batch([INSERT, UPDATE, DELETE], [0, 3, 4], 10, timestamp=5)


def test_arrays_of_unequal_length_and_rows_of_another_schema_are_refused() -> None:
    with pytest.raises(BugError, match="RPL-9001"):
        replace(BATCH, ordinals=np.arange(2))
    with pytest.raises(BugError, match="RPL-9001"):
        replace(BATCH, unchanged={"body": pa.array([True])})
    with pytest.raises(BugError, match="RPL-9002"):
        replace(BATCH, schema=NOTES.select(["title"]))


@given(st.integers(0, 3), st.integers(0, 3))
def test_a_slice_cuts_every_array(a: int, b: int) -> None:
    start, stop = min(a, b), max(a, b)
    part = BATCH.slice(start, stop)
    assert len(part) == stop - start
    assert part.op.equals(BATCH.op[start:stop])
    assert part.ordinals.tolist() == [0, 3, 4][start:stop]
    assert part.sequence_numbers is not None
    assert part.sequence_numbers.tolist() == [11, 14, 15][start:stop]
    assert part.timestamps is not None
    assert part.timestamps.tolist() == [5] * len(part)
    assert part.unchanged["body"].to_pylist() == [False, True, False][start:stop]
    assert [c.operation for c in from_batch(part)] == [c.operation for c in from_batch(BATCH)][start:stop]


def test_plain_changes_come_back_out_of_a_batch() -> None:
    keys = ({"id": 1, "title": None, "body": None}, {"id": 2, "title": None, "body": None})
    expected = [INSERT, replace(UPDATE, before=keys[0]), replace(DELETE, before=keys[1])]
    assert from_batch(BATCH) == expected


def test_bytes_are_counted() -> None:
    large = to_batch([replace(INSERT, row={"id": 1, "title": "t" * 10_000, "body": None})], [0])
    assert BATCH.nbytes < 10_000 < large.nbytes < 11_000


@given(st.lists(st.integers(0, 3), min_size=1, max_size=30), st.integers(-2, 40))
def test_commits_up_to_an_offset_are_counted(sizes: list[int], asked: int) -> None:
    ends = np.cumsum(np.array(sizes, np.int64))
    commits = Commits(ends, np.full(len(sizes), -1, np.int64), lambda i: NumberOffset(i + 1))
    assert commits.count_until(NumberOffset(asked)) == min(max(asked, 0), len(sizes))
    assert commits.last == NumberOffset(len(sizes))
    assert commits.events == sum(sizes)


def test_a_single_commit_may_be_empty() -> None:
    heartbeat = single_commit(0, NumberOffset(7))
    assert (len(heartbeat), heartbeat.events, heartbeat.last) == (1, 0, NumberOffset(7))


def test_table_changes_can_be_gone_through_again() -> None:
    identity = BatchIdentity(2, 3, 11, 15, Position(NumberOffset(9)))
    for batches in ([BATCH, BATCH], lambda: iter([BATCH, BATCH])):
        changes = TableChanges(NOTES, identity, batches, rows=6, nbytes=1)
        assert [len(list(changes.batches())) for _ in range(2)] == [2, 2]
        assert changes.table == NOTES.table
    assert str(identity) == "2-3-11-15", "a pure function of generation, epoch and sequence, never of a clock"


def test_progress_is_read_back_from_its_json_form() -> None:
    identity = BatchIdentity(2, 3, 11, 15, Position(NumberOffset(9), 4))
    snapshot = TableProgress(1, 1, Position(NumberOffset(0)), snapshot_chunks=frozenset({3, 1}), snapshot_id="plan")
    for progress in (TableProgress.of(identity), snapshot, replace(snapshot, snapshot_chunks=frozenset())):
        assert TableProgress.from_json(progress.to_json(), NumberOffset.from_fields) == progress
