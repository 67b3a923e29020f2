"""Slices of a distributed log that executors apply: equal to the source, one commit a table, exact under replay."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from replicator_runtime.engine.slices import slice_size
from replicator_sdk import failpoint
from replicator_sdk.distributed.counted import Counted
from replicator_sdk.distributed.slices import SliceChanges
from replicator_sdk.errors import DataError, FencedError, ReplicatorError
from replicator_sdk.event import DDLEvent, DDLOperation
from replicator_sdk.offset import Position
from replicator_sdk.testing.contexts import TestTargetContext
from replicator_sdk.testing.histories.reference import RowChange
from replicator_sdk.testing.histories.values import difference
from replicator_sdk.testing.in_memory.partitioned import FolderLog, LogFolder, PartitionedOffset, widened
from replicator_target_delta import DeltaLakeTarget
from replicator_target_delta.consumer import DeltaConsumer
from tests.crash.removed_recovery import without
from tests.plugins.targets.changes import KEYED, KEYLESS, TABLE, batch, delete, insert, row, update
from tests.plugins.targets.delta.lake import Lake
from tests.runtime.engine.partitioned_shop import PartitionedShop, run_pipeline

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from replicator_sdk.distributed.slices import SliceOutcome
    from replicator_sdk.schema import TableId, TableSchema

START = PartitionedOffset((0, 0))


@pytest.fixture(autouse=True)
def _disarm() -> Iterator[None]:
    yield
    failpoint.arm("")


class Copy:
    """A log of two partitions and a lake; slices go there without the engine."""

    def __init__(self, folder: Path, lake: Lake, partitions: int = 2) -> None:
        self.folder = LogFolder(folder / "log", partitions)
        self.lake = lake

    def consumer(self, epoch: int = 1) -> DeltaConsumer:
        context = TestTargetContext(PartitionedOffset.from_fields, epoch=epoch, spark=self.lake.spark)
        return DeltaConsumer(self.lake.config, context)

    def take(
        self,
        consumer: DeltaConsumer,
        start: PartitionedOffset = START,
        tables: Mapping[TableId, TableSchema] | None = None,
        *,
        epoch: int = 1,
        repeats: bool = False,
        counted: Mapping[TableId, Counted] | None = None,
    ) -> SliceOutcome:
        """Apply all that is recorded after `start`."""
        log = FolderLog(self.folder, repeats=repeats)
        piece = log.plan(start, 1 << 30)
        assert piece is not None
        given = {KEYED.table: KEYED, KEYLESS.table: KEYLESS} if tables is None else tables
        return consumer.apply_slice(SliceChanges(piece, log.read, given, 1, epoch, repeats, counted=counted or {}))


@pytest.fixture
def copy(tmp_path: Path, lake: Lake) -> Copy:
    return Copy(tmp_path, lake)


def names(lake: Lake) -> dict[int, str]:
    return {r["id"]: r["name"] for r in lake.rows(TABLE) if not r.get("_is_deleted")}


@pytest.mark.parametrize(
    ("seed", "repeats", "place", "settings"),
    [
        (1, False, "delta.commit.after", {}),
        (2, True, "delta.slice.written", {"softDeletes": True, "metadataColumns": ["op"]}),
    ],
)
def test_a_random_history_ends_as_the_source(
    tmp_path: Path,
    lake: Lake,
    monkeypatch: pytest.MonkeyPatch,
    seed: int,
    place: str,
    settings: dict[str, Any],
    *,
    repeats: bool,
) -> None:
    """With a crash on the way, columns that come in the middle, and a table that comes late."""
    monkeypatch.setattr(slice_size, "_FIRST_BYTES", 12000)
    monkeypatch.setattr(slice_size, "_LEAST_BYTES", 12000)
    shop = PartitionedShop(tmp_path, seed, repeats=repeats)
    document = shop.document("delta", {"path": lake.config.path, **settings})
    shop.trade(25)
    failpoint.arm(f"{place}=raise")
    with pytest.raises(ReplicatorError, match=place):
        run_pipeline({**document, "retries": {"maxDurationSeconds": 0}, "onTableError": "stop"}, DeltaLakeTarget)
    shop.trade(20)
    shop.grow()
    shop.open_late_table()
    shop.trade(10)
    run_pipeline(document, DeltaLakeTarget)
    for schema in shop.schemas:
        assert difference(schema, shop.rows(schema.table), lake.read_table(schema)) == ""


def test_a_tables_commit_says_what_is_counted_with_it(copy: Copy) -> None:
    consumer = copy.consumer()
    changes = [insert(row(1, "a")), insert(row(2, "b")), update(row(1, "c")), delete({"id": 2})]
    copy.folder.append(changes, partition=0)
    copy.take(consumer, counted={TABLE: Counted("series", 10, 0, 5)})
    found = copy.consumer().progress(TABLE)
    assert found is not None
    assert found.counted == Counted("series", 12, 1, 6)


def test_rows_that_two_tasks_take_out_of_one_file_go_in_one_commit(copy: Copy) -> None:
    consumer = copy.consumer()
    copy.folder.append([insert(row(i, f"n{i}")) for i in range(20)], partition=0)
    copy.take(consumer)
    version = copy.lake.version(TABLE)
    copy.folder.append([update(row(i, "new")) for i in range(0, 10, 2)], partition=0)
    copy.folder.append([delete({"id": i}) for i in range(1, 10, 2)], partition=1)
    outcome = copy.take(consumer, PartitionedOffset((20, 0)))
    assert names(copy.lake) == dict.fromkeys(range(0, 10, 2), "new") | {i: f"n{i}" for i in range(10, 20)}
    assert copy.lake.version(TABLE) == version + 1
    tally = outcome.applied[TABLE]
    assert (tally.inserts, tally.updates, tally.deletes, tally.partitions) == (0, 5, 5, 2)


PAIRS = [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]
"""Of four partitions in two tasks: some pairs are read by one task, some by two."""


@pytest.mark.parametrize("is_old", [False, True])
def test_a_key_with_changes_in_two_partitions_stops_its_table_and_writes_no_row(
    tmp_path: Path, lake: Lake, *, is_old: bool
) -> None:
    copy = Copy(tmp_path, lake, partitions=4)
    consumer = copy.consumer()
    start = PartitionedOffset((0,) * 4)
    if is_old:
        copy.folder.append([insert(row(1, "old"))], partition=0)
        assert copy.take(consumer, start).failures == {}
        start = PartitionedOffset((1, 0, 0, 0))
    version = lake.version(TABLE) if is_old else -1
    for one, other in PAIRS:
        copy.folder = LogFolder(tmp_path / f"log{one}{other}", 4)
        for partition in range(4):
            copy.folder.append(
                [insert(row(10 + partition))] * (1 if is_old and not partition else 2), partition=partition
            )
        copy.folder.append([insert(row(1, "a"))], partition=one)
        copy.folder.append([insert(row(1, "b")), delete({"id": 1})], partition=other)
        outcome = copy.take(consumer, start, repeats=True)
        error = outcome.failures[TABLE]
        assert isinstance(error, DataError)
        assert (error.code, error.table) == ("RPL-5406", str(TABLE))
        assert KEYED.table not in outcome.applied
    assert (lake.version(TABLE) if is_old else -1) == version


def test_a_key_that_comes_to_another_partition_in_a_later_slice_is_one_row(copy: Copy) -> None:
    consumer = copy.consumer()
    copy.folder.append([insert(row(1, "old")), insert(row(2, "gone"))], partition=0)
    assert copy.take(consumer, repeats=True).failures == {}
    copy.folder.append([insert(row(1, "new")), delete({"id": 2})], partition=1)
    copy.folder.append([insert(row(3))], partition=0)
    assert copy.take(consumer, PartitionedOffset((2, 0)), repeats=True).failures == {}
    assert sorted((r["id"], r["name"]) for r in copy.lake.rows(TABLE)) == [(1, "new"), (3, None)]


def test_a_slice_that_comes_again_changes_nothing(copy: Copy) -> None:
    consumer = copy.consumer()
    copy.folder.append([insert(row(1, "a")), update(row(1, "b"))])
    copy.take(consumer)
    version = copy.lake.version(TABLE)
    outcome = copy.take(copy.consumer(epoch=2), epoch=2)
    assert outcome.applied.keys() == {TABLE}
    assert names(copy.lake) == {1: "b"}
    assert copy.lake.version(TABLE) == version


@pytest.mark.parametrize("place", ["delta.slice.written", "delta.slice.vectors_written"])
@pytest.mark.parametrize("part_is_gone", [False, True])
def test_files_that_a_crash_left_unnamed_belong_to_no_table(copy: Copy, place: str, *, part_is_gone: bool) -> None:
    """The twin takes them for rows of the table, which are then there twice."""
    copy.folder.append([insert(row(1, "a"))])
    copy.take(copy.consumer())
    copy.folder.append([update(row(1, "b")), insert(row(2, "c"))])
    start = PartitionedOffset((1, 0))
    failpoint.arm(f"{place}=raise")
    with contextlib.suppress(ReplicatorError):
        assert copy.take(copy.consumer(epoch=2), start, epoch=2).failures
    failpoint.arm("")
    with without("orphans") if part_is_gone else contextlib.nullcontext():
        copy.take(copy.consumer(epoch=3), start, epoch=3)
    found = sorted(r["id"] for r in copy.lake.rows(TABLE))
    assert found == ([1, 1, 2, 2] if part_is_gone else [1, 2])


def test_the_position_and_how_far_all_is_valid_are_in_the_commit(copy: Copy) -> None:
    copy.folder.append([insert(row(1, "a"))], 7, partition=0)
    copy.folder.append([insert(row(2, "b"))], 5, partition=1)
    outcome = copy.take(copy.consumer())
    progress = copy.consumer().progress(TABLE)
    assert progress is not None
    assert outcome.valid_through == progress.valid_through == 5
    assert progress.position.offset == PartitionedOffset((1, 1))


def test_sequence_numbers_are_the_logs_own(copy: Copy) -> None:
    copy.folder.append([insert(row(1, "a")), insert(row(2, "b"))], partition=0)
    copy.folder.append([insert(row(3, "c"))], partition=1)
    copy.take(copy.consumer())
    assert {r["id"]: r["_sequence_num"] for r in copy.lake.rows(TABLE)} == {1: 1, 2: 2, 3: 1}


def test_a_table_without_a_key_takes_inserts_from_everywhere(copy: Copy) -> None:
    copy.folder.append([insert({"name": "a", "number": 1}, KEYLESS)] * 2, partition=0)
    copy.folder.append([insert({"name": "a", "number": 1}, KEYLESS)], partition=1)
    copy.take(copy.consumer())
    assert [r["name"] for r in copy.lake.rows(KEYLESS.table)] == ["a"] * 3


@pytest.mark.parametrize("partition", [0, 1])
def test_a_table_without_a_key_takes_deletes_from_one_partition_only(copy: Copy, partition: int) -> None:
    """The order of several is unknown; the other tables go on."""
    gone: RowChange = delete({"name": "a", "number": 1}, KEYLESS)
    copy.folder.append([insert({"name": "a", "number": 1}, KEYLESS)] * 2, partition=0)
    copy.folder.append([insert(row(1, "x"))])
    copy.folder.append([gone], partition=partition)
    outcome = copy.take(copy.consumer())
    assert names(copy.lake) == {1: "x"}
    if partition == 0:
        assert [r["name"] for r in copy.lake.rows(KEYLESS.table)] == ["a"]
    else:
        assert getattr(outcome.failures[KEYLESS.table], "code", "") == "RPL-5404"


def test_a_table_without_a_key_for_whose_rows_removals_wait_is_refused(copy: Copy) -> None:
    """One stream has stored them, and then the pipeline was given to executors."""
    lone = batch(1, [delete({"name": "a", "number": 1}, KEYLESS)])
    lone.unordered = True
    lone.identity = replace(lone.identity, position=Position(PartitionedOffset((0, 0))))
    copy.consumer().apply_batch(lone)
    copy.folder.append([insert({"name": "a", "number": 1}, KEYLESS)], partition=0)
    outcome = copy.take(copy.consumer())
    assert getattr(outcome.failures[KEYLESS.table], "code", "") == "RPL-5404"


def test_a_table_under_another_schema_waits_and_the_others_are_applied(copy: Copy) -> None:
    copy.folder.append([insert(row(1, "x")), insert({"name": "a", "number": 1}, KEYLESS)])
    outcome = copy.take(copy.consumer(), tables={TABLE: KEYED})
    assert outcome.seen == (KEYLESS,)
    assert outcome.applied.keys() == {TABLE}
    assert not copy.lake.path(KEYLESS.table).exists()


def test_an_error_of_one_task_concerns_its_table_only(copy: Copy) -> None:
    """An update lacks a column that only the table could have, and the table has no such row."""
    copy.folder.append([update({"id": 4, "name": "n"})])
    copy.folder.append([insert({"name": "a", "number": 1}, KEYLESS)])
    outcome = copy.take(copy.consumer())
    assert {t: getattr(e, "code", "") for t, e in outcome.failures.items()} == {TABLE: "RPL-5401"}
    assert outcome.applied.keys() == {KEYLESS.table}


def test_an_older_run_cannot_apply_a_slice(copy: Copy) -> None:
    old = copy.consumer(epoch=1)
    copy.folder.append([insert(row(1, "a"))])
    copy.take(old)
    here = copy.folder.end()
    copy.folder.append([update(row(1, "c"))])
    copy.take(copy.consumer(epoch=2), here, epoch=2)
    here = copy.folder.end()
    copy.folder.append([insert(row(2, "b"))])
    with pytest.raises(FencedError):
        copy.take(old, here)
    assert names(copy.lake) == {1: "c"}


def test_ddl_between_slices_lets_the_next_one_through(copy: Copy) -> None:
    consumer = copy.consumer()
    narrow = KEYED.select(["id", "name"])
    copy.folder.append([insert({"id": 1, "name": "a"}, narrow)], partition=0)
    copy.take(consumer, tables={TABLE: narrow})
    here = PartitionedOffset((1, 0))
    step = widened(narrow, KEYED)
    assert step is not None
    event = DDLEvent(here, DDLOperation.ALTER_TABLE, TABLE, KEYED, alters=step.alters, position=Position(here, 1))
    consumer.apply_ddl(event)
    copy.folder.append([insert(row(2, "b", "t")), update(row(1, "c", "u"))], partition=0)
    copy.take(consumer, here)
    assert {r["id"]: r["note"] for r in copy.lake.rows(TABLE)} == {1: "u", 2: "t"}
