"""Slices of a distributed log that executors stage: equal to the source, one commit a table, exact under replay."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from replicator_runtime.engine.slices import slice_size
from replicator_sdk import failpoint
from replicator_sdk.distributed.counted import Counted
from replicator_sdk.distributed.slices import SliceChanges
from replicator_sdk.errors import DataError, FencedError, ReplicatorError, RetryableError
from replicator_sdk.event import DDLEvent, DDLOperation
from replicator_sdk.offset import Position
from replicator_sdk.testing.contexts import TestTargetContext
from replicator_sdk.testing.histories.values import difference
from replicator_sdk.testing.in_memory.partitioned import FolderLog, LogFolder, PartitionedOffset, widened
from replicator_target_bigquery import BigQueryTarget
from replicator_target_bigquery.batch import slice_apply, staging, table_merge
from replicator_target_bigquery.batch.consumer import BatchMergeConsumer
from replicator_target_bigquery.commit_log.commit import TableState
from replicator_target_bigquery.load.uploads import Folder
from tests.plugins.targets.bigquery.support.changes import KEYED, KEYLESS, batch, delete, insert, row, update
from tests.plugins.targets.bigquery.support.project import Project
from tests.runtime.engine.partitioned_shop import PartitionedShop, run_pipeline
from tests.services.bigquery.emulators import Emulators, target_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from replicator_sdk.distributed.slices import SliceOutcome
    from replicator_sdk.schema import TableId, TableSchema

START = PartitionedOffset((0, 0))
TABLE = KEYED.table
A = {"name": "a", "number": 1}


class Copy:
    """A log of some partitions and a dataset; slices go there without the engine."""

    def __init__(self, folder: Path, project: Project, partitions: int = 2) -> None:
        self.folder = LogFolder(folder / "log", partitions)
        self.project = project
        self._consumers: list[BatchMergeConsumer] = []

    def consumer(self, epoch: int = 1) -> BatchMergeConsumer:
        context = TestTargetContext(PartitionedOffset.from_fields, epoch=epoch, spark=self.project.spark)
        made = BatchMergeConsumer(self.project.config, context)
        self._consumers.append(made)
        return made

    def take(
        self,
        consumer: BatchMergeConsumer,
        start: PartitionedOffset = START,
        tables: Mapping[TableId, TableSchema] | None = None,
        *,
        epoch: int = 1,
        repeats: bool = False,
        lacking_rows: frozenset[TableId] = frozenset(),
        counted: Mapping[TableId, Counted] | None = None,
    ) -> SliceOutcome:
        """Apply all that is recorded after `start`."""
        log = FolderLog(self.folder, repeats=repeats)
        piece = log.plan(start, 1 << 30)
        assert piece is not None
        given = {KEYED.table: KEYED, KEYLESS.table: KEYLESS} if tables is None else tables
        changes = SliceChanges(piece, log.read, given, 1, epoch, repeats, lacking_rows, counted=counted or {})
        return consumer.apply_slice(changes)

    def names(self) -> dict[int, str]:
        return {int(key): name for key, name in self.project.select("SELECT id, name FROM {d}.customers")}

    def log(self) -> list[list[Any]]:
        return sorted(self.project.select("SELECT name, number FROM {d}.log"))

    def commits(self, table: str = "customers") -> int:
        found = self.project.select(f"SELECT COUNT(*) FROM {{d}}._replicator_commits WHERE table_name = '{table}'")
        return int(found[0][0])

    def close(self) -> None:
        for consumer in self._consumers:
            consumer.stop()


@pytest.fixture
def copy(tmp_path: Path, project: Project) -> Any:
    made = Copy(tmp_path, project)
    yield made
    made.close()


@pytest.mark.timeout(300)
def test_a_tables_commit_says_what_is_counted_with_it(copy: Copy) -> None:
    copy.folder.append([insert(row(1, "a")), insert(row(2, "b")), update(row(1, "c"))], partition=0)
    copy.take(copy.consumer(), counted={KEYED.table: Counted("series", 10, 0, 5)})
    found = copy.consumer().progress(KEYED.table)
    assert found is not None
    assert found.counted == Counted("series", 12, 1, 5)


def loads(project: Project) -> list[Sequence[str]]:
    """The files of each load."""
    found = [job.body["configuration"]["load"] for job in project.emulators.gate.jobs if job.kind == "load"]
    return [load["sourceUris"] for load in found]


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("seed", "repeats", "place", "settings"),
    [(1, False, "bigquery.commit.after", {}), (2, True, "bigquery.slice.written", {"softDeletes": True})],
)
def test_a_random_history_ends_as_the_source(
    tmp_path: Path,
    bigquery_emulators: Emulators,
    monkeypatch: pytest.MonkeyPatch,
    spark_on_demand: Callable[[], SparkSession],
    seed: int,
    place: str,
    settings: dict[str, Any],
    *,
    repeats: bool,
) -> None:
    """With a crash on the way, columns that come in the middle, and a table that comes late."""
    monkeypatch.setattr(slice_size, "_FIRST_BYTES", 12000)
    monkeypatch.setattr(slice_size, "_LEAST_BYTES", 12000)
    bigquery_emulators.gate.clear()
    spark_on_demand()
    shop = PartitionedShop(tmp_path, seed, repeats=repeats)
    project = Project(bigquery_emulators, soft_deletes="softDeletes" in settings)
    document = shop.document("bigquery", target_settings(bigquery_emulators, project.dataset, **settings))
    shop.trade(20)
    failpoint.arm(f"{place}=raise")
    with pytest.raises(ReplicatorError, match=place):
        run_pipeline({**document, "retries": {"maxDurationSeconds": 0}, "onTableError": "stop"}, BigQueryTarget)
    shop.trade(15)
    shop.grow()
    shop.open_late_table()
    shop.trade(10)
    run_pipeline(document, BigQueryTarget)
    for schema in shop.schemas:
        assert difference(schema, shop.rows(schema.table), project.read_table(schema)) == ""
    assert project.files() == []


def test_a_slice_is_one_load_and_one_commit_a_table(copy: Copy) -> None:
    consumer = copy.consumer()
    copy.folder.append([insert(row(i, f"n{i}")) for i in range(20)], partition=0)
    copy.take(consumer)
    commits, before = copy.commits(), len(loads(copy.project))
    copy.folder.append([update(row(i, "new")) for i in range(0, 10, 2)], partition=0)
    copy.folder.append([delete({"id": i}) for i in range(1, 10, 2)], partition=1)
    outcome = copy.take(consumer, PartitionedOffset((20, 0)))
    assert copy.names() == dict.fromkeys(range(0, 10, 2), "new") | {i: f"n{i}" for i in range(10, 20)}
    (files,) = loads(copy.project)[before:]
    assert len(files) == 2, "each task has written one"
    assert copy.commits() == commits + 1
    assert copy.project.files() == []
    tally = outcome.applied[TABLE]
    assert (tally.inserts, tally.updates, tally.deletes, tally.partitions) == (0, 5, 5, 2)


def test_no_row_is_written_by_the_driver(copy: Copy, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is replaced here is not replaced in the executors' processes."""

    def refuse(*_: object) -> None:
        raise AssertionError("the driver writes rows")

    copy.folder.append([insert(row(1, "a"))], partition=0)
    monkeypatch.setattr(Folder, "write", refuse)
    copy.take(copy.consumer())
    assert copy.names() == {1: "a"}


