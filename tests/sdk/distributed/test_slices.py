"""What a task reads of a slice is counted and kept apart by table; how far all is valid needs every partition."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from replicator_sdk.datatype import INT64, STRING
from replicator_sdk.distributed.partitioned_log import LogPartition
from replicator_sdk.distributed.slices import SliceChanges, TableTally, read_partitions, share, valid_through
from replicator_sdk.errors import BugError
from replicator_sdk.event import DMLOperation
from replicator_sdk.offset import Position
from replicator_sdk.schema import Column, TableId, TableSchema
from replicator_sdk.target import TableProgress
from replicator_sdk.testing.histories.reference import RowChange
from replicator_sdk.testing.in_memory.partitioned import FolderLog, LogFolder, PartitionedOffset

THINGS = TableSchema(TableId("d", "things"), (Column("id", INT64), Column("text", STRING)), ("id",))
WIDER = TableSchema(THINGS.table, (*THINGS.columns, Column("more", INT64)), ("id",))
OTHER = TableSchema(TableId("d", "other"), (Column("id", INT64),), ("id",))


def insert(key: int, schema: TableSchema = THINGS) -> RowChange:
    return RowChange(schema, DMLOperation.INSERT, {"id": key})


def delete(key: int) -> RowChange:
    return RowChange(THINGS, DMLOperation.DELETE, {}, {"id": key})


@pytest.fixture
def log(tmp_path: Path) -> LogFolder:
    return LogFolder(tmp_path / "log", 2)


def test_changes_of_several_partitions_are_counted_by_table(log: LogFolder) -> None:
    log.append([insert(1), insert(2)], 10, partition=0)
    log.append([delete(1), insert(5, OTHER)], 20, partition=1)
    piece = FolderLog(log, repeats=True).plan(PartitionedOffset((0, 0)), 10_000)
    assert piece is not None
    found = read_partitions(FolderLog(log, repeats=True).read, piece.partitions, {THINGS.table: THINGS})
    tally = found.tallies[THINGS.table]
    assert (tally.inserts, tally.deletes, tally.partitions, tally.newest) == (2, 1, 2, 20)
    assert found.seen == [OTHER], "a table that is not wanted is reported, and not delivered"
    assert found.batches.keys() == {THINGS.table}
    assert valid_through(piece, found.read_until) == 10


def test_a_partition_that_took_no_part_leaves_open_how_far_all_is_valid(log: LogFolder) -> None:
    log.append([insert(1)], 10, partition=0)
    piece = FolderLog(log, repeats=True).plan(PartitionedOffset((0, 0)), 10_000)
    assert piece is not None
    assert valid_through(piece, {0: 10}) == -1


def test_partitions_are_shared_out_evenly() -> None:
    partitions = [LogPartition(i, str(i), None, -1, size) for i, size in enumerate([50, 10, 40, 30, 20])]
    shares = share(partitions, 2)
    assert sorted(p.index for one in shares for p in one) == [0, 1, 2, 3, 4]
    assert {sum(p.estimated_bytes for p in one) for one in shares} <= {70, 80}
    assert share(partitions, 16) == [(p,) for p in sorted(partitions, key=lambda p: -p.estimated_bytes)]
    assert share([], 2) == []


def test_records_beyond_the_known_schema_are_reported_and_reconciled(log: LogFolder) -> None:
    log.append([insert(1), insert(2, WIDER), insert(3)], partition=0)
    source = FolderLog(log, repeats=True)
    piece = source.plan(PartitionedOffset((0, 0)), 10_000)
    assert piece is not None
    found = read_partitions(source.read, piece.partitions, {THINGS.table: THINGS})
    assert found.seen == [WIDER, THINGS]
    step = source.reconcile(THINGS, WIDER)
    assert step is not None
    again = read_partitions(source.read, piece.partitions, {THINGS.table: step.schema})
    assert again.seen == []
    assert again.tallies[THINGS.table].rows == 3


def test_a_slice_bound_for_executors_survives_pickling(log: LogFolder) -> None:
    log.append([insert(1)])
    source = FolderLog(log, repeats=True)
    piece = source.plan(PartitionedOffset((0, 0)), 10_000)
    assert piece is not None
    changes = SliceChanges(piece, source.read, {THINGS.table: THINGS}, 1, 1)
    assert pickle.loads(pickle.dumps(changes)).identity == changes.identity
    assert changes.identity.position == Position(piece.end)


def test_no_slice_goes_beyond_the_end_it_is_given(log: LogFolder) -> None:
    log.append([insert(i) for i in range(10)], partition=0)
    log.append([insert(i) for i in range(10, 20)], partition=1)
    source = FolderLog(log, repeats=True)
    fence = PartitionedOffset((3, 9))
    first = source.plan(PartitionedOffset((0, 0)), 1000, fence)
    assert first is not None
    assert first.end == PartitionedOffset((3, 5))
    second = source.plan(first.end, 1000, fence)
    assert second is not None
    assert second.end == fence
    assert second.first_sequence > first.last_sequence


def test_offsets_off_one_chain_refuse_to_be_compared() -> None:
    with pytest.raises(BugError, match="not ordered"):
        assert PartitionedOffset((1, 2)) < PartitionedOffset((2, 1))


def test_tallies_add_up() -> None:
    assert (TableTally(1, 2, 3, 4, 1, 9) + TableTally(1, 0, 0, 1, 1, 5)) == TableTally(2, 2, 3, 5, 2, 9)


def test_how_far_all_is_valid_is_kept_with_the_progress() -> None:
    progress = TableProgress(1, 1, Position(PartitionedOffset((1, 2))), valid_through=77)
    assert TableProgress.from_json(progress.to_json(), PartitionedOffset.from_fields) == progress
    old = {k: v for k, v in progress.to_json().items() if k != "validThrough"}
    assert TableProgress.from_json(old, PartitionedOffset.from_fields).valid_through == -1
