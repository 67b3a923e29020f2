"""Reading beside the run that writes: one version, in the form that the source's rows are compared in."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from replicator_runtime.engine.verification.checksums import bucket_sums, differing_keys, hashed
from replicator_sdk.errors import NeedsUserError, SchemaDriftError
from replicator_sdk.schema import TableSchema
from replicator_sdk.snapshot import SnapshotChunk, chunk_dataframe
from replicator_target_delta.table_reader import DeltaTableReader
from tests.plugins.targets.changes import KEYED, TABLE, at, batch, delete, insert, row, update
from tests.plugins.targets.delta.lake import Lake
from tests.plugins.targets.snapshot_rows import SnapshotRows
from tests.plugins.targets.values_of_types import TYPES, VALUES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WHOLE = [SnapshotChunk(0, {})]


def reader(lake: Lake, name: str = "conformance") -> DeltaTableReader:
    return DeltaTableReader(lake.config, lake.context(epoch=0, name=name))


def load(lake: Lake, schema: TableSchema = KEYED, *changes: Any) -> None:
    lake.consumer().begin_snapshot(schema, "plan", at(1))
    lake.consumer().finish_snapshot(schema, "plan", at(1))
    if changes:
        lake.consumer().apply_batch(batch(5, changes))


def names(rows: Any) -> dict[int, tuple[str, int]]:
    return {found[0]: (found[1], found[-1]) for found in rows.collect()}


def test_rows_of_all_types_have_the_hashes_of_the_source(lake: Lake, spark: SparkSession) -> None:
    consumer = lake.consumer()
    consumer.load_whole(TYPES, "plan", at(1), WHOLE, SnapshotRows(TYPES, VALUES), lambda: None)
    version = reader(lake).open(TYPES)
    source = hashed(chunk_dataframe(spark, TYPES, WHOLE, SnapshotRows(TYPES, VALUES), version.form), TYPES)
    target = hashed(version.rows, TYPES)
    assert len(differing_keys(source, target, keyed=True, at_most=10)) == 0
    assert bucket_sums(source).differing(bucket_sums(target)) == []
    assert bucket_sums(target).rows == len(VALUES)


def test_a_version_stays_as_it_is_and_rows_say_whether_they_were_written_again(lake: Lake) -> None:
    load(lake, KEYED, insert(row(1, "a")), insert(row(2, "b")), insert(row(3, "c")))
    opened = reader(lake)
    first = opened.open(KEYED)
    lake.consumer().apply_batch(batch(6, [update(row(2, "b")), delete(row(3, "c"))]))
    second = opened.open(KEYED)
    assert (str(first.progress.position), str(second.progress.position)) == (str(at(5)), str(at(6)))
    assert int(second.name) == int(first.name) + 1
    before, after = names(first.rows), names(second.rows)
    assert {key: name for key, (name, _) in before.items()} == {1: "a", 2: "b", 3: "c"}
    assert {key: name for key, (name, _) in after.items()} == {1: "a", 2: "b"}
    assert before[1] == after[1]
    assert before[2] != after[2]


def test_rows_that_are_marked_as_deleted_are_left_out(tmp_path: Path, spark: SparkSession) -> None:
    lake = Lake(tmp_path, spark, soft_deletes=True)
    load(lake, KEYED, insert(row(1, "a")), insert(row(2, "b")))
    lake.consumer().apply_batch(batch(6, [delete(row(2, "b"))]))
    assert list(names(reader(lake).open(KEYED).rows)) == [1]


def test_it_reads_beside_a_newer_run_and_fences_no_one(lake: Lake) -> None:
    load(lake, KEYED, insert(row(1, "a")))
    writing = lake.consumer(epoch=7)
    writing.apply_batch(batch(6, [insert(row(2, "b"))], epoch=7))
    found = reader(lake).progress(TABLE)
    assert found is not None
    assert found.epoch == 7
    version = lake.version(TABLE)
    reader(lake).open(KEYED).rows.collect()
    assert lake.version(TABLE) == version
    writing.apply_batch(batch(8, [insert(row(3, "c"))], epoch=7))


def test_a_table_that_is_missing_foreign_or_otherwise_built_is_refused(lake: Lake) -> None:
    assert reader(lake).progress(TABLE) is None
    with pytest.raises(NeedsUserError) as missing:
        reader(lake).open(KEYED)
    load(lake)
    with pytest.raises(NeedsUserError) as foreign:
        reader(lake, name="other").open(KEYED)
    with pytest.raises(SchemaDriftError) as altered:
        reader(lake).open(KEYED.select(["name"]))
    assert [raised.value.code for raised in (missing, foreign)] == ["RPL-3414", "RPL-3404"]
    assert altered.value.code == "RPL-6408"
