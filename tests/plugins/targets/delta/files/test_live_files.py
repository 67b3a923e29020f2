"""What is written into the log and beside it, without Spark."""

from __future__ import annotations

import datetime as dt
import math
import os
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap64

from replicator_sdk.errors import BugError
from replicator_sdk.schema import TableId
from replicator_target_delta.apply.pruning import candidate_files
from replicator_target_delta.file_index.file_index import FileIndex
from replicator_target_delta.files.data_file import write_data_file
from replicator_target_delta.files.deletion_vector import DeletionVectorFile, read_deletion_vector
from replicator_target_delta.files.live_files import DataFile
from replicator_target_delta.files.statistics import file_statistics, parse_statistics
from replicator_target_delta.files.storage import Storage, _filesystem
from replicator_target_delta.location import path_segment, table_path
from replicator_target_delta.plugin import session_settings
from replicator_target_delta.schema.encoding import conform


def test_deletion_vectors_of_one_file_are_read_back_each(tmp_path: Path) -> None:
    storage, file = Storage(str(tmp_path)), DeletionVectorFile()
    vectors = [BitMap64([0]), BitMap64(range(5, 100_000, 3)), BitMap64([2**33, 7])]
    descriptors = [file.add(v) for v in vectors]
    file.write(storage)
    assert [read_deletion_vector(storage, d) for d in descriptors] == vectors
    assert [d["cardinality"] for d in descriptors] == [len(v) for v in vectors]


def test_a_damaged_deletion_vector_is_an_error(tmp_path: Path) -> None:
    storage, file = Storage(str(tmp_path)), DeletionVectorFile()
    descriptor = file.add(BitMap64([1, 2, 3]))
    file.write(storage)
    (written,) = tmp_path.iterdir()
    content = bytearray(written.read_bytes())
    content[-6] ^= 1
    written.write_bytes(content)
    with pytest.raises(BugError, match="RPL-9400"):
        read_deletion_vector(storage, descriptor)


