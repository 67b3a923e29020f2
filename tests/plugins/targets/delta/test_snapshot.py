"""Loading chunks: executors write the files, one commit takes them in."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from replicator_sdk import failpoint
from replicator_sdk.errors import NeedsUserError, RetryableError, SchemaDriftError
from replicator_sdk.event import DDLOperation
from replicator_sdk.snapshot import SnapshotChunk
from replicator_target_delta.consumer import DeltaConsumer
from tests.plugins.targets.changes import KEYED, TABLE, at, batch, ddl, insert, row, update
from tests.plugins.targets.delta.lake import Lake

CHUNKS = [SnapshotChunk(i, {"start": i * 10, "stop": i * 10 + 10}) for i in range(3)]


class Numbers:
    """Reads a chunk as the rows numbered by its bounds; picklable."""

    def __call__(self, chunk: SnapshotChunk) -> Iterator[pa.RecordBatch]:
        for key in range(chunk.bounds["start"], chunk.bounds["stop"]):
            yield pa.RecordBatch.from_pylist([row(key, f"n{key}")], schema=KEYED.arrow)


class Names:
    """Reads the same rows without their notes."""

    def __call__(self, chunk: SnapshotChunk) -> Iterator[pa.RecordBatch]:
        for rows in Numbers()(chunk):
            yield rows.select(["id", "name"])


class Refusing:
    """A reader that may not read."""

    def __call__(self, chunk: SnapshotChunk) -> Iterator[pa.RecordBatch]:
        raise NeedsUserError(f"no right to read chunk {chunk.index}", code="RPL-3999", hint="grant it")


class Crashing:
    """A reader with a fault that names a value."""

    def __call__(self, chunk: SnapshotChunk) -> Iterator[pa.RecordBatch]:
        raise ValueError("cannot read 'secret of a row'")


def load(lake: Lake, plan: str = "plan") -> None:
    consumer = lake.consumer()
    held = consumer.begin_snapshot(KEYED, plan, at(5))
    consumer.load_chunks(KEYED, plan, [c for c in CHUNKS if c.index not in held], Numbers())
    consumer.finish_snapshot(KEYED, plan, at(5))


def load_whole(lake: Lake, plan: str = "plan", chunks: list[SnapshotChunk] = CHUNKS) -> None:
    lake.consumer().load_whole(KEYED, plan, at(5), chunks, Numbers(), lambda: None)


def test_a_small_table_is_loaded_in_one_commit(lake: Lake) -> None:
    load_whole(lake, chunks=CHUNKS[:1])
    assert lake.version(TABLE) == 0
    assert sorted(r["id"] for r in lake.rows(TABLE)) == list(range(10))


def test_a_table_loaded_at_once_keeps_its_rows_until_the_new_ones_are_there(lake: Lake) -> None:
    """With other columns; and what the new rows are read by may fail."""
    load(lake)
    narrow = KEYED.select(["name"])
    with pytest.raises(NeedsUserError):
        lake.consumer().load_whole(narrow, "other", at(6), CHUNKS[:1], Refusing(), lambda: None)
    seen: list[int] = []
    lake.consumer().load_whole(narrow, "other", at(6), CHUNKS[:1], Names(), lambda: seen.append(len(lake.rows(TABLE))))
    assert seen == [30]
    assert lake.read_table(narrow) == [{"id": key, "name": f"n{key}"} for key in range(10)]
    lake.consumer().apply_batch(batch(7, [insert({"id": 99, "name": "x"}, narrow)]))
    assert len(lake.rows(TABLE)) == 11


def test_what_the_log_says_of_a_load_at_once_can_be_read_again(lake: Lake) -> None:
    load_whole(lake)
    consumer = lake.consumer()
    consumer._table(TABLE).log.forget()
    assert consumer.begin_snapshot(KEYED, "plan", at(5)) == {0, 1, 2}
    assert lake.version(TABLE) == 0


@pytest.mark.parametrize(
    "point",
    ["delta.snapshot.whole_written", "delta.snapshot.whole_committed", "delta.commit.before", "delta.commit.after"],
)
def test_a_load_at_once_interrupted_anywhere_loads_each_row_once(lake: Lake, point: str) -> None:
    failpoint.arm(f"{point}=raise")
    try:
        with pytest.raises(RetryableError):
            load_whole(lake)
    finally:
        failpoint.arm("")
    load(lake)
    assert sorted(r["id"] for r in lake.rows(TABLE)) == list(range(30))


def test_snapshot_rows_have_sequence_number_zero_and_no_time(lake: Lake) -> None:
    load(lake)
    assert {(r["_sequence_num"], r["_source_timestamp"]) for r in lake.rows(TABLE)} == {(0, None)}
    assert sorted(r["id"] for r in lake.rows(TABLE)) == list(range(30))


def test_the_same_plan_begun_after_it_was_finished_keeps_the_rows(lake: Lake) -> None:
    """The process died before it noted that the snapshot was done."""
    load(lake)
    version = lake.version(TABLE)
    load(lake)
    assert lake.version(TABLE) == version


def test_a_new_plan_with_other_columns_replaces_rows_and_columns(lake: Lake) -> None:
    load(lake)
    narrow = KEYED.select(["name"])
    consumer = lake.consumer()
    assert consumer.begin_snapshot(narrow, "other", at(6)) == frozenset()
    assert lake.rows(TABLE) == []
    consumer.finish_snapshot(narrow, "other", at(6))
    consumer.apply_batch(batch(7, [insert({"id": 1, "name": "x"}, narrow)]))
    assert lake.read_table(narrow) == [{"id": 1, "name": "x"}]
    assert set(lake.arrow(TABLE).column_names) == {"id", "name", "_sequence_num", "_source_timestamp"}


def test_a_table_that_was_dropped_and_is_copied_again_is_no_dropped_table(lake: Lake) -> None:
    load(lake)
    consumer = lake.consumer()
    consumer.apply_ddl(ddl(6, DDLOperation.DROP_TABLE, None))
    consumer.begin_snapshot(KEYED, "again", at(7))
    consumer.load_chunks(KEYED, "again", CHUNKS, Numbers())
    consumer.finish_snapshot(KEYED, "again", at(7))
    consumer.apply_ddl(ddl(8, DDLOperation.CREATE_TABLE, KEYED))
    assert len(lake.rows(TABLE)) == 30


def test_the_log_goes_on_at_the_snapshot_s_position(lake: Lake) -> None:
    load(lake)
    consumer = lake.consumer()
    consumer.apply_batch(batch(5, [insert(row(1))]))  # in the snapshot already
    consumer.apply_batch(batch(6, [update(row(1, "new"))]))
    assert len(lake.rows(TABLE)) == 30


def test_an_error_of_the_source_on_an_executor_arrives_as_it_is(lake: Lake) -> None:
    consumer = lake.consumer()
    consumer.begin_snapshot(KEYED, "plan", at(5))
    with pytest.raises(NeedsUserError, match="RPL-3999") as error:
        consumer.load_chunks(KEYED, "plan", CHUNKS, Refusing())
    assert error.value.hint == "grant it"


def test_another_error_on_an_executor_says_its_kind_and_no_value(lake: Lake) -> None:
    consumer = lake.consumer()
    consumer.begin_snapshot(KEYED, "plan", at(5))
    with pytest.raises(RetryableError, match="ValueError") as error:
        consumer.load_chunks(KEYED, "plan", CHUNKS, Crashing())
    assert "secret" not in str(error.value)


def test_another_error_of_a_single_chunk_says_its_kind_and_no_value(lake: Lake) -> None:
    """Read by the driver, where no filter removes the text."""
    consumer = lake.consumer()
    consumer.begin_snapshot(KEYED, "plan", at(5))
    with pytest.raises(RetryableError, match="ValueError") as error:
        consumer.load_chunks(KEYED, "plan", CHUNKS[:1], Crashing())
    assert "secret" not in str(error.value)


def test_chunks_of_a_plan_that_was_not_begun_are_refused(lake: Lake) -> None:
    with pytest.raises(NeedsUserError, match="RPL-3405"):
        lake.consumer().load_chunks(KEYED, "plan", CHUNKS, Numbers())


@pytest.mark.parametrize(
    "point",
    [
        "delta.snapshot.begun",
        "delta.snapshot.files_written",
        "delta.snapshot.committed",
        "delta.snapshot.finished",
        "delta.commit.before@2",
        "delta.commit.after@2",
    ],
)
def test_a_snapshot_interrupted_anywhere_loads_each_row_once(lake: Lake, point: str) -> None:
    name, _, count = point.partition("@")
    failpoint.arm(f"{name}=raise@{count or 1}")
    try:
        with pytest.raises(RetryableError):
            load(lake)
    finally:
        failpoint.arm("")
    load(lake)
    assert sorted(r["id"] for r in lake.rows(TABLE)) == list(range(30))


def killed_copy(lake: Lake, plan: str) -> set[str]:
    """The data files that a copy by this plan left, which ended before its commit."""
    before = data_files(lake)
    failpoint.arm("delta.snapshot.whole_written=raise")
    try:
        with pytest.raises(RetryableError):
            load_whole(lake, plan, CHUNKS[:1])
    finally:
        failpoint.arm("")
    return data_files(lake) - before


def data_files(lake: Lake) -> set[str]:
    return {path.name for path in lake.path(TABLE).glob("*.parquet")}


def test_what_a_plan_left_is_deleted_and_what_other_plans_write_stays(lake: Lake) -> None:
    left, others = killed_copy(lake, "left"), killed_copy(lake, "other")
    assert left
    lake.consumer().discard_snapshot(TABLE, "left")
    assert data_files(lake) == others
    lake.consumer().discard_snapshot(TABLE, "other")
    assert not lake.path(TABLE).exists()
    lake.consumer().discard_snapshot(TABLE, "other")
    load(lake)
    assert len(lake.rows(TABLE)) == 30


def test_files_of_a_plan_that_the_log_names_stay_also_when_a_later_version_removed_them(lake: Lake) -> None:
    load(lake, "plan")
    first = data_files(lake)
    load(lake, "later")
    killed_copy(lake, "left")
    before = data_files(lake)
    for plan in ("plan", "later"):
        lake.consumer().discard_snapshot(TABLE, plan)
        assert data_files(lake) == before
    lake.consumer().discard_snapshot(TABLE, "left")
    assert first < data_files(lake) < before
    assert len(lake.rows(TABLE)) == 30


def test_a_table_that_was_put_aside_is_deleted_and_another_writers_is_not(lake: Lake) -> None:
    load(lake)
    with pytest.raises(NeedsUserError):
        lake.consumer(name="another").discard_table(TABLE)
    assert len(lake.rows(TABLE)) == 30
    lake.consumer().discard_table(TABLE)
    assert not lake.path(TABLE).exists()
    lake.consumer().discard_table(TABLE)
    assert not lake.path(TABLE).exists()


@pytest.mark.parametrize(
    ("setting", "edit"),
    [
        ("softDeletes", {"soft_deletes": True}),
        ("metadataColumns", {"metadata_columns": ("op",)}),
        ("metadataPrefix", {"metadata_prefix": "x_"}),
    ],
)
def test_a_table_stops_at_its_next_change_as_is_said_of_an_edited_setting(
    lake: Lake, setting: str, edit: dict[str, Any]
) -> None:
    load_whole(lake, chunks=CHUNKS[:1])
    said = lake.config.edits[setting]
    lake.config = lake.config.model_copy(update=edit)
    with pytest.raises(SchemaDriftError, match=said.code):
        lake.consumer().apply_batch(batch(7, [insert(row(99, "x"))]))
    lake.consumer().load_whole(KEYED, "again", at(8), CHUNKS[:1], Numbers(), lambda: None)
    lake.consumer().apply_batch(batch(9, [insert(row(99, "x"))]))
    assert len(lake.rows(TABLE)) == 11


class Slow:
    """Reads the same rows, for two minutes each from the chunk `since` on."""

    def __init__(self, since: int) -> None:
        self.since = since

    def __call__(self, chunk: SnapshotChunk) -> Iterator[pa.RecordBatch]:
        for rows in Numbers()(chunk):
            if chunk.index >= self.since:
                time.sleep(120)
            yield rows


@pytest.mark.parametrize("wave", [CHUNKS[1:], CHUNKS[1:2]], ids=["executors", "driver"])
def test_a_copy_that_is_to_stop_ends_within_seconds_and_goes_on_without_loss(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, wave: list[SnapshotChunk]
) -> None:
    """What is committed stays; what is not is read again."""
    if len(wave) == 1:
        monkeypatch.setattr(time, "sleep", lambda seconds: threading.Event().wait(min(seconds, 1)))
    context = lake.context()
    consumer = DeltaConsumer(lake.config, context)
    consumer.begin_snapshot(KEYED, "plan", at(5))
    consumer.load_chunks(KEYED, "plan", CHUNKS[:1], Numbers())
    threading.Timer(1, lambda: setattr(context, "stopping", True)).start()
    began = time.monotonic()
    with pytest.raises(RetryableError, match="RPL-4408"):
        consumer.load_chunks(KEYED, "plan", wave, Slow(1))
    assert time.monotonic() - began < 100
    assert sorted(r["id"] for r in lake.rows(TABLE)) == list(range(10))
    monkeypatch.undo()
    load(lake)
    assert sorted(r["id"] for r in lake.rows(TABLE)) == list(range(30))


def test_what_another_program_commits_while_a_table_is_copied_beside_is_replaced_as_well(lake: Lake) -> None:
    load(lake)
    log = sorted(lake.path(TABLE).glob("_delta_log/*.json"))

    def other() -> None:
        """Another program's commit, without rows or columns."""
        info = '{"commitInfo": {"timestamp": 1, "operation": "OPTIMIZE"}}'
        (log[0].parent / f"{len(log):020}.json").write_text(info)

    lake.consumer().load_whole(KEYED, "beside", at(6), CHUNKS[:2], Numbers(), other)
    assert sorted(r["id"] for r in lake.rows(TABLE)) == list(range(20))
    assert lake.version(TABLE) == len(log) + 1


def test_a_table_whose_properties_are_changed_while_it_is_copied_beside_is_copied_again(lake: Lake) -> None:
    load(lake)
    log = sorted(lake.path(TABLE).glob("_delta_log/*.json"))

    def other() -> None:
        actions = [json.loads(line) for file in log for line in file.read_text().splitlines()]
        metadata = [action["metaData"] for action in actions if "metaData" in action][-1]
        metadata["configuration"]["owner"] = "someone"
        (log[0].parent / f"{len(log):020}.json").write_text(json.dumps({"metaData": metadata}))

    with pytest.raises(RetryableError, match="RPL-4412"):
        lake.consumer().load_whole(KEYED, "beside", at(6), CHUNKS[:2], Numbers(), other)
    assert len(lake.rows(TABLE)) == 30
    lake.consumer().load_whole(KEYED, "again", at(6), CHUNKS[:2], Numbers(), lambda: None)
    assert len(lake.rows(TABLE)) == 20
