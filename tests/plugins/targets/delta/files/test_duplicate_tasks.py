"""Spark may run a task twice, by speculation or after a lost executor: the files of one run only become part of the table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import pytest

from replicator_sdk.datatype import STRING
from replicator_sdk.distributed.executors import run_on_executors
from replicator_sdk.event import Alter, AlterKind
from replicator_sdk.schema import Column, TableSchema
from replicator_target_delta import snapshot
from replicator_target_delta.ddl import backfill
from replicator_target_delta.maintenance import compaction
from tests.plugins.targets.changes import KEYED, TABLE, alter, batch, delete, insert, row, update
from tests.plugins.targets.delta.lake import Lake
from tests.plugins.targets.delta.test_snapshot import load

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def twice(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Each task runs twice on the executors, and the results of the second run count; how many tasks there were."""
    ran: list[int] = []

    def run(
        spark: SparkSession, work: Callable[[Any], Any], tasks: Sequence[Any], is_stopping: Callable[[], bool] = bool
    ) -> list[Any]:
        ran.append(len(tasks))
        return run_on_executors(spark, work, [task for task in tasks for _ in range(2)], is_stopping)[1::2]

    for module in (snapshot, compaction, backfill):
        monkeypatch.setattr(module, "run_on_executors", run)
    monkeypatch.setattr(backfill, "is_local", lambda _spark: False)
    return ran


def on_disk(lake: Lake) -> int:
    """How many data files the folder has, whether the table has them or not."""
    return len(list(lake.path(TABLE).glob("*.parquet")))


def live(lake: Lake) -> int:
    """How many data files the table has."""
    return len(lake.consumer()._table(TABLE).begin().state.files)


def test_rows_of_chunks_that_were_written_twice_are_there_once(lake: Lake, twice: list[int]) -> None:
    load(lake)
    assert (twice, on_disk(lake)) == ([3], 2 * live(lake))
    consumer = lake.consumer()
    consumer.apply_batch(batch(6, [update(row(1, "changed")), delete({"id": 2}), insert(row(99))]))
    assert sorted(r["id"] for r in lake.rows(TABLE)) == [0, 1, *range(3, 30), 99]


def test_files_that_were_rewritten_twice_are_in_the_table_once(lake: Lake, twice: list[int]) -> None:
    consumer = lake.consumer()
    for number in (1, 2):
        consumer.apply_batch(batch(number, [insert(row(10 * number + n)) for n in range(4)]))
    wider = TableSchema(TABLE, (*KEYED.columns, Column("extra", STRING)), ("id",))
    consumer.apply_ddl(alter(3, wider, Alter(AlterKind.ADD_COLUMN, wider["extra"], default="d")))
    wanted = {10 * number + n: "d" for number in (1, 2) for n in range(4)}
    rows = lake.rows(TABLE)
    assert (len(rows), {r["id"]: r["extra"] for r in rows}) == (8, wanted)
    assert twice == [2]
    lake.maintain(TABLE, "compact")
    assert len(twice) > 1 or live(lake) == 2
    rows = lake.rows(TABLE)
    assert (len(rows), {r["id"]: r["extra"] for r in rows}) == (8, wanted)
