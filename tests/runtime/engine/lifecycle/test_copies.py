"""The copies that run: begun, taken when they ended, and ended early with nothing left of their outcome."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
import structlog

from replicator_runtime.engine.lifecycle.copies import Copies, Copy
from replicator_runtime.engine.tables.table_store import TableRecord
from replicator_sdk import TableId
from replicator_sdk.errors import BugError

if TYPE_CHECKING:
    from collections.abc import Iterator

A, B = TableRecord(TableId("db", "a")), TableRecord(TableId("db", "b"))


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    A.copying = B.copying = False
    with ThreadPoolExecutor(1) as pool:
        yield pool


def wait_for(event: threading.Event) -> None:
    assert event.wait(60)


def until_stopped(copy: Copy) -> None:
    assert copy.stop.wait(60)


def fail(error: Exception) -> None:
    raise error


def refuse(copy: Copy) -> None:
    """What a copy does whose table has changed its state meanwhile: no test of the engine brings that about."""
    until_stopped(copy)
    fail(BugError("a table in state FAILING cannot become REPLICATING", code="RPL-9014"))


def test_a_table_is_copying_until_its_outcome_is_taken(pool: ThreadPoolExecutor) -> None:
    copies, go = Copies(), threading.Event()
    copies.begin(A, lambda _: pool.submit(wait_for, go))
    assert (A.copying, copies.running, list(copies.take_ended())) == (True, True, [])
    go.set()
    pool.submit(lambda: None).result(60)
    assert (A.copying, copies.running) == (True, True)
    assert list(copies.take_ended()) == [(A, None)]
    assert (A.copying, copies.running, list(copies.take_ended())) == (False, False, [])


def test_a_copy_that_fails_is_taken_with_its_error(pool: ThreadPoolExecutor) -> None:
    copies, error = Copies(), OSError("locked")
    copies.begin(A, lambda _: pool.submit(fail, error))
    pool.submit(lambda: None).result(60)
    assert list(copies.take_ended()) == [(A, error)]


def test_what_is_not_taken_because_of_another_error_is_taken_later(pool: ThreadPoolExecutor) -> None:
    copies = Copies()
    copies.begin(A, lambda _: pool.submit(fail, OSError("locked")))
    copies.begin(B, lambda _: pool.submit(fail, OSError("full")))
    pool.submit(lambda: None).result(60)
    assert [record for record, _ in [next(copies.take_ended())]] == [A]
    assert [record for record, _ in copies.take_ended()] == [B]


def test_ending_one_copy_leaves_the_others(pool: ThreadPoolExecutor) -> None:
    copies = Copies()
    copies.begin(A, lambda copy: pool.submit(until_stopped, copy))
    copies.begin(B, lambda copy: pool.submit(until_stopped, copy))
    copies.end(A.table)
    assert (A.copying, B.copying, copies.running) == (False, True, True)
    copies.end(A.table)
    copies.end_all()
    assert (B.copying, copies.running, list(copies.take_ended())) == (False, False, [])


def test_a_bug_that_ends_a_copy_while_it_is_ended_is_raised(pool: ThreadPoolExecutor) -> None:
    copies = Copies()
    copies.begin(A, lambda copy: pool.submit(refuse, copy))
    with pytest.raises(BugError, match="RPL-9014"):
        copies.end(A.table)
    assert (A.copying, copies.running) == (False, False)


def test_a_bug_that_ends_a_copy_at_the_end_of_the_run_is_logged(pool: ThreadPoolExecutor) -> None:
    copies = Copies()
    copies.begin(A, lambda copy: pool.submit(refuse, copy))
    with structlog.testing.capture_logs() as logged:
        copies.end_all()
    assert "RPL-9014" in str(logged)