def test_a_data_file_and_its_name_are_on_disk_before_it_is_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A power cut keeps neither the content of a file that was not synced nor its name in a folder that was not."""
    synced: list[Path] = []
    monkeypatch.setattr(os, "fsync", lambda handle: synced.append(Path(f"/proc/self/fd/{handle}").readlink()))
    name = write_data_file(Storage(str(tmp_path)), pa.table({"a": [1]}))["path"]
    assert synced == [tmp_path / name, tmp_path]


def test_the_folders_of_a_new_table_are_on_disk_with_its_first_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "lake" / "t" / "_delta_log"
    log.mkdir(parents=True)
    (log / f"{0:020}.json").touch()
    synced: list[Path] = []
    monkeypatch.setattr(os, "fsync", lambda handle: synced.append(Path(f"/proc/self/fd/{handle}").readlink()))
    Storage(str(log.parent)).sync_log(0)
    assert synced == [log / f"{0:020}.json", log, log.parent, log.parent.parent, tmp_path]


@given(st.text(min_size=1), st.text(min_size=1))
def test_path_segments_are_one_folder_and_equal_only_for_equal_names(one: str, two: str) -> None:
    for segment in (path_segment(one), path_segment(two)):
        assert not set(segment) & set('/\\:*?"<>|\0')
        assert segment not in {".", ".."}
        assert segment[0] not in "._"
    assert (path_segment(one) == path_segment(two)) == (one == two)


@pytest.mark.parametrize(
    ("path", "local"),
    [("/lake", True), ("lake", True), ("file:///lake", True), ("s3://lake", False), ("hdfs://h/l", False)],
)
def test_a_log_store_of_local_files_is_asked_for_with_local_tables_only(path: str, *, local: bool) -> None:
    assert ("spark.delta.logStore.file.impl" in session_settings(2, path)) == local


def test_requests_to_cloud_storage_are_not_repeated_for_minutes() -> None:
    """Tried by hand with a name that no server has: Spark's part failed after 20 s, pyarrow's after 12 s with a limit of 10 s."""
    assert session_settings(2, "gs://bucket/lake")["spark.hadoop.fs.gs.http.max.retry"] == "2"
    assert "spark.hadoop.fs.gs.http.max.retry" not in session_settings(2, "s3://bucket/lake")
    filesystem, path = _filesystem("gs://bucket/lake")
    assert (filesystem.type_name, path) == ("gcs", "bucket/lake")
    _, (options,) = filesystem.__reduce__()
    assert options["retry_time_limit"] == dt.timedelta(seconds=30)


def test_names_a_file_system_can_hold_stay_as_they_are() -> None:
    assert table_path("/lake/", TableId("db", "Größe 🎉's", "pub lic")) == "/lake/pub lic/Größe 🎉's"
    assert table_path("s3://bucket/lake/", TableId("db", "a/b")) == "s3://bucket/lake/db/a~2Fb"


def _table(kind: pa.DataType, values: list[object]) -> pa.Table:
    return pa.table({"c": pa.array(values, kind)})


VALUES = [
    (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    (pa.string(), st.text(max_size=50)),
    (pa.float64(), st.floats()),
    (pa.decimal128(20, 3), st.decimals(-(10**16), 10**16, places=3)),
    (pa.date32(), st.dates()),
    (pa.timestamp("us"), st.datetimes()),
    (pa.timestamp("us", "UTC"), st.datetimes(timezones=st.just(dt.UTC))),
    (pa.bool_(), st.booleans()),
]


@pytest.mark.parametrize(("kind", "values"), VALUES, ids=[str(k) for k, _ in VALUES])
def test_a_file_that_holds_a_key_is_never_pruned(kind: pa.DataType, values: st.SearchStrategy[object]) -> None:
    @given(st.lists(st.none() | values, min_size=1, max_size=6), st.lists(st.none() | values, max_size=3), st.data())
    def check(content: list[object], others: list[object], data: st.DataObject) -> None:
        rows = _table(kind, content)
        file = DataFile({"path": "f", "size": 1, "stats": file_statistics({"c": rows["c"]}, len(content))})
        sought = [*others, data.draw(st.sampled_from(content))]
        assert [f.path for f in candidate_files(FileIndex().changed([file], []), _table(kind, sought))] == ["f"]

    check()


def test_files_out_of_a_key_range_are_pruned() -> None:
    def file(low: int, high: int) -> DataFile:
        return DataFile(
            {"path": f"{low}", "size": 1, "stats": file_statistics({"c": pa.chunked_array([[low, high]])}, 2)}
        )

    files = [file(0, 9), file(10, 19), file(20, 29)]
    assert [f.path for f in candidate_files(FileIndex().changed(files, []), _table(pa.int64(), [3, 25]))] == ["0", "20"]


def test_statistics_are_exact_or_left_out() -> None:
    columns = {
        "n": pa.chunked_array([pa.array([Decimal("1.10"), Decimal("99999999999999999.99")], pa.decimal128(20, 2))]),
        "f": pa.chunked_array([pa.array([1.0, math.nan])]),
        "s": pa.chunked_array([pa.array(["a" * 40, "b" * 40])]),
        "t": pa.chunked_array([pa.array([dt.datetime(9999, 12, 31, 23, 59, 59, 999_999)] * 2)]),
    }
    found = parse_statistics(file_statistics(columns, 2))
    assert found["maxValues"]["n"] == Decimal("99999999999999999.99")
    assert "f" not in found["minValues"]
    assert found["minValues"]["s"] == "a" * 32
    assert found["maxValues"]["s"] > "b" * 40
    assert "t" not in found["maxValues"]


def test_nested_values_are_conformed_with_their_nulls_also_in_slices() -> None:
    inner = pa.struct([pa.field("x", pa.int32()), pa.field("t", pa.time64("us"))])
    values = pa.array([[{"x": i, "t": dt.time(i)}, None] if i % 3 else None for i in range(12)], pa.list_(inner))
    renamed = pa.struct([pa.field("col-1", pa.int32()), pa.field("col-2", pa.string())])
    found = conform(values.slice(2, 7), pa.list_(pa.field("element", renamed)))
    assert found.to_pylist() == [
        [{"col-1": i, "col-2": f"{i:02}:00:00.000000"}, None] if i % 3 else None for i in range(2, 9)
    ]
    assert np.all(found.is_null().to_numpy(zero_copy_only=False) == [i % 3 == 0 for i in range(2, 9)])
