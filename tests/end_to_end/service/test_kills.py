"""SIGKILL of the run, of the service, and of both, with an event stream open: nothing is lost, nothing runs twice."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx

from tests.end_to_end.service.test_adopted_run import PATH, change, config, end_all, item, names, service
from tests.waits import until

_SECONDS = 400.0


def test_whatever_is_killed_the_stream_says_so_and_rows_arrive_once(tmp_path: Path) -> None:
    change(tmp_path, "CREATE TABLE customer (id INTEGER PRIMARY KEY, name TEXT)")
    change(tmp_path, "INSERT INTO customer VALUES (1, 'Ada')")
    try:
        with service(tmp_path, signal.SIGKILL) as client, stream(client) as events:
            created = client.post(PATH, json={"name": "shop", "config": config(tmp_path), "start": True})
            assert created.status_code == 201, created.text
            first = _running(client, events, but="")
            change(tmp_path, "INSERT INTO customer VALUES (2, 'Grace')")
            _kill_run(tmp_path)
            second = _running(client, events, but=first)
            until(lambda: names(tmp_path) == ["Ada", "Grace"], "the rows arrive", seconds=_SECONDS)
        change(tmp_path, "INSERT INTO customer VALUES (3, 'Edsger')")
        with service(tmp_path, signal.SIGKILL) as client, stream(client) as events:
            assert _running(client, events, but=first) == second, "the run goes on, and no other begins"
            _kill_run(tmp_path)
        change(tmp_path, "INSERT INTO customer VALUES (4, 'Alan')")
        with service(tmp_path, signal.SIGTERM) as client, stream(client) as events:
            third = _running(client, events, but=second)
            until(lambda: len(names(tmp_path)) == 4, "the rows arrive", seconds=_SECONDS)
            client.post(f"{PATH}/shop/stop").raise_for_status()
            until(lambda: item(client)["state"] == "stopped", "it is stopped", seconds=_SECONDS)
            until(lambda: _last(events).get("state") == "stopped", "the stream says so", seconds=_SECONDS)
        assert names(tmp_path) == ["Ada", "Alan", "Edsger", "Grace"]
        assert len({first, second, third}) == 3
        assert len(list((tmp_path / "state").glob("*/*/logs/run-*.log"))) == 3, "three runs, and no other"
    finally:
        end_all(tmp_path)


def _running(client: httpx.Client, events: list[dict[str, Any]], *, but: str) -> str:
    """The id of the run that both the list and the stream show at work; another than `but`."""

    def found() -> str | None:
        shown, said = item(client), _last(events)
        both = shown["state"] == said.get("state") == "running" and shown["runId"] == said.get("runId")
        return str(shown["runId"]) if both and shown["runId"] not in {None, but} else None

    until(found, "it runs", seconds=_SECONDS)
    return str(item(client)["runId"])


def _last(events: list[dict[str, Any]]) -> dict[str, Any]:
    """What the stream has said last of the pipeline."""
    return next((event for event in reversed(events) if event.get("name") == "shop"), {})


def _kill_run(folder: Path) -> None:
    """SIGKILL of the replicator's own process, which is the keeper's child."""
    work = str(folder / "work").encode()
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError, ProcessLookupError):
            words = place.read_bytes().split(b"\0")
            if b"run" in words and any(word.startswith(work) for word in words) and b"-S" not in words:
                os.kill(int(place.parent.name), signal.SIGKILL)
                return
    raise AssertionError("there is no run")


@contextmanager
def stream(client: httpx.Client) -> Iterator[list[dict[str, Any]]]:
    """The events of the fleet's stream as they come; open until the block or the service ends."""
    events: list[dict[str, Any]] = []
    address = f"{str(client.base_url).rstrip('/')}/v1/contexts/default/events"

    def read() -> None:
        with suppress(httpx.HTTPError, ValueError), httpx.stream("GET", address, timeout=_SECONDS) as answer:
            lines = (line for line in answer.iter_lines() if line.startswith("data:"))
            events.extend(json.loads(line.removeprefix("data:")) for line in lines)

    reader = threading.Thread(target=read, name="stream", daemon=True)
    reader.start()
    until(lambda: events, "the stream begins", seconds=_SECONDS)
    yield events
