"""Rows with random keys are put in order step by step, until few files may hold any one key."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from replicator_sdk.datatype import INT64, STRING
from replicator_sdk.schema import Column, TableId, TableSchema
from replicator_target_delta.apply.pruning import candidate_files
from replicator_target_delta.file_index.actions import LEVEL_TAG
from replicator_target_delta.file_index.file_index import FileIndex
from replicator_target_delta.files.live_files import DataFile
from replicator_target_delta.maintenance.clustering import HIGHEST_LEVEL, Ranges, key_ranges, plan_merges
from replicator_target_delta.maintenance.compaction import compact, plan_packs
from tests.plugins.targets.changes import batch, delete, insert, update
from tests.plugins.targets.delta.file_index.actions import holding, index_of, vector
from tests.plugins.targets.delta.folder_table import FolderTable
from tests.plugins.targets.delta.lake import Lake

KEY = [pa.field("c", pa.string())]
SIZE = 100


def span(name: str, low: str, high: str, level: int = 0, size: int = SIZE) -> DataFile:
    file = holding(name, c=pa.array([low, high]))
    file.add["size"] = size
    if level:
        file.add["tags"] = {LEVEL_TAG: str(level)}
    return file


def merged(index: FileIndex, key: list[pa.Field] | None = None, most: int = 9) -> list[set[str]]:
    """The names of the files of each group that is planned."""
    groups = plan_merges(index, key_ranges(index, KEY if key is None else key), most, 5 * SIZE)
    return [{file.path for file in group} for group in groups]


def test_files_whose_keys_follow_one_another_are_left_as_they_are() -> None:
    assert merged(index_of(*(span(str(n), f"{n:03}a", f"{n:03}z") for n in range(100)))) == []


def test_four_files_that_may_hold_the_same_key_are_put_in_order_together() -> None:
    apart = [span(f"apart{n}", f"x{n}", f"x{n}9") for n in range(5)]
    assert merged(index_of(*apart, *(span(f"wide{n}", "a", f"p{n}") for n in range(4)))) == [
        {"wide0", "wide1", "wide2", "wide3"}
    ]


def test_three_files_that_may_hold_the_same_key_are_left_as_they_are() -> None:
    assert merged(index_of(*(span(str(n), "a", "z") for n in range(3)))) == []


def test_only_files_of_one_level_are_put_in_order_together() -> None:
    files = [span(f"{level}-{n}", "a", "z", level) for level in (0, 1) for n in range(3)]
    assert merged(index_of(*files)) == []
    [group] = merged(index_of(*files, span("1-3", "b", "c", 1)))
    assert group == {f"1-{n}" for n in range(4)}


def test_files_that_stay_wide_are_not_written_again_for_ever() -> None:
    """All their keys are equal in their first 32 characters, so that bounds cannot be narrower."""
    assert merged(index_of(*(span(str(n), "k" * 40, "k" * 40, HIGHEST_LEVEL) for n in range(9)))) == []


def test_files_without_bounds_are_not_put_in_order() -> None:
    assert merged(index_of(*(holding(str(n), other=pa.array([1])) for n in range(9)))) == []


def test_a_table_whose_key_is_unknown_is_not_put_in_order() -> None:
    assert merged(index_of(*(span(str(n), "a", "z") for n in range(9))), []) == []


def test_large_files_are_not_put_in_order_since_a_group_is_in_memory() -> None:
    assert merged(index_of(*(span(str(n), "a", "z", size=2 * SIZE) for n in range(9)))) == []


def test_no_more_groups_are_planned_than_asked_for() -> None:
    index = index_of(*(span(str(n), "a", "z") for n in range(40)))
    assert [len(group) for group in merged(index, most=3)] == [4, 4, 4]
    assert len(set().union(*merged(index, most=3))) == 12


def test_of_a_key_of_two_columns_the_second_counts_where_the_first_has_one_value() -> None:
    fields = [pa.field("tenant", pa.string()), pa.field("id", pa.int64())]

    def file(name: str, tenants: str, ids: list[int]) -> DataFile:
        made = holding(name, tenant=pa.array(list(tenants)), id=pa.array(ids))
        made.add["size"] = SIZE
        return made

    ordered = [file(str(n), "aa", [10 * n, 10 * n + 9]) for n in range(9)]
    assert merged(index_of(*ordered), fields) == []
    mixed = [file(f"mixed{n}", "aa", [0, 90]) for n in range(4)]
    assert merged(index_of(*mixed), fields) == [{f"mixed{n}" for n in range(4)}]
    assert merged(index_of(*(file(str(n), "az", [n, n]) for n in range(4))), fields) != []


def test_bounds_of_texts_with_different_beginnings_are_in_one_order() -> None:
    """Segments leave out what all of their texts begin with; here are two segments."""
    first = [span(f"a{n}", f"same beginning {n}", f"same beginning {n}5") for n in range(4096)]
    index = index_of(*first).changed([span("b0", "", "a"), span("b1", "z", "zz")], [])
    ranges = key_ranges(index, KEY)
    names = [file.path for file in ranges.in_order(list(index))]
    assert (names[0], names[-1]) == ("b0", "b1")


def test_files_that_lost_rows_are_put_together_with_their_neighbours_and_keep_their_level() -> None:
    def holed(name: str, low: str, high: str) -> DataFile:
        file = span(name, low, high, 3, SIZE // 4)
        return DataFile({**file.add, "deletionVector": vector(1)})

    files = [holed(f"{n}", f"{n * 7 % 16:02}", f"{n * 7 % 16:02}z") for n in range(16)]
    packs = plan_packs(index_of(*files), KEY, SIZE, 1)
    assert {pack.level for pack in packs} == {3}
    lows = [[int(file.path) * 7 % 16 for file in pack.files] for pack in packs]
    assert lows == [list(range(first, first + 4)) for first in (0, 4, 8, 12)]


def _opened(ranges: Ranges, keys: np.ndarray) -> float:
    """How many files a batch of a hundred keys opens, on average."""
    low, high = ranges.low[:, None], ranges.high[:, None]
    return float(np.mean([((low <= k) & (k <= high)).any(axis=1).sum() for k in keys]))


def test_a_hundred_random_keys_open_few_of_many_files_once_rows_are_in_order() -> None:
    """Simulated: 2,000 files of random keys come in, 50 at a time; each group that is planned becomes four equal parts.

    What is opened grows with the number of levels only, so that the share falls as the table grows.
    """
    from replicator_target_delta.maintenance import clustering

    most, written = 1 << 40, 0
    ranges = Ranges(*(np.empty(0, np.int64) for _ in range(4)))
    for _ in range(40):
        ranges = _joined(ranges, np.zeros(50, np.int64), np.full(50, most), 0)
        while (chosen := clustering._deepest(ranges, ranges.levels < HIGHEST_LEVEL)) is not None:
            written += len(chosen)
            ranges = _in_order(ranges, chosen)
    keys = np.random.default_rng(1).integers(0, most, (20, 100))
    assert _opened(ranges, keys) < 600
    assert written / 2000 < 6


def _joined(ranges: Ranges, low: np.ndarray, high: np.ndarray, level: int) -> Ranges:
    levels = np.concatenate([ranges.levels, np.full(len(low), level)])
    lows, highs = np.concatenate([ranges.low, low]), np.concatenate([ranges.high, high])
    return Ranges(np.arange(len(lows)), levels, lows, highs)


def _in_order(ranges: Ranges, chosen: np.ndarray) -> Ranges:
    """The chosen files as as many that follow one another, with as many keys each; keys are spread evenly."""
    low, high, count = ranges.low[chosen], ranges.high[chosen], len(chosen)
    keys = np.sort(np.linspace(low, high, 64).astype(np.int64).ravel())
    starts = keys[np.arange(count) * len(keys) // count]
    kept = np.ones(len(ranges.low), np.bool_)
    kept[chosen] = False
    rest = Ranges(ranges.slots[kept], ranges.levels[kept], ranges.low[kept], ranges.high[kept])
    ends = np.append(starts[1:] - 1, high.max())
    return _joined(rest, starts, ends, int(ranges.levels[chosen[0]]) + 1)


TABLE = TableId("shop", "visits")
VISITS = TableSchema(TABLE, (Column("id", STRING), Column("number", INT64)), ("id",))


def _key(number: int) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_OID, str(number)))


def visits(folder: Path, **settings: Any) -> FolderTable:
    """Forty files of fifty rows with random keys each."""
    table = FolderTable(folder, VISITS, **settings)
    for number in range(40):
        rows = [insert({"id": _key(50 * number + i), "number": number}, VISITS) for i in range(50)]
        table.apply(batch(number + 1, rows))
    return table


def put_in_order(table: FolderTable, merges: int = 2) -> int:
    """Compact until nothing is left to do, with files of a batch as files that are not small; returns how many times."""
    size = max(file.size for file in table.state.files)
    for count in range(100):
        if table.compact(size, merges) == 0:
            return count
    raise AssertionError("it is compacted again and again")


def numbers(table: FolderTable) -> dict[str, int]:
    return {row["id"]: row["number"] for row in table.rows()}


def test_random_keys_are_found_in_few_files_after_compaction_and_all_rows_are_there(tmp_path: Path) -> None:
    table = visits(tmp_path)
    before = numbers(table)
    keys = pa.table({table.state.key[0]: [_key(3), _key(1999)]})
    assert len(candidate_files(table.state.files, keys)) >= 38
    assert put_in_order(table) > 5
    assert len(candidate_files(table.state.files, keys)) <= 12
    assert len(table.state.files) == 40
    assert (len(table.rows()), numbers(table)) == (2000, before)


@pytest.mark.parametrize("soft", [False, True])
def test_a_table_that_is_put_in_order_takes_changes(tmp_path: Path, *, soft: bool) -> None:
    table = visits(tmp_path, soft_deletes=soft)
    put_in_order(table)
    changes = [update({"id": _key(n), "number": -n}, VISITS) for n in range(100, 2000, 100)]
    table.apply(batch(41, [*changes, delete({"id": _key(8)}, VISITS)]))
    put_in_order(table)
    live = {row["id"]: row["number"] for row in table.rows() if not row.get("_is_deleted")}
    assert (len(live), _key(8) in live) == (1999, False)
    assert {live[_key(n)] for n in range(100, 2000, 100)} == {-n for n in range(100, 2000, 100)}


def test_files_without_a_level_are_put_in_order_again_with_the_others(tmp_path: Path) -> None:
    """OPTIMIZE of Spark writes such files."""
    table = visits(tmp_path)
    put_in_order(table)
    bare = [DataFile({k: v for k, v in file.add.items() if k != "tags"}) for file in table.state.files.all_actions()]
    table.state.files = index_of(*bare)
    before = numbers(table)
    put_in_order(table)
    assert numbers(table) == before


def test_compaction_on_executors_puts_rows_in_the_order_of_their_keys(lake: Lake) -> None:
    consumer = lake.consumer()
    for number in range(8):
        rows = [insert({"id": _key(50 * number + i), "number": number}, VISITS) for i in range(50)]
        consumer.apply_batch(batch(number + 1, rows))
    table = lake.consumer()._table(TABLE)
    size = max(file.size for file in table.begin().state.files)
    assert compact(table, lake.spark(), size).has_changed
    files = table.begin().state.files
    assert [file.level for file in files] == [1] * 8
    lake.spark().sql(f"OPTIMIZE delta.`{lake.path(TABLE)}`")
    lake.consumer().apply_batch(
        batch(9, [update({"id": _key(7), "number": -7}, VISITS), delete({"id": _key(8)}, VISITS)])
    )
    found = {r["id"]: r["number"] for r in lake.rows(TABLE)}
    assert (len(found), found[_key(7)]) == (399, -7)


def test_the_size_of_files_that_the_table_itself_names_is_followed(tmp_path: Path) -> None:
    """New files are smaller than the settings say, but never larger: they are made in memory."""
    state = FolderTable(tmp_path, VISITS).state
    assert (state.file_bytes, state.written_bytes(1 << 25)) == (None, 1 << 25)
    state.metadata["configuration"]["delta.targetFileSize"] = "2mb"
    assert state.file_bytes == 2 << 20
    assert state.written_bytes(32 << 20) == 2 << 20
    assert state.written_bytes(1 << 20) == 1 << 20


@pytest.mark.parametrize(
    ("text", "size"),
    [("104857600", 104857600), ("64MB", 64 << 20), ("1 g", 1 << 30), ("5", 1 << 20), ("", None), ("big", None)],
)
def test_sizes_of_files_are_read_as_delta_writes_them(text: str, size: int | None) -> None:
    from replicator_target_delta.schema.file_size import target_file_size

    assert target_file_size({"configuration": {"delta.targetFileSize": text}}) == size
