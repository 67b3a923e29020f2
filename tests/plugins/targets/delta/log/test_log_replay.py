"""A table's log added up from its files is what Spark's own library computes of it, or is left to that library."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from replicator_target_delta.files.storage import Storage
from replicator_target_delta.log.log_replay import Content, replay
from replicator_target_delta.log.transaction_log import TableLog
from tests.plugins.targets.changes import TABLE, batch, delete, insert, row, update
from tests.plugins.targets.delta.lake import Lake


class Reading:
    """Both ways to read one table's log."""

    def __init__(self, lake: Lake) -> None:
        self.log = TableLog(lake.spark(), str(lake.path(TABLE)))

    def snapshot(self) -> Any:
        self.log.forget()
        return self.log._log.startTransaction().snapshot()

    def assert_equal(self) -> Content:
        snapshot = self.snapshot()
        replayed, computed = self.log._replayed(snapshot), self.log._computed(snapshot)
        assert replayed is not None
        assert replayed.domains == computed.domains
        assert adds_of(replayed) == adds_of(computed)
        return replayed

    def checkpoint(self) -> None:
        self.log._log.checkpoint(self.log._log.unsafeVolatileSnapshot(), self.log._none)


def adds_of(content: Content) -> dict[str, dict[str, Any]]:
    return {file.path: _with_values(file.add) for file in content.files.all_actions()}


def _with_values(add: dict[str, Any]) -> dict[str, Any]:
    """Without what is empty, and whether rows came with the commit: no state of a table has that."""
    return {k: v for k, v in add.items() if v not in (None, {}) and k != "dataChange"}


def _change(lake: Lake, number: int, chance: random.Random) -> None:
    keys = chance.sample(range(30), 6)
    there = {r["id"] for r in lake.rows(TABLE)} if number > 1 else set()
    changes = [
        insert(row(k, f"n{number}")) if k not in there else delete({"id": k}) if k % 3 else update(row(k, f"u{number}"))
        for k in keys
    ]
    lake.consumer().apply_batch(batch(number, changes))


def test_files_and_progress_are_those_that_spark_computes(lake: Lake) -> None:
    """Through rows that come, go and change, compaction, and checkpoints before and after them."""
    chance = random.Random(5)
    reading = None
    vectors = 0
    for number in range(1, 11):
        _change(lake, number, chance)
        if number == 7:
            lake.maintain(TABLE)
        reading = reading or Reading(lake)
        if number in {4, 9}:
            reading.snapshot()
            reading.checkpoint()
        if number in {3, 7, 10}:
            vectors += sum("deletionVector" in add for add in adds_of(reading.assert_equal()).values())
    assert vectors > 0, "no file had a deletion vector"


def test_a_table_without_a_commit_is_empty(lake: Lake) -> None:
    assert lake.consumer().progress(TABLE) is None


@pytest.mark.parametrize(
    ("checkpoints", "commits"),
    [
        (["s3://b/t/_delta_log/00000000000000000001.checkpoint.0000000001.0000000002.parquet"], []),
        (["/t/_delta_log/00000000000000000001.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.parquet"], []),
        ([f"/t/_delta_log/0000000000000000000{n}.checkpoint.parquet" for n in (1, 2)], []),
        ([], ["/t/_delta_log/00000000000000000001.00000000000000000004.compacted.json"]),
        ([], ["/t/_delta_log/_staged_commits/00000000000000000001.80a083e8.json"]),
        ([], ["/t/_delta_log/00000000000000000001.json"]),
    ],
    ids=["in parts", "of version 2", "two", "put together", "staged", "gone"],
)
def test_a_log_of_another_form_is_left_to_the_library(
    tmp_path: Path, checkpoints: list[str], commits: list[str]
) -> None:
    assert replay(Storage(str(tmp_path)), checkpoints, commits) is None


@pytest.mark.parametrize("lost", ["add.stats", "domainMetadata"])
def test_a_checkpoint_that_lacks_something_is_left_to_the_library(lake: Lake, lost: str) -> None:
    lake.consumer().apply_batch(batch(1, [insert(row(1))]))
    reading = Reading(lake)
    reading.snapshot()
    reading.checkpoint()
    [file] = lake.path(TABLE).glob("_delta_log/*.checkpoint.parquet")
    held = pq.read_table(file)
    assert replay(Storage(str(lake.path(TABLE))), [str(file)], []) is not None
    if lost == "domainMetadata":
        held = held.drop_columns([lost])
    else:
        flat = pq.ParquetFile(file).schema
        kept = [flat.column(i).path for i in range(len(flat.names)) if flat.column(i).path != lost]
        held = pq.ParquetFile(file).read(columns=kept)
    pq.write_table(held, file)
    assert replay(Storage(str(lake.path(TABLE))), [str(file)], []) is None


def test_what_the_library_computes_serves_as_well(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in (1, 2, 3):
        _change(lake, number, random.Random(number))
    before = sorted(r["id"] for r in lake.rows(TABLE))
    monkeypatch.setattr("replicator_target_delta.log.transaction_log.replay", lambda *files: None)
    consumer = lake.consumer(epoch=2)
    assert consumer.progress(TABLE) is not None
    consumer.apply_batch(batch(4, [insert(row(99))], epoch=2))
    assert sorted(r["id"] for r in lake.rows(TABLE)) == [*before, 99]
