"""Starts an emulator of Cloud Storage with a gate before it that is as strict about conditions as Cloud Storage, and as unreliable as asked.

The emulator takes `ifGenerationMatch=0` and ignores it; the gate answers 412 where the object exists. Requests that write are
carried out one at a time, so that a condition and its write are one step.
"""

from __future__ import annotations

import http.client
import json
import re
import socket
import struct
import subprocess
import threading
import time
import uuid
from dataclasses import dataclass, replace
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, quote, urlsplit

from tests.services.bigquery.setup import program
from tests.services.processes import LOOPBACK, accepts_connections, free_port, scratch_folder, spawn, stop, wait_until

_READY_SECONDS = 60.0
_HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "content-length", "host", "accept-encoding"}
_UPLOAD = re.compile(r"/upload/storage/v1/b/([^/?]+)/o")
_NAME = re.compile(rb'"name": ("(?:[^"\\]|\\.)*")')


@dataclass(frozen=True)
class Fault:
    """What goes wrong with requests that match.

    Attributes:
        method: `POST`, `GET`, …; every one when empty.
        times: How many requests meet it.
        status: The status with which they are refused; 0 lets them through.
        seconds: How late they are worked on.
        lose_answer: Whether they are carried out and the connection is then reset.
    """

    method: str = ""
    times: int = 1
    status: int = 0
    seconds: float = 0.0
    lose_answer: bool = False


class GcsServer:
    """The emulator and its gate, running.

    Attributes:
        ignores_conditions: Whether conditions are passed on to the emulator, which ignores them.
    """

    def __init__(self, emulator_port: int, process: subprocess.Popen[bytes]) -> None:
        self.ignores_conditions = False
        self._emulator_port, self._process = emulator_port, process
        self._planned: list[Fault] = []
        self._arrived: list[tuple[str, str, int]] = []
        self._lock, self._writes = threading.Lock(), threading.Lock()
        server = self

        class Handler(_Handler):
            def handle_one(self) -> None:
                server.handle(self)

        self._gate = ThreadingHTTPServer((LOOPBACK, 0), Handler)
        self._gate.daemon_threads = True
        threading.Thread(target=self._gate.serve_forever, daemon=True, name="gcs-gate").start()

    @property
    def environment(self) -> dict[str, str]:
        """What makes gcsfs in a process use it, over HTTP only and without credentials."""
        return {
            "STORAGE_EMULATOR_HOST": f"http://{LOOPBACK}:{self._gate.server_address[1]}",
            "GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT": "false",
            "FSSPEC_GS_TOKEN": "anon",
        }

    def bucket(self) -> str:
        """A new bucket."""
        name = f"test-{uuid.uuid4().hex[:12]}"
        status, _, _ = self._call("POST", "/storage/v1/b?project=test", json.dumps({"name": name}).encode(), {})
        assert status == 200
        return name

    def plan(self, *faults: Fault) -> None:
        """Have the next requests that match meet these."""
        with self._lock:
            self._planned += faults

    def clear(self) -> None:
        """Forget faults and past requests."""
        with self._lock:
            self._planned, self._arrived, self.ignores_conditions = [], [], False

    def requests(self, method: str, path: str = "") -> list[int]:
        """The statuses of the requests of a method whose path and object match, in the order of their answers."""
        with self._lock:
            return [status for m, p, status in self._arrived if m == method and re.search(path, p)]

    def stop(self) -> None:
        """End both."""
        self._gate.shutdown()
        self._gate.server_close()
        stop(self._process)

    def handle(self, handler: _Handler) -> None:
        """One request."""
        content = handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
        fault = self._next_fault(handler.command)
        time.sleep(fault.seconds)
        if fault.status:
            status, headers, answer = _error(fault.status, "as planned")
        elif handler.command == "GET":
            status, headers, answer = self._forward(handler, content)
        else:
            with self._writes:
                taken = not self.ignores_conditions and self._is_taken(handler.path, content)
                status, headers, answer = _error(412, "conditionNotMet") if taken else self._forward(handler, content)
        with self._lock:
            self._arrived.append((handler.command, f"{handler.path} {_object(content)}", status))
        if fault.lose_answer:
            _reset(handler)
        else:
            _answer(handler, status, headers, answer)

    def _next_fault(self, method: str) -> Fault:
        with self._lock:
            for number, fault in enumerate(self._planned):
                if fault.times and fault.method in {method, ""}:
                    self._planned[number] = replace(fault, times=fault.times - 1)
                    return fault
        return Fault()

    def _is_taken(self, path: str, content: bytes) -> bool:
        """Whether an object exists that is to be created only where there is none."""
        found = _UPLOAD.match(path)
        if found is None or parse_qs(urlsplit(path).query).get("ifGenerationMatch") != ["0"]:
            return False
        status, _, _ = self._call("GET", f"/storage/v1/b/{found[1]}/o/{quote(_object(content), safe='')}", b"", {})
        return status == 200

    def _forward(self, handler: _Handler, content: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        sent = {name: value for name, value in handler.headers.items() if name.lower() not in _HOP_BY_HOP}
        return self._call(handler.command, handler.path, content, sent)

    def _call(
        self, method: str, path: str, content: bytes, headers: dict[str, str]
    ) -> tuple[int, list[tuple[str, str]], bytes]:
        emulator = http.client.HTTPConnection(LOOPBACK, self._emulator_port, timeout=60)
        try:
            emulator.request(method, path, content, headers or {"Content-Type": "application/json"})
            answer = emulator.getresponse()
            kept = [(name, value) for name, value in answer.getheaders() if name.lower() not in _HOP_BY_HOP]
            return answer.status, kept, answer.read()
        finally:
            emulator.close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 60
    disable_nagle_algorithm = True  # else every answer waits 40 ms for an acknowledgement

    def handle_one(self) -> None:
        raise NotImplementedError

    def _handle(self) -> None:
        self.handle_one()

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _handle  # noqa: N815 - the standard library's names

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def _object(content: bytes) -> str:
    """The name of the object that an upload has in its first part; empty for other requests."""
    found = _NAME.search(content[:4096])
    return str(json.loads(found[1])) if found else ""


def _error(status: int, reason: str) -> tuple[int, list[tuple[str, str]], bytes]:
    error = {"code": status, "message": reason, "errors": [{"reason": reason, "message": reason, "domain": "global"}]}
    return status, [("Content-Type", "application/json")], json.dumps({"error": error}).encode()


def _reset(handler: _Handler) -> None:
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    handler.close_connection = True
    handler.connection.close()


def _answer(handler: _Handler, status: int, headers: list[tuple[str, str]], content: bytes) -> None:
    handler.send_response(status)
    for name, value in headers:
        handler.send_header(name, value)
    handler.send_header("Content-Length", str(len(content)))
    handler.end_headers()
    handler.wfile.write(content)


def start() -> GcsServer:
    """Starts both on free ports, without buckets of tests."""
    folder = scratch_folder("gcs")
    port, log = free_port(), folder / "emulator.log"
    chosen = ("--port", str(port), "-H", LOOPBACK, "--default-bucket", "unused")
    process = spawn([program("gcp-storage-emulator"), "-d", folder, "start", *chosen], log=log)
    wait_until(partial(accepts_connections, port), process=process, log=log, seconds=_READY_SECONDS)
    return GcsServer(port, process)
