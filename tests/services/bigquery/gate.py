"""A gate before the BigQuery emulator: as strict about job identifiers as the real service, and as unreliable as asked.

The emulator runs a job again when its identifier comes again; the gate answers 409, as BigQuery does. On request it loses
answers after the work is done, refuses requests, lets jobs fail, or is slow. It keeps every job's configuration, so that tests can count
statements and judge them. And it adds what the emulator forgets: the columns of a table that ALTER TABLE has changed, its
new name, its primary key, and how many rows a table has.
"""

from __future__ import annotations

import http.client
import json
import re
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.services.processes import LOOPBACK

_INSERT = re.compile(r"/projects/[^/]+/jobs(\?.*)?$")
_JOB = re.compile(r"/jobs/([^/?]+)(\?.*)?$")
_TABLE = re.compile(r"/datasets/([^/?]+)/tables/([^/?]+)(\?.*)?$")
_MAKING = re.compile(r"/datasets/([^/?]+)/tables(\?.*)?$")
_ALTER = re.compile(r"ALTER TABLE `[^.`]+\.([^.`]+)\.([^.`]+)`\s+(?:ALTER COLUMN `([^`]+)` DROP NOT NULL)?")
_RENAME = re.compile(r"ALTER TABLE `([^.`]+)\.([^.`]+)\.([^.`]+)` RENAME TO `([^`]+)`")
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
        reason: BigQuery's word for why it is refused, or why its job fails; a fitting one when empty.
        message: What it says beside that.
        fails: Whether the job is taken, does nothing, and ends with that reason.
        cut: Whether the connection is reset before anything is done.
    """

    lose_answer: bool = False
    status: int = 0
    seconds: float = 0.0
    reason: str = ""
    message: str = ""
    fails: bool = False
    cut: bool = False


@dataclass
class _Planned:
    matches: Callable[[Request], bool]
    faults: list[Fault]


@dataclass
class Gate:
    """Listens on a free port from the start, until `close`.

    Attributes:
        jobs: The jobs that were asked for.
        turn: Held while the emulator works: asked by HTTP and by gRPC at once, it hangs.
        chaos: Chooses what requests meet for which nothing is planned.
    """

    server_port: int
    jobs: list[Request] = field(default_factory=list)
    turn: threading.Lock = field(default_factory=threading.Lock)
    chaos: Callable[[Request], Fault] | None = None

    def __post_init__(self) -> None:
        self._seen: set[str] = set()
        self._planned: list[_Planned] = []
        self._failed: dict[str, bytes] = {}  # jobs that ended in a planned error, as BigQuery reports them
        self._defined: dict[tuple[str, str], dict[str, Any]] = {}  # table → what the emulator forgets of its definition
        self._altered: dict[tuple[str, str], set[str]] = {}  # table → columns that take NULL by now
        self._lock = threading.Lock()
        gate = self

        class Handler(_Handler):
            def handle_one(self) -> None:
                gate.handle(self)

        self._server = _Server((LOOPBACK, 0), Handler)
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
        own = str(handler.headers.get("User-Agent", "")).startswith("Python-urllib")  # the tests' other servers
        fault = self._next_fault(request, chance=not own)
        time.sleep(fault.seconds)
        if fault.cut:
            _reset(handler)
        elif fault.status:
            usual = "rateLimitExceeded" if fault.status in {403, 429} else "backendError"
            _refuse(handler, fault.status, fault.reason or usual, fault.message)
        elif not self._admit(request):
            _refuse(handler, 409, "duplicate")
        elif failed := self._failed_job(request, fault):
            _answer(handler, 200, [("Content-Type", "application/json")], failed)
        else:
            content = self._rename(request) if _RENAME.match(request.sql) else content
            sent = {k: v for k, v in handler.headers.items() if k.lower() not in _HOP_BY_HOP}
            status, headers, answer = self._call(handler.command, handler.path, content, sent)
            answer = self._completed(request, status, answer)
            if fault.lose_answer:
                _reset(handler)
            else:
                _answer(handler, status, headers, answer)

    def _failed_job(self, request: Request, fault: Fault) -> bytes:
        """The job that fails, or is asked about after it did; empty for any other request."""
        if fault.fails:
            error = {"reason": fault.reason, "message": fault.message or fault.reason}
            job = {
                **request.body,
                "status": {"state": "DONE", "errorResult": error, "errors": [error]},
                "statistics": {},
            }
            self._failed[request.body["jobReference"]["jobId"]] = json.dumps(job).encode()
            return self._failed[request.body["jobReference"]["jobId"]]
        asked = _JOB.search(request.path)
        return self._failed.get(asked[1], b"") if asked and request.method == "GET" else b""

    def _next_fault(self, request: Request, *, chance: bool) -> Fault:
        with self._lock:
            for planned in self._planned:
                if planned.faults and planned.matches(request):
                    return planned.faults.pop(0)
        return self.chaos(request) if self.chaos is not None and chance else Fault()

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

    def _completed(self, request: Request, status: int, answer: bytes) -> bytes:
        """The answer, with a table's columns and number of rows as they are."""
        if status != 200:
            return answer
        if altered := _ALTER.match(request.sql):
            dataset, table, relaxed = altered.groups()
            self._altered.setdefault((dataset, table), set()).update([relaxed] if relaxed else [])
        if request.method == "POST" and (made := _MAKING.search(request.path)):
            self._defined[made[1], request.body["tableReference"]["tableId"]] = {
                k: request.body[k] for k in ("tableConstraints", "maxStaleness") if k in request.body
            }
        found = _TABLE.search(request.path)
        if found is None or request.method not in {"GET", "DELETE"}:
            return answer
        if request.method == "DELETE":
            self._altered.pop((found[1], found[2]), None)
            self._defined.pop((found[1], found[2]), None)
            return answer
        table = json.loads(answer)
        self._complete(table, found[1], found[2])
        table |= self._defined.get((found[1], found[2]), {})
        return json.dumps(table).encode()

    def _complete(self, table: dict[str, Any], dataset: str, name: str) -> None:
        quoted = f"`{dataset}`.`{name}`"
        if not name.startswith("_"):
            count = self._ask(f"SELECT COUNT(*) FROM {quoted}")
            table["numRows"] = count["rows"][0]["f"][0]["v"]
        if (dataset, name) not in self._altered:
            return
        known = {f["name"]: f for f in table["schema"]["fields"]}
        fields = self._ask(f"SELECT * FROM {quoted} LIMIT 0")["schema"]["fields"]
        relaxed = self._altered[dataset, name]
        for column in fields:
            strict = known.get(column["name"], {}).get("mode") == "REQUIRED" and column["name"] not in relaxed
            column["mode"] = "REQUIRED" if strict else column.get("mode", "NULLABLE")
        table["schema"]["fields"] = fields

    def _rename(self, request: Request) -> bytes:
        """Do what `ALTER TABLE … RENAME TO` means, and ask for nothing instead; the emulator forgets renamed tables."""
        found = _RENAME.match(request.sql)
        assert found is not None
        project, dataset, old, new = found.groups()
        tables = f"/bigquery/v2/projects/{project}/datasets/{dataset}/tables"
        there = json.loads(self._call("GET", f"{tables}/{old}")[2])
        if "schema" in there:
            self._complete(there, dataset, old)
            kept = {k: there[k] for k in ("schema", "clustering", "labels") if k in there}
            reference = {"projectId": project, "datasetId": dataset, "tableId": new}
            self._call("POST", tables, json.dumps({**kept, "tableReference": reference}).encode())
            self._ask(f"INSERT INTO `{dataset}`.`{new}` SELECT * FROM `{dataset}`.`{old}`")
            self._call("DELETE", f"{tables}/{old}")
        body = json.loads(json.dumps(request.body))
        body["configuration"]["query"]["query"] = "SELECT 1"
        return json.dumps(body).encode()

    def _ask(self, sql: str) -> Any:
        body = json.dumps({"query": sql, "useLegacySql": False}).encode()
        return json.loads(self._call("POST", "/bigquery/v2/projects/test/queries", body)[2])

    def _call(
        self, method: str, path: str, content: bytes = b"", headers: dict[str, str] | None = None
    ) -> tuple[int, list[tuple[str, str]], bytes]:
        upstream = http.client.HTTPConnection(LOOPBACK, self.server_port, timeout=300)
        try:
            with self.turn:
                upstream.request(method, path, content, headers or {"Content-Type": "application/json"})
                answer = upstream.getresponse()
                kept = [(k, v) for k, v in answer.getheaders() if k.lower() not in _HOP_BY_HOP]
                return answer.status, kept, answer.read()
        finally:
            upstream.close()


class _Server(ThreadingHTTPServer):
    """Takes it that clients are killed while they wait for an answer."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Report faults of the gate only."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


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


def _parsed(content: bytes) -> Any:
    try:
        return json.loads(content) if content else None
    except ValueError:
        return None


def _reset(handler: _Handler) -> None:
    handler.close_connection = True
    handler.connection.close()


def _refuse(handler: _Handler, status: int, reason: str, message: str = "") -> None:
    detail = {"reason": reason, "message": message or reason, "domain": "global"}
    error = {"code": status, "message": message or reason, "errors": [detail]}
    _answer(handler, status, [("Content-Type", "application/json")], json.dumps({"error": error}).encode())


def _answer(handler: _Handler, status: int, headers: list[tuple[str, str]], content: bytes) -> None:
    handler.send_response(status)
    for name, value in headers:
        handler.send_header(name, value)
    handler.send_header("Content-Length", str(len(content)))
    handler.end_headers()
    handler.wfile.write(content)
