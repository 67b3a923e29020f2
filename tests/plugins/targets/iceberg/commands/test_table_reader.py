"""Reading beside the run that writes: one snapshot, in the form that the source's rows are compared in."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from replicator_runtime.engine.verification.checksums import bucket_sums, differing_keys, hashed
from replicator_sdk.errors import NeedsUserError, SchemaDriftError
from replicator_sdk.snapshot import SnapshotChunk, chunk_dataframe
from replicator_target_iceberg.table_reader import IcebergTableReader
from tests.plugins.targets.changes import KEYED, TABLE, at, batch, delete, insert, row, update
from tests.plugins.targets.iceberg.warehouse import Warehouse
from tests.plugins.targets.snapshot_rows import SnapshotRows
from tests.plugins.targets.values_of_types import TYPES, VALUES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WHOLE = [SnapshotChunk(0, {})]


def reader(lake: Warehouse, name: str = "conformance") -> IcebergTableReader:
    return IcebergTableReader(lake.config, lake.context(epoch=0, name=name))


def names(rows: Any) -> dict[int, tuple[str, int]]:
    return {found[0]: (found[1], found[-1]) for found in rows.collect()}


def test_rows_of_all_types_have_the_hashes_of_the_source(warehouse: Warehouse, iceberg_spark: SparkSession) -> None:
    warehouse.consumer().load_whole(TYPES, "plan", at(1), WHOLE, SnapshotRows(TYPES, VALUES), lambda: None)
    version = reader(warehouse).open(TYPES)
    rows = chunk_dataframe(iceberg_spark, TYPES, WHOLE, SnapshotRows(TYPES, VALUES), version.form)
    source, target = hashed(rows, TYPES), hashed(version.rows, TYPES)
    assert len(differing_keys(source, target, keyed=True, at_most=10)) == 0
    assert bucket_sums(source).differing(bucket_sums(target)) == []
    assert bucket_sums(target).rows == len(VALUES)


@pytest.mark.parametrize(("catalog_type", "version"), [("hadoop", 2), ("jdbc", 3)], ids=str)
def test_a_snapshot_stays_as_it_is_and_rows_say_whether_they_were_written_again(
    tmp_path: Path, iceberg_spark: SparkSession, catalog_type: str, version: int
) -> None:
    """The session knows no catalog of the settings' name."""
    lake = Warehouse(tmp_path / "lake", iceberg_spark, catalog_type, formatVersion=version)
    consumer = lake.consumer()
    consumer.apply_batch(batch(5, [insert(row(1, "a")), insert(row(2, "b")), insert(row(3, "c"))]))
    opened = reader(lake)
    first = opened.open(KEYED)
    consumer.apply_batch(batch(6, [update(row(2, "b")), delete(row(3, "c"))]))
    second = opened.open(KEYED)
    assert (first.progress.position, second.progress.position) == (at(5), at(6))
    assert first.name != second.name
    before, after = names(first.rows), names(second.rows)
    assert {key: name for key, (name, _) in before.items()} == {1: "a", 2: "b", 3: "c"}
    assert {key: name for key, (name, _) in after.items()} == {1: "a", 2: "b"}
    assert before[1] == after[1]
    assert before[2] != after[2]


def test_it_reads_beside_a_newer_run_and_fences_no_one(warehouse: Warehouse) -> None:
    writing = warehouse.consumer(epoch=7)
    writing.apply_batch(batch(6, [insert(row(2, "b"))], epoch=7))
    found = reader(warehouse).progress(TABLE)
    assert found is not None
    assert found.epoch == 7
    before = len(warehouse.summaries(TABLE))
    reader(warehouse).open(KEYED).rows.collect()
    assert len(warehouse.summaries(TABLE)) == before
    writing.apply_batch(batch(8, [insert(row(3, "c"))], epoch=7))


def test_a_table_that_is_missing_foreign_or_otherwise_built_is_refused(warehouse: Warehouse) -> None:
    assert reader(warehouse).progress(TABLE) is None
    with pytest.raises(NeedsUserError) as missing:
        reader(warehouse).open(KEYED)
    warehouse.consumer().apply_batch(batch(1, [insert(row(1, "a"))]))
    with pytest.raises(NeedsUserError) as foreign:
        reader(warehouse, name="other").open(KEYED)
    with pytest.raises(SchemaDriftError) as altered:
        reader(warehouse).open(KEYED.select(["name"]))
    assert [raised.value.code for raised in (missing, foreign, altered)] == ["RPL-3440", "RPL-3420", "RPL-6431"]


def test_tables_of_changes_have_no_reader(tmp_path: Path, iceberg_spark: SparkSession) -> None:
    lake = Warehouse(tmp_path / "lake", iceberg_spark, mode="append")
    assert lake.target.create_table_reader(lake.context()) is None
