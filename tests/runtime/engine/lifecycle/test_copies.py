"""The copies that run: begun, taken when they ended, and ended early with nothing left of their outcome."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from replicator_runtime.engine.lifecycle.copies import Copies, Copy
from replicator_runtime.engine.tables.table_store import TableRecord
from replicator_sdk import TableId

if TYPE_CHECKING:
    from collections.abc import Iterator

A, B = TableRecord(TableId("db", "a")), TableRecord(TableId("db", "b"))


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as pool:
        yield pool


def wait_for(event: threading.Event) -> None:
    assert event.wait(10)


def until_stopped(copy: Copy) -> None:
    assert copy.stop.wait(10)


def test_a_table_is_copying_until_its_outcome_is_taken(pool: ThreadPoolExecutor) -> None:
    copies, go = Copies(), threading.Event()
    copies.begin(A, lambda _: pool.submit(wait_for, go))
    assert (A.copying, copies.running, copies.take_ended()) == (True, True, [])
    go.set()
    pool.submit(lambda: None).result(10)
    assert A.copying
    assert copies.take_ended() == [(A, None)]
    assert (A.copying, copies.take_ended()) == (False, [])


def test_a_copy_that_fails_is_taken_with_its_error(pool: ThreadPoolExecutor) -> None:
    copies, error = Copies(), OSError("locked")

    def fail() -> None:
        raise error

    copies.begin(A, lambda _: pool.submit(fail))
    pool.submit(lambda: None).result(10)
    assert copies.take_ended() == [(A, error)]


def test_ending_one_copy_leaves_the_others(pool: ThreadPoolExecutor) -> None:
    copies = Copies()
    copies.begin(A, lambda copy: pool.submit(until_stopped, copy))
    copies.begin(B, lambda copy: pool.submit(until_stopped, copy))
    copies.end(A.table)
    assert (A.copying, B.copying, copies.running) == (False, True, True)
    copies.end(A.table)
    copies.end_all()
    assert (B.copying, copies.running, copies.take_ended()) == (False, False, [])
