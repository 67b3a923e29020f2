"""A server that takes OpenLineage events by HTTP and validates each against the specification, its facets included."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator, FormatChecker
from referencing import Registry, Resource

SPECIFICATION = Path(__file__).parent / "specification"
EVENT = "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent"


@cache
def _registry() -> Registry[Any]:
    documents = [json.loads(file.read_text()) for file in SPECIFICATION.glob("*.json")]
    return Registry().with_resources((one["$id"], Resource.from_contents(one)) for one in documents)


@cache
def _validator(schema: str) -> Draft202012Validator:
    return Draft202012Validator({"$ref": schema}, registry=_registry(), format_checker=FormatChecker())


def validate(event: Mapping[str, Any]) -> None:
    """Check an event and each facet in it against the schemas that they name.

    Raises:
        ValidationError: When it does not fit.
    """
    _validator(EVENT).validate(event)
    assert event["schemaURL"] == EVENT
    for facet in facets(event):
        _validator(facet["_schemaURL"]).validate(facet)


def facets(value: Any) -> Iterator[Mapping[str, Any]]:
    """All facets in an event."""
    if isinstance(value, Mapping):
        if "_schemaURL" in value:
            yield value
        for inner in value.values():
            yield from facets(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from facets(inner)


class Receiver:
    """Keeps the events it got.

    Attributes:
        events: Those that were answered with 200, in order.
        refused: How many were answered with another status.
        headers: The headers of the last request.
        status: What requests are answered with.
        waits: What a request waits for before it is answered.
    """

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.events: list[dict[str, Any]] = []
        self.problems: list[str] = []
        self.refused = 0
        self.headers: dict[str, str] = {}
        self.status = 200
        self.waits = threading.Event()
        self.waits.set()

    @property
    def transport(self) -> dict[str, Any]:
        """The pipeline's `lineage.transport`, without repetitions of a request."""
        return {"type": "http", "url": self.url, "timeout": 2, "retry": {"total": 0}}

    def take(self, body: bytes, headers: Mapping[str, str]) -> int:
        """Take a request."""
        self.waits.wait(60)
        self.headers = dict(headers)
        if self.status == 200:
            event = json.loads(body)
            self.events.append(event)
            try:
                validate(event)
            except Exception as error:  # noqa: BLE001 - the test shows it
                self.problems.append(f"{type(error).__name__}: {error}")
        else:
            self.refused += 1
        return self.status

    def states(self) -> list[str]:
        """The events' types, in order, repetitions once."""
        found = [event["eventType"] for event in self.events]
        return [state for at, state in enumerate(found) if at == 0 or found[at - 1] != state]

    def outputs(self) -> dict[str, dict[str, Any]]:
        """The facets of each output dataset, by the last part of its name; later events count more."""
        found: dict[str, dict[str, Any]] = {}
        for event in self.events:
            for dataset in event["outputs"]:
                found.setdefault(dataset["name"].rpartition(".")[2], {}).update(dataset["facets"])
        return found

    def wait_for(self, is_so: Callable[[], bool], seconds: float = 60.0) -> None:
        """Wait until `is_so`, and fail after that time."""
        until = time.monotonic() + seconds
        while not is_so():
            assert time.monotonic() < until, (self.states(), self.problems, self.events[-3:])
            time.sleep(0.02)


@contextlib.contextmanager
def receiving() -> Iterator[Receiver]:
    """A server on a free port of this machine."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            status = receiver.take(body, dict(self.headers))
            with contextlib.suppress(OSError):  # the client has given up
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

        def log_message(self, *arguments: object) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    receiver = Receiver(server.server_port)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        receiver.waits.set()
        server.shutdown()
        server.server_close()
        thread.join(30)
