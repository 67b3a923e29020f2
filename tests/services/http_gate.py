"""A proxy before an HTTP server that lets planned requests fail, be late or lose their answer.

pyarrow holds Python's lock while it asks Cloud Storage for the size of a file. A proxy in the same process could not answer then: it runs in
another one, which `RemoteGate` has plan the faults.
"""

from __future__ import annotations

import http.client
import json
import re
import socket
import struct
import threading
import time
import urllib.request
from dataclasses import asdict, dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Protocol, TypeAlias

from tests.services.processes import LOOPBACK

Answer: TypeAlias = tuple[int, list[tuple[str, str]], bytes]
"""Status, headers and body."""
_HELD_SECONDS = 120.0
_CONTROL = "/-/"
_HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "content-length", "host", "accept-encoding"}


@dataclass(frozen=True)
class Fault:
    """What goes wrong with requests that match.

    Attributes:
        method: `POST`, `GET`, …; every one when empty.
        path: A regular expression that is found in the request's name; see `HttpGate.named`.
        times: How many requests meet it.
        status: The status with which they are refused; 0 lets them through.
        seconds: How late they are worked on.
        lose_answer: Whether they are carried out and the connection is then reset.
        held: Whether they are worked on only after `HttpGate.release`.
    """

    method: str = ""
    path: str = ""
    times: int = 1
    status: int = 0
    seconds: float = 0.0
    lose_answer: bool = False
    held: bool = False


@dataclass(frozen=True)
class Request:
    """A request that arrived; its path has the query."""

    method: str
    path: str
    headers: list[tuple[str, str]]
    content: bytes


class Gate(Protocol):
    """What tests ask of a proxy, in this process or in another one."""

    @property
    def held(self) -> int:
        """How many requests wait for `release`."""

    def plan(self, *faults: Fault) -> None:
        """Have the next requests that match meet these."""

    def clear(self) -> None:
        """Forget faults and past requests."""

    def release(self) -> None:
        """Have requests that are held go on."""


class RemoteGate:
    """A proxy in another process; see `Gate`."""

    def __init__(self, address: str) -> None:
        self._address = address

    @property
    def held(self) -> int:
        """See `Gate.held`."""
        return int(self._ask("held"))

    def plan(self, *faults: Fault) -> None:
        """See `Gate.plan`."""
        self._ask("plan", [asdict(fault) for fault in faults])

    def clear(self) -> None:
        """See `Gate.clear`."""
        self._ask("clear")

    def release(self) -> None:
        """See `Gate.release`."""
        self._ask("release")

    def set(self, name: str, value: object) -> None:
        """Give an attribute of the proxy another value."""
        self._ask("set", [name, value])

    def _ask(self, what: str, content: object = None) -> Any:
        request = urllib.request.Request(f"http://{self._address}{_CONTROL}{what}", json.dumps(content).encode())
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)


