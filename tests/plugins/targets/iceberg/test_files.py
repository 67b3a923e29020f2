"""Which files are read for which keys, and which are written again: by bounds that are cut short, missing, or of few rows."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal as Number
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from replicator_sdk.datatype import BINARY, DATE, FLOAT64, INSTANT, INT64, STRING, TIMESTAMP, UUID, DataType, Decimal
from replicator_sdk.discovery.maintenance import MaintenanceReport
from replicator_sdk.schema import Column, TableSchema
from replicator_sdk.snapshot import SnapshotChunk
from replicator_target_iceberg.arrangement.partitioning import Partitioning
from replicator_target_iceberg.arrangement.sorting import Sorting
from replicator_target_iceberg.files.data_file import PAST, FileWriter
from replicator_target_iceberg.files.form import FileForm
from replicator_target_iceberg.files.left_files import look
from replicator_target_iceberg.files.live_files import parse_task
from replicator_target_iceberg.files.storage import Storage
from replicator_target_iceberg.maintenance import compaction
from replicator_target_iceberg.maintenance.folding import name_of
from tests.plugins.targets.changes import TABLE, at, batch, delete, insert, row, update
from tests.plugins.targets.iceberg.warehouse import Warehouse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TEXT = TableSchema(TABLE, (Column("key", STRING), Column("note", STRING)), ("key",))
LONG = "z" * 5000


def compact(lake: Warehouse) -> MaintenanceReport:
    [task] = [task for task in lake.target.maintenance_tasks if task.name == "compact"]
    return lake.target.maintain_table(lake.context(), task, TABLE)


def load(lake: Warehouse, schema: TableSchema, *batches: pa.RecordBatch) -> None:
    consumer = lake.consumer()
    consumer.load_whole(schema, "s", at(1), [SnapshotChunk(0, {})], lambda _: iter(batches), lambda: None)
    consumer.stop()


def test_rows_beside_one_with_a_very_long_text_are_found_by_readers_and_by_changes(warehouse: Warehouse) -> None:
    """Arrow gives a group of rows with such a text no range, and the library gives the file that of its other groups."""
    before, after = (pa.array(range(size)).cast(pa.string()) for size in (150_000, 10))
    keys = [pc.binary_join_element_wise(start, part, "") for start, part in (("a", before), ("z", after))]
    rows = pa.concat_arrays([*keys, pa.array([LONG])])
    load(warehouse, TEXT, pa.RecordBatch.from_arrays([rows, rows], schema=TEXT.arrow))
    found = warehouse.table(TABLE).scan(row_filter="note == 'z7'").to_arrow()
    assert found.column("key").to_pylist() == ["z7"]
    consumer = warehouse.consumer()
    consumer.apply_batch(batch(2, [delete({"key": "z7"}, TEXT), update({"key": "z8", "note": "new"}, TEXT)]))
    consumer.apply_batch(batch(3, [delete({"key": LONG}, TEXT)]))
    consumer.stop()
    left = warehouse.arrow(TABLE)
    kept = left.filter(pc.starts_with(left.column("key"), "z")).to_pylist()
    assert sorted((r["key"], r["note"]) for r in kept) == [
        (key, "new" if key == "z8" else key) for key in (f"z{n}" for n in range(10) if n != 7)
    ]
    assert left.num_rows == 150_009


@pytest.mark.parametrize("begin", ["", PAST])
@pytest.mark.parametrize("level", ["", name_of(3)])
@pytest.mark.parametrize("size", [1, 1 << 30])
def test_every_name_that_files_are_given_is_known_to_those_who_look_for_left_ones(
    tmp_path: Path, begin: str, level: str, size: int
) -> None:
    rows = pa.table({"key": ["a"]})
    form = FileForm(Partitioning(), Sorting())
    with FileWriter(Storage(str(tmp_path)), size, form, begin=begin, level=level) as writer:
        writer.add(rows)
        [file] = writer.finish()
    os.utime(file.location.removeprefix("file:"), (0, 0))
    (tmp_path / "metadata").mkdir()
    found = look(Storage(str(tmp_path)), str(tmp_path / "metadata"), time.time())
    assert [old.location.rpartition("/")[2] for old in found.old] == [file.location.rpartition("/")[2]]


NOON = datetime(1900, 1, 1, 12, 0, 0, 7, UTC)
KEYS: dict[str, tuple[DataType, list[Any]]] = {
    "text": (STRING, ["", "a" * 16 + "b", "a" * 16 + "c", "a" * 15 + "é" * 5, "\U0010ffff" * 20, "\ud7ff" * 20]),
    "number": (INT64, [-(2**63), -1, 0, 2**63 - 1]),
    "date": (DATE, [date(1, 1, 1), date(1969, 12, 31), date(9999, 12, 31)]),
    "instant": (INSTANT, [NOON, NOON + timedelta(microseconds=1), datetime(9999, 12, 31, tzinfo=UTC)]),
    "timestamp": (TIMESTAMP, [NOON.replace(tzinfo=None), datetime(1969, 12, 31, 23, 59, 59, 999999)]),
    "decimal": (Decimal(20, 2), [Number("-99999999.99"), Number("0.00"), Number("123456789012345678.91")]),
    "short decimal": (
        Decimal(18, 4),
        [Number("-99999999999999.9999"), Number("0.0001"), Number("99999999999999.9999")],
    ),
    "binary": (BINARY, [b"", b"\xff" * 20, b"\xff" * 20 + b"\x00"]),
    "uuid": (UUID, ["00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff"]),
    "float": (FLOAT64, [float("nan"), 0.0, float("-inf"), 1e308]),
}


@pytest.mark.parametrize("kind", KEYS)
def test_keys_are_found_by_the_bounds_that_are_left_after_a_restart(warehouse: Warehouse, kind: str) -> None:
    """Each in a file of its own, beside NULL; then all go, one half of them with the first start's knowledge, which is exact."""
    of, values = KEYS[kind]
    schema = TableSchema(TABLE, (Column("key", of), Column("n", INT64)), ("key", "n"))
    keys = [*({"key": value, "n": 1} for value in values), {"key": None, "n": 1}]
    consumer = warehouse.consumer()
    consumer.apply_batch(batch(1, [insert({"key": value, "n": 2}, schema) for value in [*values, None]]))
    for number, key in enumerate(keys, 2):
        consumer.apply_batch(batch(number, [insert(key, schema)]))
    for number, key in enumerate(keys[::2], 100):
        consumer.apply_batch(batch(number, [delete(key, schema)]))
    consumer.stop()
    assert len(warehouse.rows(TABLE)) == 2 * len(keys) - len(keys[::2])
    again = warehouse.consumer()
    for number, key in enumerate(keys[1::2], 200):
        again.apply_batch(batch(number, [delete(key, schema)]))
    assert [r["n"] for r in warehouse.rows(TABLE)] == [2] * len(keys)
    again.apply_batch(batch(300, [delete({**key, "n": 2}, schema) for key in keys]))
    again.stop()
    assert warehouse.rows(TABLE) == []