PAIRS = [(0, 1), (0, 2), (1, 3)]
"""Of four partitions in two tasks: some pairs are read by one task, some by two."""


@pytest.mark.parametrize("is_old", [False, True])
def test_a_key_with_changes_in_two_partitions_stops_its_table_and_writes_no_row(
    tmp_path: Path, project: Project, *, is_old: bool
) -> None:
    copy = Copy(tmp_path, project, partitions=4)
    consumer = copy.consumer()
    start = PartitionedOffset((0,) * 4)
    if is_old:
        copy.folder.append([insert(row(1, "old"))], partition=0)
        assert copy.take(consumer, start).failures == {}
        start = PartitionedOffset((1, 0, 0, 0))
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
        assert (error.code, error.table) == ("RPL-6543", str(TABLE))
        assert TABLE not in outcome.applied
    assert copy.names() == ({1: "old"} if is_old else {})
    copy.close()


def test_a_key_that_one_partition_lacks_columns_of_is_found_in_the_other(copy: Copy) -> None:
    """Updates that lack columns are staged as net rows, of each partition for itself."""
    consumer = copy.consumer()
    copy.folder.append([insert(row(1, "old", "note"))], partition=0)
    copy.take(consumer)
    copy.folder.append([update({"id": 1, "name": "a"})], partition=0)
    copy.folder.append([update({"id": 1, "name": "b"})], partition=1)
    assert getattr(copy.take(consumer, PartitionedOffset((1, 0))).failures[TABLE], "code", "") == "RPL-6543"
    assert copy.names() == {1: "old"}


