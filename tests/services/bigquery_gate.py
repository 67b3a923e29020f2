"""A gate before the BigQuery emulator: as strict about job identifiers as the real service, and as unreliable as asked.

The emulator runs a job again when its identifier comes again; the gate answers 409, as BigQuery does. On request it loses
answers after the work is done, refuses requests, or is slow. It keeps every job's configuration, so that tests can count
statements and judge them.
"""

from __future__ import annotations

import http.client
import json
import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.services.processes import LOOPBACK

_INSERT = re.compile(r"/projects/[^/]+/jobs(\?.*)?$")
_HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "content-length", "host"}


@dataclass(frozen=True)
class Request:
    """A request that arrived.

    Attributes:
        method: GET, POST, …
        path: With its query.
        body: Its JSON, None when it has none.
    """

    method: str
    path: str
    body: Any

    @property
    def kind(self) -> str:
        """`load` or `query` for a job that is inserted; else `other`."""
        if self.method == "POST" and _INSERT.search(self.path) and self.body:
            return "load" if "load" in self.body["configuration"] else "query"
        return "other"

    @property
    def sql(self) -> str:
        """The statements of a query job."""
        return str(self.body["configuration"]["query"]["query"]) if self.kind == "query" else ""


@dataclass(frozen=True)
class Fault:
    """What goes wrong once.

    Attributes:
        lose_answer: Whether the request is carried out and its answer lost.
        status: The status with which it is refused; 0 to let it through.
        seconds: How late it arrives.
    """

    lose_answer: bool = False
    status: int = 0
    seconds: float = 0.0


@dataclass
class _Planned:
    matches: Callable[[Request], bool]
    faults: list[Fault]


@dataclass
class Gate:
    """Listens on a free port from the start, until `close`."""

    server_port: int
    jobs: list[Request] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._seen: set[str] = set()
        self._planned: list[_Planned] = []
        self._lock = threading.Lock()
        gate = self

        class Handler(_Handler):
            def handle_one(self) -> None:
                gate.handle(self)

        self._server = ThreadingHTTPServer((LOOPBACK, 0), Handler)
        self._server.daemon_threads = True
        self.port = int(self._server.server_address[1])
        threading.Thread(target=self._server.serve_forever, daemon=True, name=f"gate-{self.port}").start()

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()

    def plan(self, *faults: Fault, on: Callable[[Request], bool]) -> None:
        """Let the next requests for which `on` holds meet these faults, one each."""
        with self._lock:
            self._planned.append(_Planned(on, list(faults)))

    @property
    def pending(self) -> int:
        """How many planned faults have not happened."""
        return sum(len(p.faults) for p in self._planned)

    def clear(self) -> None:
        """Forget jobs and plans."""
        with self._lock:
            self.jobs.clear()
            self._planned.clear()

    def handle(self, handler: _Handler) -> None:
        """One request."""
        size = int(handler.headers.get("Content-Length") or 0)
        content = handler.rfile.read(size)
        request = Request(handler.command, handler.path, _parsed(content))
        fault = self._next_fault(request)
        time.sleep(fault.seconds)
        if fault.status:
            _refuse(handler, fault.status, "rateLimitExceeded" if fault.status in {403, 429} else "backendError")
        elif not self._admit(request):
            _refuse(handler, 409, "duplicate")
        else:
            status, headers, answer = self._forward(handler, content)
            if fault.lose_answer:
                handler.close_connection = True
                handler.connection.close()
            else:
                _answer(handler, status, headers, answer)

    def _next_fault(self, request: Request) -> Fault:
        with self._lock:
            for planned in self._planned:
                if planned.faults and planned.matches(request):
                    return planned.faults.pop(0)
        return Fault()

    def _admit(self, request: Request) -> bool:
        """Whether the job's identifier is new."""
        if request.kind == "other":
            return True
        configuration, reference = request.body["configuration"], request.body.get("jobReference") or {}
        with self._lock:
            if not configuration.get("dryRun"):
                self.jobs.append(request)
            job_id = reference.get("jobId")
            if job_id in self._seen:
                self.jobs.pop()
                return False
            if job_id:
                self._seen.add(job_id)
        return True

    def _forward(self, handler: _Handler, content: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        upstream = http.client.HTTPConnection(LOOPBACK, self.server_port, timeout=300)
        headers = {k: v for k, v in handler.headers.items() if k.lower() not in _HOP_BY_HOP}
        try:
            upstream.request(handler.command, handler.path, content, headers)
            answer = upstream.getresponse()
            kept = [(k, v) for k, v in answer.getheaders() if k.lower() not in _HOP_BY_HOP]
            return answer.status, kept, answer.read()
        finally:
            upstream.close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 60

    def handle_one(self) -> None:
        raise NotImplementedError

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = lambda self: self.handle_one()  # noqa: E731

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def _parsed(content: bytes) -> Any:
    try:
        return json.loads(content) if content else None
    except ValueError:
        return None


def _refuse(handler: _Handler, status: int, reason: str) -> None:
    error = {"code": status, "message": reason, "errors": [{"reason": reason, "message": reason, "domain": "global"}]}
    _answer(handler, status, [("Content-Type", "application/json")], json.dumps({"error": error}).encode())


def _answer(handler: _Handler, status: int, headers: list[tuple[str, str]], content: bytes) -> None:
    handler.send_response(status)
    for name, value in headers:
        handler.send_header(name, value)
    handler.send_header("Content-Length", str(len(content)))
    handler.end_headers()
    handler.wfile.write(content)
