"""Events are sent in order and tried again; a receiver that refuses costs a bounded queue and no secret."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest
import structlog.testing

from replicator_runtime.lineage.publisher import EVENTS_AT_MOST, Publisher
from replicator_runtime.observability.redaction import redactor, register_secret


class Transport:
    """Takes events unless it is to fail."""

    def __init__(self) -> None:
        self.taken: list[Any] = []
        self.error: Exception | None = None
        self.tries = 0
        self.closed: list[float] = []

    def emit(self, event: Any) -> None:
        self.tries += 1
        if self.error is not None:
            raise self.error
        self.taken.append(event)

    def close(self, seconds: float) -> bool:
        self.closed.append(seconds)
        return True


@pytest.fixture
def transport() -> Transport:
    return Transport()


def test_events_are_sent_in_order_and_the_transport_is_opened_once(transport: Transport) -> None:
    opened: list[int] = []

    def open_it() -> Transport:
        opened.append(1)
        return transport

    publisher = Publisher(open_it)
    publisher.send()
    assert opened == [], "not before there is something to send"
    for event in range(5):
        publisher.add(event)
        publisher.send()
    publisher.close(3.0)
    assert (transport.taken, opened, transport.closed) == ([0, 1, 2, 3, 4], [1], [3.0])


def test_what_could_not_be_sent_is_sent_later_without_a_try_at_each_look(
    transport: Transport, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    publisher, transport.error = Publisher(lambda: transport), RuntimeError("503")
    publisher.add("start")
    for _ in range(60):
        publisher.send()
        clock[0] += 1.0
    assert transport.tries <= 7, "after 1, 2, 4 … seconds"
    transport.error = None
    publisher.add("end")
    clock[0] += 120.0
    publisher.send()
    assert transport.taken == ["start", "end"]


def test_the_queue_is_bounded_and_keeps_the_first_and_the_newest(transport: Transport) -> None:
    publisher, transport.error = Publisher(lambda: transport), RuntimeError("503")
    for event in range(1000):
        publisher.add(event)
        publisher.send()
    assert publisher.waiting == EVENTS_AT_MOST
    transport.error = None
    with structlog.testing.capture_logs() as logs:
        publisher.close(1.0)
    assert (transport.taken[0], transport.taken[1:]) == (0, list(range(1001 - EVENTS_AT_MOST, 1000)))
    assert logs


def test_an_error_is_logged_once_without_a_secret_and_what_is_lost_is_said(transport: Transport) -> None:
    register_secret("hunter2-hunter2")
    publisher = Publisher(lambda: transport)
    transport.error = RuntimeError("POST https://u:hunter2-hunter2@collector/api with Bearer hunter2-hunter2")
    publisher.add("start")
    try:
        with structlog.testing.capture_logs() as logs:
            for _ in range(3):
                publisher.send(at_once=True)
            publisher.close(1.0)
    finally:
        redactor().forget()
    assert [entry["event"] for entry in logs] == ["lineage.not_published", "lineage.lost"]
    assert logs[1]["events"] == 1
    assert "hunter2" not in str(logs)


def test_a_transport_that_cannot_be_made_is_made_again(transport: Transport) -> None:
    tries = [ValueError("url is missing"), None]

    def opened() -> Transport:
        if error := tries.pop(0):
            raise error
        return transport

    publisher = Publisher(opened)
    publisher.add("start")
    publisher.send(at_once=True)
    publisher.send(at_once=True)
    assert transport.taken == ["start"]
    assert time.monotonic() > 0


class _RefusedError(Exception):
    def __init__(self, status: int) -> None:
        super().__init__(f"{status} of https://collector")
        self.response = SimpleNamespace(status_code=status)


def test_an_event_that_is_refused_for_good_holds_up_no_other(
    transport: Transport, monkeypatch: pytest.MonkeyPatch
) -> None:
    take = transport.emit

    def emit(event: Any) -> None:
        if event == "too large":
            raise _RefusedError(413)
        take(event)

    monkeypatch.setattr(transport, "emit", emit)
    publisher = Publisher(lambda: transport)
    for event in ("start", "too large", "end"):
        publisher.add(event)
    with structlog.testing.capture_logs() as logs:
        assert not publisher.send(at_once=True)
    assert transport.taken == ["start", "end"]
    assert [(entry["event"], entry["status"]) for entry in logs] == [("lineage.refused", 413)]


@pytest.mark.parametrize("status", [401, 404, 429, 503])
def test_an_event_that_may_be_taken_later_waits(transport: Transport, status: int) -> None:
    publisher, transport.error = Publisher(lambda: transport), _RefusedError(status)
    publisher.add("start")
    publisher.send(at_once=True)
    assert publisher.waiting == 1


def test_the_first_time_that_all_arrives_after_a_loss_is_reported(transport: Transport) -> None:
    publisher, transport.error = Publisher(lambda: transport), RuntimeError("503")
    for event in range(EVENTS_AT_MOST + 1):
        publisher.add(event)
    assert not publisher.send(at_once=True)
    transport.error = None
    assert publisher.send(at_once=True)
    publisher.add("next")
    assert not publisher.send(at_once=True)