def test_a_bound_that_is_cut_inside_of_a_character_is_none() -> None:
    task = {
        "data-file": {
            "file-format": "PARQUET",
            "file-path": "f",
            "file-size-in-bytes": 1,
            "record-count": 1,
            "spec-id": 0,
            "lower-bounds": {"keys": [1], "values": ["61"]},
            "upper-bounds": {"keys": [1], "values": ["61c3"]},
        },
        "delete-files": [],
    }
    file = parse_task(json.dumps(task), 1, pa.string())
    assert (file.lowest, file.highest) == ("a", None)


def test_files_that_are_small_since_their_rows_repeat_are_not_written_again_and_again(
    tmp_path: Path, iceberg_spark: SparkSession
) -> None:
    """Their size on the disk says nothing of how many more rows fit in: they came out as small each time."""
    lake = Warehouse(tmp_path / "lake", iceberg_spark, targetFileBytes=1 << 20)
    schema = TableSchema(TABLE, (Column("id", INT64), Column("name", STRING), Column("note", STRING)), ("id",))
    size = 4200

    def batches() -> Iterator[pa.RecordBatch]:
        text = pa.repeat("x" * 1000, size)
        for start in range(0, 9 * size, size):
            yield pa.RecordBatch.from_arrays([pa.array(range(start, start + size)), text, text], schema=schema.arrow)

    load(lake, schema, *batches())
    assert len(lake.table(TABLE).inspect.files()) == 9
    report = compact(lake)
    assert report.is_finished
    assert not report.has_changed
    assert len(lake.table(TABLE).snapshots()) == 1
    consumer = lake.consumer()
    for number in range(2, 11):
        consumer.apply_batch(batch(number, [update(row(number))]))
    consumer.stop()
    report = compact(lake)
    assert (report.is_finished, report.files_before, report.files_after) == (True, 18, 10)
    assert not compact(lake).has_changed
    assert lake.arrow(TABLE).num_rows == 9 * size


def test_small_files_of_which_no_two_fit_in_a_step_are_put_together_all_the_same(
    tmp_path: Path, iceberg_spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where files are to be larger than a step's, each was written again alone, without an end."""
    monkeypatch.setattr(compaction, "_STEP_BYTES", 1)
    lake = Warehouse(tmp_path / "lake", iceberg_spark)
    consumer = lake.consumer()
    for number in range(1, 9):
        consumer.apply_batch(batch(number, [insert(row(number))]))
    consumer.stop()
    report = compact(lake)
    assert (report.is_finished, report.files_before, report.files_after) == (True, 8, 1)
    assert len(lake.rows(TABLE)) == 8
