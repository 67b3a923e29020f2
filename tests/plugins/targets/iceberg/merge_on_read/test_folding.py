"""Compaction of a merge-on-read table leaves rows out that no reader sees, in one commit, and ends."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replicator_sdk import failpoint
from replicator_sdk.datatype import STRING
from replicator_sdk.errors import ReplicatorError
from replicator_sdk.schema import Column, TableSchema
from replicator_target_iceberg.files.data_file import FULL
from replicator_target_iceberg.files.live_files import LiveFile
from replicator_target_iceberg.maintenance import folding
from replicator_target_iceberg.maintenance.folding import HIGHEST_LEVEL, TOGETHER, level_of, name_of, overlapping
from tests.depth import some
from tests.plugins.targets.changes import KEYED, TABLE, at, batch, delete, insert, row, update
from tests.plugins.targets.iceberg.merge_on_read.latest_warehouse import LatestWarehouse
from tests.plugins.targets.iceberg.others import foreign
from tests.plugins.targets.iceberg.warehouse import Warehouse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from replicator_target_iceberg.jvm import Catalog

MakeLake = Callable[..., LatestWarehouse]


@pytest.fixture
def make_lake(tmp_path: Path, iceberg_spark: SparkSession) -> MakeLake:
    return lambda **settings: LatestWarehouse(tmp_path / "lake", iceberg_spark, **settings)


def write(lake: LatestWarehouse, first: int = 1) -> list[tuple[int, str]]:
    """Ten batches: a key that is updated in each, one that is inserted in each, and deleted in the next one."""
    consumer = lake.consumer()
    for number in range(first, first + 10):
        gone = [delete(row(number - 1, "new"))] if number > first else []
        consumer.apply_batch(batch(number, [update(row(0, f"at {number}")), insert(row(number, "new")), *gone]))
    return lake.names()


def fold(lake: LatestWarehouse, epoch: int = 1) -> int:
    """Maintenance until it is done; returns how many steps changed something."""
    for steps in range(50):
        report = lake.maintain(TABLE, "compact", epoch=epoch)
        if report.is_finished and not report.has_changed:
            return steps
    raise AssertionError("compaction does not end")


@pytest.mark.parametrize("version", [2, 3])
def test_rows_that_are_replaced_go_and_so_do_tombstones_of_which_nothing_older_is_left(
    make_lake: MakeLake, version: int
) -> None:
    lake = make_lake(formatVersion=version)
    seen = write(lake)
    assert fold(lake) == 1
    assert lake.names() == seen == [(0, "at 10"), (10, "new")]
    assert lake.arrow(TABLE).num_rows == 2
    progress = lake.consumer().progress(TABLE)
    assert progress is not None
    assert (progress.position, progress.last_sequence) == (at(10), 10003)
    assert write(lake, 11) == [(0, "at 20"), (10, "new"), (20, "new")]


def test_files_that_are_neither_small_nor_full_are_folded_too(make_lake: MakeLake) -> None:
    """As batches of half a file, what another program has written, and what was written again under other columns."""
    lake = make_lake(targetFileBytes=1 << 20)
    chance, consumer = random.Random(7), lake.consumer()
    for number in range(1, 13):
        consumer.apply_batch(
            batch(number, [update(row(key, chance.randbytes(10_000).hex(), "n")) for key in range(30)])
        )
    seen = lake.names()
    fold(lake)
    assert lake.names() == seen
    assert lake.arrow(TABLE).num_rows <= 7 * 30


@pytest.mark.parametrize("mode", ["append", "merge"])
def test_tables_of_other_modes_are_not_folded_whatever_their_properties_say(
    tmp_path: Path, iceberg_spark: SparkSession, mode: str
) -> None:
    """An owner may name keys to readers of a history."""
    lake = Warehouse(tmp_path / "lake", iceberg_spark, mode=mode)
    consumer = lake.consumer()
    for number in range(1, 11):
        consumer.apply_batch(batch(number, [(update if number > 1 else insert)(row(1, f"at {number}"))]))
    foreign(lake, names_keys, TABLE)
    before = lake.arrow(TABLE).num_rows
    lake.maintain(TABLE, "compact")
    assert lake.arrow(TABLE).num_rows == before == (10 if mode == "append" else 1)


def names_keys(table: Any, _: Catalog) -> None:
    keys = {"primary_key": '["id"]', "watermark_key": '["_sequence_num"]', "tombstone_key": "_op"}
    update = table.updateProperties()
    for name, value in keys.items():
        update.set(name, value)
    update.commit()


def test_small_files_are_put_together_two_at_least_however_large_files_are_to_be(make_lake: MakeLake) -> None:
    """Each takes more than what a step takes otherwise; one that is written again alone is as small as before."""
    lake = make_lake(targetFileBytes=512 << 20)
    consumer, chance = lake.consumer(), random.Random(3)
    for number in range(1, 10):
        wide = [update(row(key, chance.randbytes(1_000_000).hex(), "n")) for key in range(10)]
        consumer.apply_batch(batch(number, wide))
    seen = lake.names()
    fold(lake)
    assert lake.names() == seen
    assert lake.arrow(TABLE).num_rows < 9 * 10, "eight small files are put together, fewer are not"


def test_a_table_of_which_every_row_is_deleted_has_none_left(make_lake: MakeLake) -> None:
    lake = make_lake()
    consumer = lake.consumer()
    for number in range(1, 10):
        consumer.apply_batch(batch(number, [insert(row(number, "a")), delete(row(number, "a"))]))
    fold(lake)
    assert lake.arrow(TABLE).num_rows == 0
    consumer.apply_batch(batch(10, [insert(row(1, "again"))]))
    assert lake.names() == [(1, "again")]


@pytest.mark.parametrize("most", [folding._ROWS_LOOKED_THROUGH, 0])
def test_a_tombstone_stays_while_another_file_has_a_row_of_its_key_or_may_have(
    make_lake: MakeLake, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """A full file is not put together with small ones; without a limit it is looked through."""
    monkeypatch.setattr(folding, "_ROWS_LOOKED_THROUGH", most)
    lake = make_lake(targetFileBytes=1 << 20)
    lake.consumer().apply_batch(batch(1, [insert(row(key, "a" * 400)) for key in range(100, 3100)]))
    for number in range(2, 11):
        changes = [delete(row(100 + number)), insert(row(number, "new")), delete(row(number, "new"))]
        lake.consumer(epoch=number).apply_batch(batch(number, changes, epoch=number))
    seen = lake.names()
    fold(lake, epoch=20)
    assert lake.names() == seen
    tombstones = {one["id"] for one in lake.arrow(TABLE).to_pylist() if one["_is_deleted"]}
    kept = set(range(102, 111))
    assert tombstones == (kept if most else kept | set(range(2, 11)))


def test_tombstones_stay_where_the_source_gives_watermarks(make_lake: MakeLake) -> None:
    """A row with a lower watermark may come later."""
    lake = make_lake(watermarkKeys=["note"])
    consumer = lake.consumer()
    for number in range(1, 10):
        consumer.apply_batch(batch(number, [insert(row(number, "a", "5")), delete(row(number, "a", "5"))]))
    fold(lake)
    assert lake.arrow(TABLE).num_rows == 9
    consumer = lake.consumer(epoch=2)
    consumer.apply_batch(batch(10, [insert(row(1, "late", "4")), insert(row(2, "new", "6"))], epoch=2))
    assert lake.names() == [(2, "new")]


def test_rows_that_the_source_marks_as_deleted_stay_for_updates_that_do_not_send_all(make_lake: MakeLake) -> None:
    schema = TableSchema(TABLE, (*KEYED.columns, Column("gone", STRING)), ("id",))
    lake = make_lake(tombstoneKey="gone")
    consumer = lake.consumer()
    for number in range(1, 10):
        consumer.apply_batch(batch(number, [insert({**row(number, "a"), "gone": "yes"}, schema)]))
    fold(lake)
    assert lake.rows(TABLE) == []
    lake.consumer(epoch=2).apply_batch(batch(10, [update({"id": 1, "gone": None}, schema)], epoch=2))
    assert lake.names() == [(1, "a")]


@pytest.mark.parametrize("seed", some(range(3), 1, name="histories that are folded"))
def test_full_files_of_the_same_keys_are_folded_and_readers_see_no_difference(make_lake: MakeLake, seed: int) -> None:
    """Each batch fills a file with rows of keys in no order: without folding the history would only grow."""
    lake = make_lake(targetFileBytes=1 << 20)
    chance, rows, position, written = random.Random(seed), dict[int, str](), 0, 0
    consumer = lake.consumer()
    for _ in range(3):
        for _ in range(6):
            position += 1
            changes = []
            for key in chance.sample(range(60), 34):
                name = f"{position} {chance.randbytes(20_000).hex()}"
                if key in rows and chance.random() < 0.3:
                    changes.append(delete(row(key, rows.pop(key))))
                else:
                    changes.append((update if key in rows else insert)(row(key, name)))
                    rows[key] = name
            consumer.apply_batch(batch(position, changes))
            written += len(changes)
        fold(lake)
        assert lake.names() == sorted(rows.items())
    assert lake.arrow(TABLE).num_rows < written / 2
    consumer.apply_batch(batch(position + 1, [update({"id": key, "note": "n"}) for key in rows]))
    assert lake.names() == sorted(rows.items())


def test_an_end_before_the_commit_leaves_the_table_as_it_was(make_lake: MakeLake) -> None:
    lake = make_lake()
    seen, rows = write(lake), lake.arrow(TABLE).num_rows
    failpoint.arm("iceberg.compaction.written=raise")
    try:
        with pytest.raises(ReplicatorError):
            lake.maintain(TABLE, "compact")
    finally:
        failpoint.arm("")
    assert (lake.names(), lake.arrow(TABLE).num_rows) == (seen, rows)


def test_a_snapshot_of_before_comes_back_with_the_rows_that_were_left_out(make_lake: MakeLake) -> None:
    lake = make_lake()
    write(lake)
    fold(lake)
    lake.consumer(epoch=2).rewind_table(TABLE, at(5))
    assert lake.names() == [(0, "at 5"), (5, "new")]
    lake.consumer(epoch=3).apply_batch(batch(6, [update(row(0, "again")), delete(row(5, "new"))], epoch=3))
    assert lake.names() == [(0, "again")]


ENDS = st.one_of(st.none(), st.tuples(st.integers(-5, 5), st.integers(0, 6)))


@given(st.lists(st.tuples(ENDS, st.integers(0, HIGHEST_LEVEL)), max_size=30))
def test_files_that_may_hold_one_key_are_found_until_no_four_of_a_level_do(files: list[tuple[Any, int]]) -> None:
    """Each step moves four files up one level, so that steps end."""
    every = []
    for number, (ends, level) in enumerate(files):
        low, high = (None, None) if ends is None else (ends[0], ends[0] + ends[1])
        every.append(LiveFile(f"data/{FULL}{name_of(level)}{number}.parquet", 1, 1, low, high))
    every += [LiveFile(f"data/large{number}.parquet", 10, 1, -5, 11) for number in range(5)]
    steps = 0
    while chosen := overlapping(every, 9):
        assert len(chosen) == TOGETHER
        assert len({level_of(file) for file in chosen}) == 1
        least = max((file.lowest for file in chosen if file.lowest is not None), default=0)
        assert all(file.highest is None or file.highest >= least for file in chosen)
        level = level_of(chosen[0]) + 1
        every = [file for file in every if file not in chosen]
        every += [
            LiveFile(f"data/{name_of(level)}{steps}-{n}.parquet", 1, 1, f.lowest, f.highest)
            for n, f in enumerate(chosen)
        ]
        steps += 1
    assert steps <= HIGHEST_LEVEL * len(files)
    for point in range(-5, 12):
        for level in range(HIGHEST_LEVEL):
            here = [f for f in every if f.size < 10 and level_of(f) == level]
            assert sum(f.lowest is None or f.lowest <= point <= f.highest for f in here) < TOGETHER
