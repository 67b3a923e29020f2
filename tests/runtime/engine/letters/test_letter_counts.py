"""How many rows are put aside is counted from the heads of the files: `status` costs the same however many there are."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from replicator_runtime.dead_letter import Letter
from replicator_runtime.engine.letters import letter_file
from replicator_runtime.engine.letters.letter_file import Version, content_of, file_name, newest_files, row_counts
from replicator_sdk import Position, TableId
from replicator_state import LaneFolder, ReplicatorDirectory
from tests.runtime.engine.log_model import Place

ORDERS, NOTES = TableId("db", "orders"), TableId("db", "notes")


@pytest.fixture
def folder(tmp_path: Path) -> LaneFolder:
    return ReplicatorDirectory(str(tmp_path), "default", "shop").dead_letters()


def put(folder: LaneFolder, table: TableId, copy_id: str, number: int, rows: int) -> None:
    letters = [
        Letter((str(n),), "INSERT", ("total",), "RPL-5401", "too large", "7", n, -1, 1, f'{{"id": {n}}}')
        for n in range(rows)
    ]
    name = file_name(copy_id, 3, number)
    version = Version(name, 3, number, Position(Place(number)), table, ("id",), {one.key: one for one in letters})
    folder.create(name, content_of(version))


def test_the_newest_file_of_each_table_is_counted_by_its_first_bytes(
    folder: LaneFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(folder, ORDERS, "aa", 1, 3)
    put(folder, NOTES, "bb", 2, 5)
    put(folder, ORDERS, "cc", 3, 20_000)  # of another copy
    put(folder, NOTES, "bb", 4, 0)
    read: list[int] = []
    true_start = LaneFolder.read_start

    def start(self: LaneFolder, name: str, nbytes: int) -> bytes:
        content = true_start(self, name, nbytes)
        read.append(len(content))
        return content

    monkeypatch.setattr(LaneFolder, "read_start", start)
    monkeypatch.delattr(LaneFolder, "read")
    assert row_counts(folder) == {ORDERS: 20_000, NOTES: 0}
    assert sum(read) < 4 * letter_file._HEAD_BYTES
    monkeypatch.undo()
    assert row_counts(folder) == {head.table: len(letters) for head, letters in newest_files(folder)}


def test_a_file_whose_head_says_no_number_or_is_long_is_read_whole(folder: LaneFolder) -> None:
    put(folder, ORDERS, "aa", 1, 3)
    content = folder.read(file_name("aa", 3, 1))
    with pa.ipc.open_stream(content) as reader:
        batches = list(reader)
    earlier = reader.schema.with_metadata({"head": reader.schema.metadata[b"head"].replace(b', "rows": 3', b"")})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, earlier) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays(batches[0].columns, schema=earlier))
    folder.create(file_name("aa", 4, 1), bytes(sink.getvalue()))
    assert row_counts(folder) == {ORDERS: 3}
    put(folder, TableId("db", "n" * 70_000), "bb", 2, 2)
    assert row_counts(folder) == {ORDERS: 3, TableId("db", "n" * 70_000): 2}