class HttpGate:
    """The proxy, running; safe from any thread.

    Args:
        port: The server's, on the loopback interface.

    Attributes:
        held: How many requests wait for `release`.
    """

    def __init__(self, port: int) -> None:
        self._server_port = port
        self._planned: list[Fault] = []
        self._arrived: list[tuple[str, str, int]] = []
        self._lock = threading.Lock()
        self.held, self._released = 0, threading.Event()
        gate = self

        class Handler(_Handler):
            def handle_one(self) -> None:
                gate._handle(self)

        self._gate = ThreadingHTTPServer((LOOPBACK, 0), Handler)
        self._gate.daemon_threads = True
        threading.Thread(target=self._gate.serve_forever, daemon=True, name="http-gate").start()

    @property
    def address(self) -> str:
        """Host and port of the proxy."""
        return f"{LOOPBACK}:{self._gate.server_address[1]}"

    def plan(self, *faults: Fault) -> None:
        """Have the next requests that match meet these."""
        with self._lock:
            self._planned += faults

    def clear(self) -> None:
        """Forget faults and past requests."""
        with self._lock:
            self._planned, self._arrived = [], []

    def release(self) -> None:
        """Have requests that are held go on."""
        self._released.set()

    def requests(self, method: str, path: str = "") -> list[int]:
        """The statuses of the requests of a method whose name matches, in the order of their answers; see `named`."""
        with self._lock:
            return [status for m, p, status in self._arrived if m == method and re.search(path, p)]

    def stop(self) -> None:
        """End the proxy."""
        self._gate.shutdown()
        self._gate.server_close()

    def named(self, request: Request) -> str:
        """What `requests` finds it by."""
        return request.path

    def refused(self, status: int) -> Answer:
        """The answer to a request that a fault refuses."""
        return status, [], b""

    def answer(self, request: Request) -> Answer:
        """The answer to a request that no fault refuses."""
        return self.forward(request.method, request.path, request.content, request.headers)

    def forward(self, method: str, path: str, content: bytes, headers: list[tuple[str, str]]) -> Answer:
        """The server's answer."""
        server = http.client.HTTPConnection(LOOPBACK, self._server_port, timeout=60)
        try:
            server.request(method, path, content, dict(headers))
            answer = server.getresponse()
            length = answer.getheader("Content-Length") if method == "HEAD" else None
            kept = [] if length is None else [("Content-Length", length)]
            return answer.status, _passed_on(answer.getheaders()) + kept, answer.read()
        finally:
            server.close()

    def _handle(self, handler: _Handler) -> None:
        content = _content(handler)
        if content is None:
            return
        if handler.path.startswith(_CONTROL):
            _send(handler, self._controlled(handler.path.removeprefix(_CONTROL), json.loads(content)))
            return
        request = Request(handler.command, handler.path, _passed_on(handler.headers.items()), content)
        fault = self._next_fault(request)
        time.sleep(fault.seconds)
        if fault.held:
            self.held += 1
            self._released.wait(_HELD_SECONDS)
        answer = self.refused(fault.status) if fault.status else self.answer(request)
        with self._lock:
            self._arrived.append((request.method, self.named(request), answer[0]))
        if fault.lose_answer:
            _reset(handler)
        else:
            _send(handler, answer)

    def _controlled(self, what: str, content: Any) -> Answer:
        """What a `RemoteGate` asks for."""
        if what == "plan":
            self.plan(*(Fault(**fault) for fault in content))
        elif what == "set":
            setattr(self, *content)
        elif what == "clear":
            self.clear()
        elif what == "release":
            self.release()
        return 200, [], str(self.held).encode()

    def _next_fault(self, request: Request) -> Fault:
        name = self.named(request)
        with self._lock:
            for number, fault in enumerate(self._planned):
                if fault.times and fault.method in {request.method, ""} and re.search(fault.path, name):
                    self._planned[number] = replace(fault, times=fault.times - 1)
                    return fault
        return Fault()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 60
    disable_nagle_algorithm = True  # else every answer waits 40 ms for an acknowledgement

    def handle_one(self) -> None:
        raise NotImplementedError

    def _any(self) -> None:
        self.handle_one()

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = _any  # noqa: N815 - the standard library's names

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def _content(handler: _Handler) -> bytes | None:
    """What the client sends; None where it has gone before the end, as a process that was killed."""
    if handler.headers.get("Transfer-Encoding", "").lower() != "chunked":
        length = int(handler.headers.get("Content-Length") or 0)
        content = handler.rfile.read(length)
        return content if len(content) == length else None
    parts = []
    while size := int(handler.rfile.readline().split(b";")[0], 16):
        parts.append(handler.rfile.read(size))
        handler.rfile.readline()
    while handler.rfile.readline().strip():
        pass
    return b"".join(parts)


def _passed_on(headers: list[tuple[str, str]]) -> list[tuple[str, str]]:
    return [(name, value) for name, value in headers if name.lower() not in _HOP_BY_HOP]


def _reset(handler: _Handler) -> None:
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    handler.close_connection = True
    handler.connection.close()


def _send(handler: _Handler, answer: Answer) -> None:
    status, headers, content = answer
    handler.send_response_only(status)
    for name, value in headers:
        handler.send_header(name, value)
    if "Content-Length" not in dict(headers):  # the answer to HEAD says how long another one would be
        handler.send_header("Content-Length", str(len(content)))
    handler.end_headers()
    if handler.command != "HEAD":
        handler.wfile.write(content)
