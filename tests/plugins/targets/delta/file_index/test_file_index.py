"""The index of a table's files is what a dictionary of their actions would be."""

from __future__ import annotations

import pickle
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replicator_sdk.discovery.table_storage import TableStorage
from replicator_target_delta.file_index import file_index
from replicator_target_delta.file_index.actions import to_columns
from replicator_target_delta.file_index.file_index import FileIndex
from replicator_target_delta.files.live_files import DataFile
from tests.plugins.targets.delta.file_index.actions import data_file, index_of, vector

Model = dict[str, dict[str, Any]]


def content(index: FileIndex) -> Model:
    return {file.path: file.add for file in index.all_actions()}


def assert_is(index: FileIndex, model: Model) -> None:
    assert content(index) == model
    assert len(index) == len(model)
    live = {file.path: (file.size, file.vector) for file in index}
    assert live == {path: (add["size"], add.get("deletionVector")) for path, add in model.items()}
    assert set(index.by_path([*model, "not there"])) == set(model)
    gone = sum(add.get("deletionVector", {}).get("cardinality", 0) for add in model.values())
    nbytes = sum(add["size"] for add in model.values())
    assert index.storage() == TableStorage(len(model), nbytes, len(model), gone)  # each file has one row


def _next_version(index: FileIndex, model: Model, data: st.DataObject, number: int) -> FileIndex:
    """Some new files, some that go, some that get a deletion vector; `model` follows."""
    paths = data.draw(st.lists(st.sampled_from(sorted(model)), unique=True, max_size=40)) if model else []
    touched = index.actions(index.by_path(paths).values()) if data.draw(st.booleans()) else _by_name(model, paths)
    marked = [f.with_vector(vector(number)) for f in touched if data.draw(st.booleans())]
    count = data.draw(st.integers(0, 40))
    fresh = [data_file(f"{number}-{i}", size=i, tags={"a": "b"}, baseRowId=i) for i in range(count)]
    for file in touched:
        del model[file.path]
    model |= {file.path: file.add for file in [*marked, *fresh]}
    return index.changed([*fresh, *marked], touched)


def _by_name(model: Model, paths: list[str]) -> list[DataFile]:
    """As a program gives them that did not get them from the index."""
    return [DataFile(model[path]) for path in paths]


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_the_files_are_those_of_a_dictionary_after_any_history(data: st.DataObject) -> None:
    index, model = FileIndex(), dict[str, dict[str, Any]]()
    versions = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(file_index, "SEGMENT_FILES", data.draw(st.sampled_from([8, 50, 4096])))
        for number in range(data.draw(st.integers(1, 12))):
            index = _next_version(index, model, data, number)
            versions.append((index, dict(model)))
        for version, known in versions:  # later versions change no earlier one
            assert_is(version, known)


def test_rows_of_many_files_are_known_once_they_were_needed_and_from_then_on() -> None:
    """The statistics of thousands of files are not read to count their rows; after the first look for a key they are known."""
    index = index_of(*(data_file(f"old-{number}") for number in range(1000)))
    assert index.storage() == TableStorage(1000, 1000, None, 0)
    [segment] = [part.segment for part in index.parts]
    assert segment.rows.sum() == 1000
    assert index.storage().rows == 1000
    for number in range(40):
        index = index.changed([data_file(f"new-{number}")], index.actions(index.by_path([f"old-{number}"]).values()))
        assert index.storage() == TableStorage(1000, 1000, 1000, 0)


def test_rows_of_a_file_without_statistics_are_not_known() -> None:
    index = index_of(data_file("a"), data_file("b", stats="{}"))
    assert index.storage() == TableStorage(2, 2, None, 0)
    assert index.changed([], index.actions(index.by_path(["b"]).values())).storage() == TableStorage(1, 1, 1, 0)


def test_the_number_of_segments_stays_small_however_many_commits_came() -> None:
    index = FileIndex()
    for number in range(3000):
        index = index.changed([data_file(str(number))], [])
    assert len(index) == 3000
    assert len(index.parts) < 30


def test_segments_that_lost_most_of_their_files_are_put_together() -> None:
    index = FileIndex.of([to_columns([data_file(str(n)).add for n in range(5000)])])
    gone = [file for file in index.all_actions() if int(file.path) % 10]
    index = index.changed([], gone)
    assert len(index) == 500
    assert sum(len(part.segment) for part in index.parts) == 500


def test_what_goes_and_is_not_there_is_an_error() -> None:
    with pytest.raises(KeyError):
        index_of(data_file("a")).changed([], [data_file("b")])


def test_a_file_of_an_older_version_is_found_by_its_name() -> None:
    older = index_of(*(data_file(str(n)) for n in range(100)))
    [file] = older.actions(older.by_path(["7"]).values())
    newer = older.changed([data_file("new")], older.actions(older.by_path(["3", "5"]).values()))
    assert "7" not in content(newer.changed([], [file]))


def test_details_are_kept_in_memory_where_no_temporary_file_can_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError("no space left on device")

    monkeypatch.setattr("os.pwrite", full)
    files = [data_file(str(n), size=n) for n in range(200)]
    assert content(index_of(*files)) == {file.path: file.add for file in files}


def test_a_copy_for_an_executor_has_the_files_without_their_statistics() -> None:
    index = index_of(*(data_file(str(n), '{"numRecords":9,"note":"' + "x" * 5000 + '"}') for n in range(100)))
    sent = pickle.dumps(index)
    assert len(sent) < 50_000
    assert [(f.path, f.rows) for f in pickle.loads(sent)] == [(str(n), 9) for n in range(100)]


def test_no_file_of_a_table_is_a_python_object() -> None:
    """A million files fit into memory as columns only."""
    import gc

    adds = [data_file(str(n), deletionVector=vector(n)).add for n in range(4096)]
    columns = to_columns(adds)
    del adds
    gc.collect()
    before = len(gc.get_objects())
    index = FileIndex.of([columns])
    gc.collect()
    assert len(index) == 4096
    assert len(gc.get_objects()) - before < 1000


def test_pages_of_the_temporary_file_are_used_again() -> None:
    from replicator_target_delta.file_index.action_store import _Pages

    pages = _Pages()
    first = pages.write(b"a" * 10_000)
    kept = pages.write(b"b" * 5000)
    pages.release(first)
    second = pages.write(b"c" * 9000)
    assert set(second) == set(first)
    assert pages.read(second)[:9000] == b"c" * 9000
    assert pages.read(kept)[:5000] == b"b" * 5000


def test_maps_and_missing_fields_of_an_action_come_back_as_they_were() -> None:
    full = data_file("a", partitionValues={"p": None, "q": "1"}, tags={}, clusteringProvider="liquid")
    bare = DataFile({"path": "b", "partitionValues": {}, "size": 1, "modificationTime": 2, "dataChange": True})
    assert content(index_of(full, bare)) == {"a": full.add, "b": bare.add}
    assert pa.types.is_map(to_columns([bare.add]).schema.field("tags").type)
