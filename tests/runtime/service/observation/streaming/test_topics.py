"""An event stream sends what has changed, of each thing its newest state; one that comes again is sent what it missed."""

from __future__ import annotations

import asyncio
from typing import Any

from replicator_runtime.service.observation.streaming.topics import Numbers, Topic
from tests.runtime.service.event_loops import run


class Things:
    """What a topic shows."""

    def __init__(self) -> None:
        self.now: dict[str, tuple[str, Any]] = {}

    def __call__(self) -> dict[str, tuple[str, Any]]:
        return dict(self.now)


def sent(topic: Topic, number: int) -> tuple[list[tuple[str, str]], int]:
    """Kind and data of all that follows, and the number of the last one."""
    found: list[tuple[str, str]] = []
    while events := topic.since(number):
        found += [(kind, text) for _, kind, text, _ in events]
        number = events[-1][3]
    return found, number


def test_a_new_stream_is_sent_all_and_then_only_what_changes() -> None:
    things, numbers = Things(), Numbers()
    topic = Topic(numbers, things)
    assert topic.since(0) == []
    things.now = {"table:a": ("table", 1), "table:b": ("table", 2)}
    topic.refresh()
    all_of_it, number = sent(topic, 0)
    assert all_of_it == [("begin", "{}"), ("table", "1"), ("table", "2")]
    topic.refresh()
    assert sent(topic, number) == ([], number)
    things.now["table:a"] = ("table", 3)
    topic.refresh()
    things.now["table:a"] = ("table", 4)
    topic.refresh()
    assert sent(topic, number)[0] == [("table", "4")]


def test_a_stream_that_comes_again_is_sent_what_it_missed_and_what_is_gone() -> None:
    things, numbers = Things(), Numbers()
    topic = Topic(numbers, things)
    things.now = {"pipeline:a": ("pipeline", 1), "pipeline:b": ("pipeline", 2)}
    topic.refresh()
    _, number = sent(topic, 0)
    del things.now["pipeline:a"]
    topic.refresh()
    resumed = topic.beginning(numbers.text(number))
    assert sent(topic, resumed)[0] == [("deleted", '{"kind": "pipeline", "id": "a"}')]
    assert sent(topic, 0)[0][:1] == [("begin", "{}")]


def test_after_another_start_of_the_service_all_is_sent() -> None:
    topic = Topic(Numbers(), Things())
    other = Numbers()
    for last_id in (None, "", other.text(10**6), "x-1", f"{other.start}-x", "-" * 100):
        assert topic.beginning(last_id) == 0


def test_a_thousand_streams_cost_one_reading() -> None:
    things, numbers, read = Things(), Numbers(), []

    def reading() -> dict[str, tuple[str, Any]]:
        read.append(1)
        return things()

    topic = Topic(numbers, reading)

    async def listen(began: asyncio.Semaphore) -> int:
        woken = asyncio.Event()
        with topic.listening(woken):
            began.release()
            await woken.wait()
            return len(topic.since(topic.since(0)[-1][3]))

    async def main() -> list[int]:
        began = asyncio.Semaphore(0)
        streams = [asyncio.create_task(listen(began)) for _ in range(1000)]
        for _ in streams:
            await began.acquire()
        assert topic.streams == 1000
        things.now = {f"table:{n}": ("table", n) for n in range(3)}
        await asyncio.to_thread(topic.refresh)
        return await asyncio.gather(*streams)

    assert run(main()) == [3] * 1000
    assert (len(read), topic.streams) == (1, 0)
