"""When tables are committed, and what a commit that is due does about files that are being written."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from replicator_sdk.testing.contexts import TestTargetContext
from replicator_sdk.testing.in_memory.offset import MemoryOffset
from replicator_target_iceberg.coordinator.rounds import Rounds
from replicator_target_iceberg.coordinator.table_commits import TableCommits
from tests.plugins.targets.changes import KEYED, TABLE, at, batch, delete, insert, row, update
from tests.plugins.targets.iceberg.coordinator.lakes import (
    ONCE_AN_HOUR,
    OTHER,
    files,
    shown,
    started,
    take,
    wait_until,
    written_slowly,
)
from tests.plugins.targets.iceberg.warehouse import Warehouse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from replicator_target_iceberg.coordinator.consumer import CoordinatedConsumer


@dataclass
class Stub:
    """A table that has always taken something, and notes when it is committed."""

    name: str = "shop.customers"
    waits: bool = True
    commits: list[float] = field(default_factory=list)

    def wait_for_batch(self, is_over: Any) -> bool:
        return not is_over()

    def commit(self, commit_id: str) -> None:
        assert commit_id
        self.commits.append(time.monotonic())


def rounds(interval: float, table: Stub) -> Rounds:
    found = [cast("TableCommits", table)]
    return Rounds(interval, 0.0, lambda: found, TestTargetContext(MemoryOffset.from_fields))


def test_between_two_commits_and_before_the_first_is_the_interval() -> None:
    """However many batches are taken meanwhile."""
    table, began = Stub(), time.monotonic()
    made = rounds(1.0, table)
    for _ in range(40):
        made.taken()
        time.sleep(0.05)
    wait_until(lambda: len(table.commits) >= 2)
    made.stop()
    first, second = table.commits[:2]
    assert first - began >= 1.0
    assert second - first > 0.5  # less than 1.0 where the thread had to wait for the processor before the first


def test_changes_after_a_silence_are_committed_at_once() -> None:
    table = Stub()
    made = rounds(3600.0, table)
    made._began -= 3600.0  # so long ago
    made.taken()
    wait_until(lambda: bool(table.commits))
    made.taken()
    time.sleep(0.2)
    made.stop()
    assert len(table.commits) == 1


def test_nothing_is_committed_where_nothing_was_taken() -> None:
    table = Stub()
    made = rounds(0.01, table)
    made.taken()
    wait_until(lambda: bool(table.commits))
    count = len(table.commits)
    time.sleep(0.3)
    assert len(table.commits) == count
    made.stop()


def test_a_stop_does_not_wait_for_the_interval_and_commits_nothing() -> None:
    table = Stub()
    made = rounds(3600.0, table)
    made.taken()
    made.stop()
    made.taken()
    made.stop()
    assert not table.commits


def an_hour_passes(consumer: CoordinatedConsumer) -> None:
    """The interval is over; the clock's thread, which has not started yet, finds that."""
    consumer._rounds._began -= ONCE_AN_HOUR
    consumer._rounds.taken()


def incomplete(consumer: CoordinatedConsumer) -> float:
    counters: dict[str, float] = consumer._context.metrics.counters  # type: ignore[attr-defined]
    return counters.get("iceberg.commits_incomplete", 0)


def test_files_that_are_late_are_in_the_next_commit_and_change_rows_of_the_one_before(
    tmp_path: Path, iceberg_spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit of what was taken before is made while they are written, beside the commit of another table."""
    lake = Warehouse(tmp_path / "lake", iceberg_spark, commitIntervalMs=ONCE_AN_HOUR, commitTimeoutMs=100)
    consumer = started(lake, KEYED, OTHER)
    take(consumer, batch(1, [insert(row(key, "old")) for key in range(4)]))
    take(consumer, batch(1, [insert(row(1), OTHER)]))
    late = batch(2, [delete({"id": 0}), update({"id": 1, "name": "new"}), insert(row(9, "new"))])
    with written_slowly(monkeypatch, consumer, late) as may_go_on:
        an_hour_passes(consumer)
        wait_until(lambda: consumer.settled(TABLE) == at(1) and consumer.settled(OTHER.table) == at(1))
        assert incomplete(consumer) == 1
        assert sorted(shown(lake)) == [0, 1, 2, 3]
        may_go_on.set()
    assert consumer.settled(TABLE) == at(1)
    consumer.apply_batch(batch(3, [delete({"id": 2}), delete({"id": 9})]))
    consumer.settle([TABLE])
    assert consumer.settled(TABLE) == at(3)
    assert shown(lake) == {1: ("new", None), 3: ("old", None)}
    commits = [(s["replicator.position"], s["replicator.batch"]) for s in lake.summaries(TABLE)[-2:]]
    assert commits == [(str(at(1)), "1-1-1001-1004"), (str(at(3)), "1-1-2001-3002")]
    consumer.stop()


def test_a_commit_waits_for_files_that_are_being_written_when_it_is_due(
    tmp_path: Path, iceberg_spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Warehouse(tmp_path / "lake", iceberg_spark, commitIntervalMs=ONCE_AN_HOUR, commitTimeoutMs=120_000)
    consumer = started(lake, KEYED, OTHER)
    take(consumer, batch(1, [insert(row(1), OTHER)]))
    with written_slowly(monkeypatch, consumer, batch(1, [insert(row(1))])) as may_go_on:
        an_hour_passes(consumer)
        time.sleep(0.5)
        assert consumer.settled(OTHER.table) == at(0)
        may_go_on.set()
    wait_until(lambda: consumer.settled(TABLE) == at(1) and consumer.settled(OTHER.table) == at(1))
    own, other = (lake.summaries(table)[-1] for table in (TABLE, OTHER.table))
    assert own["replicator.commit-id"] == other["replicator.commit-id"]
    assert incomplete(consumer) == 0
    consumer.stop()


def test_a_late_batch_of_a_table_whose_commit_failed_fails_with_it_and_leaves_no_files(
    tmp_path: Path, iceberg_spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Warehouse(tmp_path / "lake", iceberg_spark, commitIntervalMs=ONCE_AN_HOUR)
    consumer = started(lake)
    take(consumer, batch(1, [insert(row(1))]))
    errors: list[BaseException] = []
    monkeypatch.setattr(threading, "excepthook", lambda found: errors.append(found.exc_value))
    with written_slowly(monkeypatch, consumer, batch(2, [update({"id": 1, "name": "new"})])):
        newer = started(lake, epoch=2)
        newer.apply_batch(batch(1, [insert(row(1, "newer"))], epoch=2))
        newer.settle([TABLE])
        newer.stop()
        consumer.settle([TABLE])
    assert "RPL-8420" in str(errors[0])
    consumer.stop()
    assert len(files(lake)) == 1
    assert shown(lake) == {1: ("newer", None)}
