"""The S3 server: moto's S3 in one process, as strict about conditions as S3 and as unreliable as asked.

Run by the interpreter of `setup.environment()`, as `server_program.py PORT`. Requests run one at a time, so that a condition
and its write are one step; S3 promises that, moto by itself does not. `POST /-/faults` takes a JSON list of planned faults,
`POST /-/chance` lets requests meet faults at random, `GET /-/requests` answers what has arrived as `[method, path, status]`,
`GET /-/met` how often each kind of random fault was met, `POST /-/clear` forgets all of these.
"""

from __future__ import annotations

import io
import json
import random
import re
import socket
import struct
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

Start = Callable[..., Any]
_ERRORS = {500: "InternalError", 503: "SlowDown", 403: "AccessDenied"}
_READER = "test-reader"
"""What the tests' own reader of tables calls itself, which meets no random faults."""


class Chance:
    """Chooses faults at random; the same seed makes the same choices, though threads may ask in another order.

    How many faults follow each other for one name is bounded, so that whoever repeats a request gets through.
    """

    def __init__(self, seed: int, often: float, most: int) -> None:
        self._chance, self._often, self._most = random.Random(seed), often, most
        self._row: Counter[str] = Counter()
        self.met: Counter[str] = Counter()

    def choose(self, method: str, asked: str) -> dict[str, Any]:
        """What a request meets; empty for nothing."""
        listing = method == "GET" and "list-type" in asked
        kinds: dict[str, dict[str, Any]] = {
            "500": {"status": 500},
            "503": {"status": 503},
            "late": {"seconds": self._chance.uniform(0.05, 0.3)},
            "lost": {"lose_answer": True},
            "late and lost": {"seconds": 0.1, "lose_answer": True},
        }
        if listing:
            kinds["slow list"] = {"seconds": self._chance.uniform(0.5, 2.0)}
        request = f"{method} {'list' if listing else asked.partition('?')[0]}"
        if self._row[request] >= self._most or self._chance.random() >= self._often:
            self._row[request] = 0
            return {}
        kind = self._chance.choice(sorted(kinds))
        self._row[request] += 1
        self.met[f"{kind} {method}"] += 1
        return kinds[kind]


class Faults:
    """The planned faults, used up in their order, those at random, and the requests that have arrived."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._free = threading.Condition()
        self.held = 0
        self.planned: list[dict[str, Any]] = []
        self.arrived: list[list[Any]] = []
        self.chance = Chance(0, 0, 0)

    def let_chance(self, seed: int, often: float, most: int) -> None:
        """Has requests for which nothing is planned meet faults at random."""
        with self._lock:
            self.chance = Chance(seed, often, most)

    def plan(self, faults: list[dict[str, Any]]) -> None:
        """Adds faults."""
        with self._lock:
            self.planned += faults

    def clear(self) -> None:
        """Forgets everything."""
        with self._lock:
            self.planned, self.arrived, self.chance = [], [], Chance(0, 0, 0)

    def hold(self) -> None:
        """Waits until what is held may go on."""
        with self._free:
            self.held += 1
            self._free.wait_for(lambda: self.held == 0, timeout=240)

    def release(self) -> None:
        """Lets what is held go on."""
        with self._free:
            self.held = 0
            self._free.notify_all()

    def take(self, method: str, path: str, *, chance: bool) -> dict[str, Any]:
        """The next fault for a request; empty when it meets none."""
        with self._lock:
            for fault in self.planned:
                if fault["times"] and fault["method"] in {method, ""} and re.search(fault["path"], path):
                    fault["times"] -= 1
                    return fault
            return self.chance.choose(method, path) if chance else {}


class Server:
    """A WSGI application before moto's."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self._turn = threading.Lock()
        self.faults = Faults()

    def __call__(self, environ: dict[str, Any], start: Start) -> Iterable[bytes]:
        """Answers one request."""
        path, method = environ["PATH_INFO"], environ["REQUEST_METHOD"]
        query = environ.get("QUERY_STRING", "")
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        if path.startswith("/-/"):
            return self._control(path, body, start)
        environ["wsgi.input"] = io.BytesIO(body)
        asked = f"{path}?{query}" if query else path
        fault = self.faults.take(method, asked, chance=_READER not in environ.get("HTTP_USER_AGENT", ""))
        time.sleep(fault.get("seconds", 0))
        if fault.get("held"):
            self.faults.hold()
        if status := fault.get("status", 0):
            self.faults.arrived.append([method, asked, status])
            return _error(status, start)
        if fault.get("ignore_condition"):
            environ.pop("HTTP_IF_NONE_MATCH", None)
        return self._answer(environ, asked, start, lost=bool(fault.get("lose_answer")))

    def _answer(self, environ: dict[str, Any], asked: str, start: Start, *, lost: bool) -> Iterable[bytes]:
        status: list[Any] = []

        def remember(line: str, headers: Any, *rest: Any) -> Any:
            status[:] = [line, headers, *rest]

        with self._turn:
            body = b"".join(self._inner(environ, remember))
        self.faults.arrived.append([environ["REQUEST_METHOD"], asked, int(status[0][:3])])
        if lost:
            _reset(environ["werkzeug.socket"])
            raise ConnectionResetError
        start(*status)
        return [body]

    def _control(self, path: str, body: bytes, start: Start) -> Iterable[bytes]:
        if path == "/-/faults":
            self.faults.plan(json.loads(body))
        elif path == "/-/chance":
            self.faults.let_chance(**json.loads(body))
        elif path == "/-/clear":
            self.faults.clear()
        elif path == "/-/release":
            self.faults.release()
        shown = {"/-/met": self.faults.chance.met, "/-/held": self.faults.held}
        answer = json.dumps(shown.get(path, self.faults.arrived)).encode()
        start("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(answer)))])
        return [answer]


def _error(status: int, start: Start) -> Iterable[bytes]:
    code = _ERRORS[status]
    body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>as planned</Message></Error>".encode()
    start(f"{status} {code}", [("Content-Type", "application/xml"), ("Content-Length", str(len(body)))])
    return [body]


def _reset(connection: socket.socket) -> None:
    """Close so that the client sees a reset and no orderly end."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.shutdown(socket.SHUT_RDWR)


def main(port: int) -> None:
    """Serves until the process is ended."""
    from moto.server import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import WSGIRequestHandler, make_server

    class Handler(WSGIRequestHandler):
        protocol_version = "HTTP/1.1"

        def log(self, *_: Any) -> None:
            """The requests are kept instead."""

    application = Server(DomainDispatcherApplication(create_backend_app))
    make_server("127.0.0.1", port, application, threaded=True, request_handler=Handler).serve_forever()


if __name__ == "__main__":
    main(int(sys.argv[1]))
