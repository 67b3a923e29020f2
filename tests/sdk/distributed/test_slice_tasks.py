"""What the tasks of a slice did is joined by table; a table whose work fails leaves the others theirs."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from replicator_sdk.datatype import INT64, STRING
from replicator_sdk.distributed.partitioned_log import LogPartition, LogSlice
from replicator_sdk.distributed.slice_tasks import JoinedResults, TaskResult, failures_of
from replicator_sdk.errors import DataError, FencedError
from replicator_sdk.schema import Column, TableId, TableSchema
from replicator_sdk.testing.in_memory.partitioned import PartitionedOffset

ORDERS, THINGS, OTHER = TableId("d", "orders"), TableId("d", "things"), TableId("d", "other")
WIDER = TableSchema(THINGS, (Column("id", INT64), Column("text", STRING)), ("id",))
TWO = (LogPartition(0, "log[0]", None), LogPartition(1, "log[1]", None))
SLICE = LogSlice(PartitionedOffset((0, 0)), PartitionedOffset((5, 5)), TWO, 1, 10, is_complete=True)


def joined(*results: TaskResult[str]) -> JoinedResults[str]:
    return JoinedResults.of(SLICE, results)


def test_parts_of_a_table_keep_the_order_of_the_tasks() -> None:
    found = joined(TaskResult({ORDERS: "a", THINGS: "b"}, (), {0: 20}), TaskResult({ORDERS: "c"}, (), {1: 10}))
    assert found.parts == {ORDERS: ["a", "c"], THINGS: ["b"]}
    assert found.ready == [ORDERS, THINGS]


def test_a_slice_is_as_late_as_the_partition_that_was_read_least() -> None:
    assert joined(TaskResult({}, (), {0: 20}), TaskResult({}, (), {1: 10})).valid_through == 10


def test_a_table_of_which_one_task_saw_another_schema_is_not_ready() -> None:
    found = joined(TaskResult({THINGS: "a", ORDERS: "b"}, (), {0: 1}), TaskResult({}, (WIDER, WIDER), {1: 1}))
    assert found.seen == (WIDER,)
    assert found.ready == [ORDERS]


def test_a_table_that_fails_leaves_the_others_their_work() -> None:
    done = []

    def work(table: TableId) -> None:
        if table == THINGS:
            raise DataError("refused", code="RPL-5999", hint="change it")
        done.append(table)

    with ThreadPoolExecutor(1) as pool:
        failures = failures_of(pool, work, [THINGS, ORDERS, OTHER])
    assert failures.keys() == {THINGS}
    assert isinstance(failures[THINGS], DataError)
    assert done == [ORDERS, OTHER]


def test_the_error_of_a_run_that_was_replaced_waits_until_all_work_has_ended() -> None:
    fenced, ended = threading.Event(), threading.Event()

    def work(table: TableId) -> None:
        if table == ORDERS:
            fenced.set()
            raise FencedError("a newer run goes on", code="RPL-8401", hint="end this run")
        fenced.wait(30)
        ended.set()

    with ThreadPoolExecutor(2) as pool, pytest.raises(FencedError):
        failures_of(pool, work, [ORDERS, THINGS])
    assert ended.is_set()
