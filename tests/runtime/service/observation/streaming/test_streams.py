"""A stream of a pipeline, or of all of a namespace, sends what its state says and then only what changes."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from replicator_runtime.service.observation import state_reader
from replicator_runtime.service.observation.streaming import streams as streaming
from replicator_runtime.service.observation.streaming.topics import Topic
from replicator_runtime.service.problems import ProblemError
from replicator_runtime.service.store.tables import Pipeline
from replicator_state import ReplicatorDirectory
from tests.runtime.cli.test_commands import status_of
from tests.runtime.service.event_loops import run
from tests.runtime.service.operations.ran import add_pipeline
from tests.runtime.service.services import Service
from tests.waits import until

SECONDS = 60


async def events(stream: AsyncIterator[bytes], count: int) -> list[tuple[str, str, Any]]:
    """Id, kind and data of so many events."""
    found: list[tuple[str, str, Any]] = []
    async with asyncio.timeout(SECONDS):
        while len(found) < count:
            for event in (await anext(stream)).decode().strip().split("\n\n"):
                lines = dict(line.split(": ", 1) for line in event.split("\n"))
                found.append((lines["id"], lines["event"], json.loads(lines["data"])))
    return found


def directory_of(tmp_path: Path, name: str) -> ReplicatorDirectory:
    return ReplicatorDirectory(str(tmp_path / "state"), "default", name)


def test_a_pipelines_stream_sends_all_and_then_the_row_that_changed(service: Service, tmp_path: Path) -> None:
    add_pipeline(service, {"offsetBasePath": str(tmp_path / "state")})
    status = status_of(datetime.now(UTC), "done")
    status["tables"].append({**status["tables"][0], "table": "items", "state": "REPLICATING", "error": None})
    directory_of(tmp_path, "shop").states().put_status(status)
    streams = service.context.streams

    async def watched() -> tuple[list[Any], list[Any], list[Any]]:
        stream = streams.events(streams.pipeline("default", "shop"), None)
        first = await events(stream, 5)
        status["tables"][1]["rows"] = 8
        await asyncio.to_thread(directory_of(tmp_path, "shop").states().put_status, status)
        second = await events(stream, 1)
        with service.context.database.session() as session:
            session.delete(session.get(Pipeline, ("default", "shop")))
        again = streams.events(streams.pipeline("default", "shop"), first[0][0])
        return first, second, await events(again, 4)

    first, second, gone = run(watched())
    assert [kind for _, kind, _ in first] == ["begin", "pipeline", "table", "table", "status"]
    assert "tables" not in first[4][2]
    assert [(kind, data["table"], data["rows"]) for _, kind, data in second] == [("table", "items", 8)]
    assert {kind for _, kind, _ in gone} <= {"deleted", "table", "status", "pipeline"}


def test_one_pipeline_whose_state_cannot_be_read_hides_no_other(service: Service, tmp_path: Path) -> None:
    for name in ("bad", "good", "new"):
        add_pipeline(service, {"offsetBasePath": str(tmp_path / "state")}, name)
    for name in ("bad", "good"):
        directory_of(tmp_path, name).states().put_status(status_of(datetime.now(UTC), "done"))
    (tmp_path / "state/default/bad/1/state.json").write_text("{", "utf-8")
    streams = service.context.streams

    async def watched() -> list[Any]:
        return await events(streams.events(streams.fleet("default"), None), 4)

    found = {data["name"]: data for _, kind, data in run(watched()) if kind == "pipeline"}
    assert found["bad"]["needsYou"][0]["reason"] == "unreadable"
    assert (found["good"]["phase"], found["new"]["phase"]) == ("done", None)
    shown = service.client.get("/v1/contexts/default/pipelines").json()
    assert [one["name"] for one in shown] == ["bad", "good", "new"]
    assert 'replicator_service_state_readable{pipeline="bad"} 0.0' in service.client.get("/metrics").text


class Counter:
    """What a topic shows: something else at each reading."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> dict[str, tuple[str, Any]]:
        self.count += 1
        return {"pipeline:shop": ("pipeline", {"count": self.count})}


def test_streams_are_sent_what_changes_while_others_begin_all_the_time(service: Service) -> None:
    streams, counter = service.context.streams, Counter()
    followed = streams._topic(("a", None), counter)
    ends = asyncio.Event()

    async def begin() -> None:
        while not ends.is_set():
            await events(streams.events(streams._topic(("b", None), Counter()), None), 1)
            await asyncio.sleep(0.1)

    async def watched() -> list[Any]:
        beginning = asyncio.create_task(begin())
        try:
            return await events(streams.events(followed, None), 5)
        finally:
            ends.set()
            await beginning

    counts = [data["count"] for _, kind, data in run(watched()) if kind == "pipeline"]
    assert len(counts) == len(set(counts)) == 4


def test_a_topic_that_is_handed_out_is_not_forgotten_before_its_stream_begins(service: Service) -> None:
    streams, counter = service.context.streams, Counter()
    left = streams._topic(("a", None), counter)
    left.left_at = time.monotonic() - 59.9
    assert streams._topic(("a", None), counter) is left
    assert left.left_at > time.monotonic() - 59
    left.left_at = time.monotonic() - 61
    streams._forget_left()
    assert streams._topics == {}

    async def watched() -> list[Any]:
        return await events(streams.events(left, None), 4)

    counts = [data["count"] for _, kind, data in run(watched()) if kind == "pipeline"]
    assert len(set(counts)) == 3


def test_without_a_stream_nothing_is_read(service: Service, tmp_path: Path) -> None:
    add_pipeline(service, {"offsetBasePath": str(tmp_path / "state")})
    directory_of(tmp_path, "shop").states().put_status(status_of(datetime.now(UTC), "done"))
    streams = service.context.streams
    looked = threading.Event()
    reader = service.context.observation.reader_of("default", "shop")
    whole = reader.look

    def look() -> state_reader.Seen:
        looked.set()
        return whole()

    reader.look = look  # type: ignore[method-assign]

    async def watched() -> None:
        await events(streams.events(streams.fleet("default"), None), 2)

    run(watched())
    deadline = time.monotonic() + SECONDS
    while True:  # a reading that is under way may yet look once
        looked.clear()
        if not looked.wait(2.5):
            break
        assert time.monotonic() < deadline, "it is read without a stream"
    assert streams.count == 0


def test_a_stream_ends_when_what_it_shows_cannot_be_read_and_another_one_begins_when_it_can(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a page shows the state of before as if it were that of now."""
    monkeypatch.setattr(streaming, "AWAY_SECONDS", 0.3)
    streams, counter, away = service.context.streams, Counter(), threading.Event()

    def read() -> dict[str, tuple[str, Any]]:
        if away.is_set():
            raise OSError("the database is away")
        return counter()

    topic = streams._topic(("a", None), read)

    async def watched() -> None:
        stream = streams.events(topic, None)
        await events(stream, 2)
        away.set()
        async with asyncio.timeout(SECONDS):
            async for _ in stream:
                pass

    run(watched())
    with pytest.raises(ProblemError, match="does not answer"):
        streams.check(topic)
    away.clear()
    until(lambda: is_read(streams, topic), "it is read again, though no stream shows it")


def is_read(streams: streaming.Streams, topic: Topic) -> bool:
    """Whether another stream of it may begin."""
    try:
        streams.check(topic)
    except ProblemError:
        return False
    return True