def test_updates_that_lack_columns_keep_the_targets_values(copy: Copy) -> None:
    consumer = copy.consumer()
    copy.folder.append([insert(row(i, "old", f"t{i}")) for i in range(4)], partition=0)
    copy.take(consumer)
    copy.folder.append([update({"id": 0, "name": "a"}), update({"id": 0, "name": "b"})], partition=0)
    copy.folder.append([update(row(1, "whole", "new"))], partition=1)
    assert copy.take(consumer, PartitionedOffset((4, 0))).failures == {}
    found = copy.project.select("SELECT id, name, note FROM {d}.customers ORDER BY id")
    assert found == [["0", "b", "t0"], ["1", "whole", "new"], ["2", "old", "t2"], ["3", "old", "t3"]]


def test_a_key_that_comes_to_another_partition_in_a_later_slice_is_one_row(copy: Copy) -> None:
    consumer = copy.consumer()
    copy.folder.append([insert(row(1, "old")), insert(row(2, "gone"))], partition=0)
    assert copy.take(consumer, repeats=True).failures == {}
    copy.folder.append([insert(row(1, "new")), delete({"id": 2})], partition=1)
    copy.folder.append([insert(row(3))], partition=0)
    assert copy.take(consumer, PartitionedOffset((2, 0)), repeats=True).failures == {}
    assert copy.names() == {1: "new", 3: None}


def test_a_slice_that_comes_again_changes_nothing(copy: Copy) -> None:
    copy.folder.append([insert(row(1, "a")), update(row(1, "b"))])
    copy.take(copy.consumer())
    commits = copy.commits()
    outcome = copy.take(copy.consumer(epoch=2), epoch=2)
    assert outcome.applied.keys() == {TABLE}
    assert copy.names() == {1: "b"}
    assert copy.commits() == commits + 1, "the claim of the second run"


@pytest.mark.parametrize("position_is_checked", [True, False])
def test_a_slice_that_a_crash_left_committed_is_not_applied_again(
    copy: Copy, monkeypatch: pytest.MonkeyPatch, *, position_is_checked: bool
) -> None:
    """The twin, in which the table's position decides nothing, has its rows twice."""
    copy.folder.append([insert(A, KEYLESS)], partition=0)
    failpoint.arm("bigquery.commit.after=raise")
    assert copy.take(copy.consumer()).failures
    failpoint.arm("")
    if not position_is_checked:
        monkeypatch.setattr(TableState, "has_reached", lambda self, position: False)
    copy.take(copy.consumer(epoch=2), epoch=2)
    assert copy.log() == [["a", "1"]] * (1 if position_is_checked else 2)


