"""The queue between reader and apply is bounded in bytes and passes on how the reader ended."""

from __future__ import annotations

import threading
import time

import pytest

from replicator_runtime.engine.batching.event_queue import EventQueue
from replicator_sdk import ReaderClosed


def test_a_full_queue_holds_the_producer_back_until_there_is_room() -> None:
    queue: EventQueue[int] = EventQueue(100)
    queue.put(1, 80)
    done = threading.Event()

    def produce() -> None:
        queue.put(2, 80)
        done.set()

    producer = threading.Thread(target=produce)
    producer.start()
    assert not done.wait(0.1)
    assert queue.get(1) == 1
    assert done.wait(60)
    producer.join()
    assert queue.nbytes == 80


def test_an_item_larger_than_the_bound_is_let_in_alone() -> None:
    queue: EventQueue[int] = EventQueue(10)
    queue.put(1, 1000)
    assert queue.get(0) == 1


def test_closing_frees_a_waiting_producer() -> None:
    queue: EventQueue[int] = EventQueue(10)
    queue.put(1, 10)
    raised = threading.Event()

    def produce() -> None:
        try:
            queue.put(2, 10)
        except ReaderClosed:
            raised.set()

    producer = threading.Thread(target=produce)
    producer.start()
    queue.close()
    assert raised.wait(60)
    producer.join()


def test_what_was_put_before_a_failure_comes_first() -> None:
    queue: EventQueue[int] = EventQueue(10)
    queue.put(1, 1)
    queue.fail(ValueError("gone"))
    assert queue.get(0) == 1
    with pytest.raises(ValueError, match="gone"):
        queue.get(0)


def test_get_gives_up_after_its_time() -> None:
    began = time.monotonic()
    assert EventQueue[int](1).get(0.05) is None
    assert time.monotonic() - began >= 0.05