@pytest.mark.parametrize("place", ["bigquery.slice.written", "bigquery.staging.loaded", "bigquery.commit.before"])
@pytest.mark.parametrize("batch_is_checked", [True, False])
def test_rows_that_a_crash_left_staged_are_not_merged(
    copy: Copy, monkeypatch: pytest.MonkeyPatch, place: str, *, batch_is_checked: bool
) -> None:
    """The twin merges all that is staged: rows of a load that no commit followed are there twice."""
    copy.folder.append([insert(A, KEYLESS)], partition=0)
    failpoint.arm(f"{place}=raise")
    with contextlib.suppress(ReplicatorError):
        assert copy.take(copy.consumer()).failures
    failpoint.arm("")
    if not batch_is_checked:
        _merge_all_that_is_staged(monkeypatch)
    copy.take(copy.consumer(epoch=2), epoch=2)
    doubled = not batch_is_checked and place != "bigquery.slice.written"
    assert copy.log() == [["a", "1"]] * (2 if doubled else 1)
    assert copy.project.files() == []


def _merge_all_that_is_staged(patch: pytest.MonkeyPatch) -> None:
    """Whether a staged row is of the batch is not checked, and neither is how many there are."""
    true_load = staging.load

    def load(table: Any, *args: Any) -> Any:
        return replace(true_load(table, *args), query=f"(SELECT * FROM {table.ref.staging_sql})")

    patch.setattr(slice_apply, "load", load)
    patch.setattr(table_merge, "UNSTAGED", "ready")


def test_rows_that_are_gone_before_the_merge_are_staged_again_in_the_same_run(
    copy: Copy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slice that comes again has other files and another job: the name of a job that ran is used up."""
    consumer, true_load = copy.consumer(), staging.load

    def load_and_lose(table: Any, *args: Any) -> Any:
        staged = true_load(table, *args)
        copy.project.select("DELETE FROM {d}._staging_log WHERE TRUE")
        return staged

    copy.folder.append([insert(A, KEYLESS)], partition=0)
    monkeypatch.setattr(slice_apply, "load", load_and_lose)
    error = copy.take(consumer).failures[KEYLESS.table]
    assert isinstance(error, RetryableError)
    assert error.code == "RPL-6530"
    monkeypatch.setattr(slice_apply, "load", true_load)
    assert copy.take(consumer).failures == {}
    assert copy.log() == [["a", "1"]]


def test_the_position_and_how_far_all_is_valid_are_in_the_commit(copy: Copy) -> None:
    copy.folder.append([insert(row(1, "a"))], 7, partition=0)
    copy.folder.append([insert(row(2, "b"))], 5, partition=1)
    outcome = copy.take(copy.consumer())
    progress = copy.consumer().progress(TABLE)
    assert progress is not None
    assert outcome.valid_through == progress.valid_through == 5
    assert progress.position.offset == PartitionedOffset((1, 1))


def test_a_table_without_a_key_takes_removals_from_every_partition(copy: Copy) -> None:
    """One statement merges the rows of all tasks, so that two removals of equal rows take two of them."""
    consumer = copy.consumer()
    copy.folder.append([insert(A, KEYLESS)] * 3, partition=0)
    copy.take(consumer)
    copy.folder.append([delete(A, KEYLESS), insert({**A, "number": 2}, KEYLESS)], partition=0)
    copy.folder.append([delete(A, KEYLESS)], partition=1)
    assert copy.take(consumer, PartitionedOffset((3, 0))).failures == {}
    assert copy.log() == [["a", "1"], ["a", "2"]]


def test_a_removal_of_a_table_without_a_key_waits_for_its_row_in_a_later_slice(copy: Copy) -> None:
    """It is from one of two partitions with changes, so its insert may be in the other."""
    consumer = copy.consumer()
    copy.folder.append([delete(A, KEYLESS)], partition=0)
    copy.folder.append([insert({**A, "number": 2}, KEYLESS)], partition=1)
    assert copy.take(consumer).failures == {}
    assert copy.log() == [["a", "2"]]
    copy.folder.append([insert(A, KEYLESS)] * 2, partition=1)
    assert copy.take(consumer, PartitionedOffset((1, 1))).failures == {}
    assert copy.log() == [["a", "1"], ["a", "2"]]


def test_a_removal_waits_for_no_row_where_inserts_are_left_out(copy: Copy) -> None:
    """They would wait for ever: the twin above shows that they do where inserts arrive."""
    consumer = copy.consumer()
    copy.folder.append([delete(A, KEYLESS)], partition=0)
    copy.folder.append([insert({**A, "number": 2}, KEYLESS)], partition=1)
    copy.take(consumer, lacking_rows=frozenset({KEYLESS.table}))
    copy.folder.append([insert(A, KEYLESS)], partition=1)
    assert copy.take(consumer, PartitionedOffset((1, 1))).failures == {}
    assert copy.log() == [["a", "1"], ["a", "2"]]


def test_removals_that_wait_since_a_stream_was_read_take_the_rows_of_a_slice(copy: Copy) -> None:
    """One stream has stored them, and then the pipeline was given to executors."""
    lone = batch(1, [delete(A, KEYLESS)])
    lone.unordered = True
    lone.identity = replace(lone.identity, position=Position(START))
    consumer = copy.consumer()
    consumer.apply_batch(lone)
    copy.folder.append([insert(A, KEYLESS)] * 2, partition=0)
    assert copy.take(consumer).failures == {}
    assert copy.log() == [["a", "1"]]


def test_a_table_under_another_schema_waits_and_the_others_are_applied(copy: Copy) -> None:
    copy.folder.append([insert(row(1, "x")), insert(A, KEYLESS)])
    outcome = copy.take(copy.consumer(), tables={TABLE: KEYED})
    assert outcome.seen == (KEYLESS,)
    assert outcome.applied.keys() == {TABLE}
    assert copy.names() == {1: "x"}


def test_a_table_of_which_one_task_sees_another_schema_is_left_untouched(copy: Copy) -> None:
    narrow = KEYED.select(["id", "name"])
    copy.folder.append([insert({"id": 1, "name": "a"}, narrow)], partition=0)
    copy.folder.append([insert(row(2, "b", "t"))], partition=1)
    outcome = copy.take(copy.consumer(), tables={TABLE: narrow})
    assert (outcome.seen, outcome.applied, outcome.failures) == ((KEYED,), {}, {})
    assert copy.names() == {}
    assert copy.project.files() == []


def test_an_error_of_one_table_stops_that_table_only(copy: Copy) -> None:
    """An update lacks a column that only the table could have, and the table has no such row."""
    copy.folder.append([update({"id": 4, "name": "n"})])
    copy.folder.append([insert(A, KEYLESS)])
    outcome = copy.take(copy.consumer())
    assert {t: getattr(e, "code", "") for t, e in outcome.failures.items()} == {TABLE: "RPL-6533"}
    assert outcome.applied.keys() == {KEYLESS.table}
    assert copy.log() == [["a", "1"]]


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
    assert copy.names() == {1: "c"}


def test_changes_that_cancel_each_other_need_no_load(copy: Copy) -> None:
    """A row that came, changed in part and went leaves nothing to stage; a job without files is refused."""
    consumer = copy.consumer()
    changes = [insert(row(1, "a", "t")), update({"id": 1, "name": "b"}), delete({"id": 1})]
    copy.folder.append(changes, partition=0)
    by_one_stream = batch(1, changes)
    by_one_stream.identity = replace(by_one_stream.identity, position=Position(PartitionedOffset((9, 9))))
    assert copy.take(consumer).failures == {}
    assert loads(copy.project) == []
    consumer.apply_batch(by_one_stream)
    assert loads(copy.project) == []
    assert copy.names() == {}


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
    assert copy.take(consumer, here).failures == {}
    assert copy.project.select("SELECT id, note FROM {d}.customers ORDER BY id") == [["1", "u"], ["2", "t"]]
