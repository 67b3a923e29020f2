"""An imitation of the service for the pages of pipelines: any state, any number of tables, every request noted.

It serves the real files of the page. Tests that need the real service use it; here a test says what a pipeline is like,
changes it while the page is open, kills the service, and reads which requests the page has sent.
"""

from __future__ import annotations

import asyncio
import json
import re
import socket
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse

from replicator_runtime.service import problems
from replicator_runtime.ui import assets

_START = 30.0
_POLL = 0.02
Json = dict[str, Any]


@dataclass
class Sent:
    """A request that the page has sent to change something."""

    method: str
    path: str
    body: Any
    headers: dict[str, str]


@dataclass
class Imitation:
    """What the imitation answers, and what it was asked.

    Attributes:
        items: The pipelines, by name.
        tables: The tables of each, by pipeline and id.
        statuses: What runs have written, by pipeline.
        answers: Further answers of GET requests, by the end of their path.
        outcomes: The answers to changes, by the end of their path; `{"requestId": "1"}` else.
        sent: The changes that the page asked for.
        role: Of the session.
        cuts: Whether the next events break off after the first line, and their connections with them.
    """

    items: dict[str, Json] = field(default_factory=dict)
    tables: dict[str, dict[str, Json]] = field(default_factory=dict)
    statuses: dict[str, Json] = field(default_factory=dict)
    answers: dict[str, Any] = field(default_factory=dict)
    outcomes: dict[str, Any] = field(default_factory=dict)
    sent: list[Sent] = field(default_factory=list)
    role: str = "admin"
    cuts: bool = False
    port: int = 0
    start: int = 0
    _server: uvicorn.Server | None = None
    _thread: threading.Thread | None = None
    _events: list[tuple[str | None, str, Json]] = field(default_factory=list)

    @property
    def address(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self.port}"

    def put(self, item: Json) -> None:
        """A pipeline is new or has changed."""
        self.items[item["name"]] = item
        self._events.append((item["name"], "pipeline", item))

    def put_table(self, pipeline: str, row: Json) -> None:
        """A table is new or has changed."""
        self.tables.setdefault(pipeline, {})[row["id"]] = row
        self._events.append((pipeline, "table", row))

    def put_status(self, pipeline: str, status: Json) -> None:
        """A run has written its status."""
        self.statuses[pipeline] = status
        self._events.append((pipeline, "status", status))

    def delete(self, pipeline: str) -> None:
        """A pipeline is gone."""
        self.items.pop(pipeline)
        self._events.append((pipeline, "deleted", {"kind": "pipeline", "id": pipeline}))

    def run(self) -> None:
        """Start it, at the port of before."""
        self.start += 1
        self._events.clear()
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", self.port))
        self.port = listener.getsockname()[1]
        self._server = uvicorn.Server(
            uvicorn.Config(self._application(), log_level="warning", timeout_graceful_shutdown=0)
        )
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [listener]}, name="imitation", daemon=True
        )
        self._thread.start()
        deadline = time.monotonic() + _START
        while not self._server.started:
            assert time.monotonic() < deadline, "the imitation has not started"
            time.sleep(_POLL)

    def kill(self) -> None:
        """End it, with every connection."""
        assert self._server is not None
        assert self._thread is not None
        self._server.force_exit = True
        self._server.should_exit = True
        self._thread.join(_START)

    def _application(self) -> FastAPI:
        application = FastAPI()
        problems.install(application)
        application.include_router(assets.router)
        application.add_api_route("/v1/{rest:path}", self._answer, methods=["GET", "POST", "PUT", "DELETE"])
        return application

    async def _answer(self, request: Request) -> Response:
        path = request.url.path
        if path == "/v1/session":
            return JSONResponse({"name": "local", "role": self.role, "namespace": "*", "csrf": "csrf-value"})
        if path.endswith("/events"):
            return StreamingResponse(self._stream(request, path), media_type="text/event-stream")
        if request.method != "GET":
            return await self._change(request)
        return self._read(request)

    async def _change(self, request: Request) -> Response:
        text = await request.body()
        path = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        self.sent.append(Sent(request.method, path, json.loads(text) if text else None, dict(request.headers)))
        found = _ending(self.outcomes, request.url.path)
        if isinstance(found, Response):
            return found
        return JSONResponse(found if found is not None else {"requestId": "1"}, 202)

    def _read(self, request: Request) -> Response:
        path = request.url.path
        found = _ending(self.answers, path)
        if found is not None:
            return found if isinstance(found, Response) else JSONResponse(found, headers={"ETag": '"1"'})
        if path.endswith("/pipelines"):
            return JSONResponse([_shown(item) for item in self.items.values()])
        if match := re.search(r"/pipelines/([^/]+)/?(.*)$", path):
            shown = self._of_pipeline(request, match[1], match[2])
            if shown is not None:
                return shown
        return _problem(404, "RPL-1520", "there is no such thing")

    def _of_pipeline(self, request: Request, name: str, rest: str) -> Response | None:
        if name not in self.items:
            return None
        if rest == "tables":
            return self._page(request, list(self.tables.get(name, {}).values()))
        known: Json = {"": self.items[name], "status": self.statuses.get(name)}
        found = known.get(rest)
        if rest.startswith("requests/"):
            found = {"request": "1", "state": "done", "command": "x", "text": "it was done"}
        return None if found is None else JSONResponse(found, headers={"ETag": '"1"'})

    def _page(self, request: Request, rows: list[Json]) -> Response:
        limit, after = int(request.query_params.get("limit", "100")), int(request.query_params.get("after", "0"))
        following = request.url.include_query_params(after=after + limit)
        more = len(rows) > after + limit
        headers = {"Link": f'<{following.path}?{following.query}>; rel="next"'} if more else {}
        return JSONResponse(rows[after : after + limit], headers=headers)

    async def _stream(self, request: Request, path: str) -> AsyncIterator[bytes]:
        match = re.search(r"/pipelines/([^/]+)/events$", path)
        name, server = (match[1] if match else None), self._server
        last = request.headers.get("last-event-id", "")
        begun, _, number = last.partition("-")
        at = int(number) if begun == str(self.start) else -1
        if at < 0:
            at = len(self._events)
            yield self._event(at, "begin", {})
            for kind, data in self._all(name):
                yield self._event(at, kind, data)
        while server is not None and not server.should_exit:
            events, at = self._events[at:], len(self._events)
            text = b"".join(
                self._event(at, kind, data)
                for pipeline, kind, data in events
                if (kind in {"pipeline", "deleted"} if name is None else pipeline == name)
            )
            if text and self.cuts:
                self.cuts = False
                yield text[: text.index(b"\n") + 1]
                return
            yield text or b": nothing\n\n"
            await asyncio.sleep(0.05)

    def _all(self, name: str | None) -> Iterator[tuple[str, Json]]:
        if name is None:
            yield from (("pipeline", _shown(item)) for item in self.items.values())
            return
        yield "pipeline", _shown(self.items[name])
        if name in self.statuses:
            yield "status", self.statuses[name]
        yield from (("table", row) for row in self.tables.get(name, {}).values())

    def _event(self, number: int, kind: str, data: Json) -> bytes:
        return f"id: {self.start}-{number}\nevent: {kind}\ndata: {json.dumps(data)}\n\n".encode()


def _ending(answers: dict[str, Any], path: str) -> Any:
    return next((answer for end, answer in answers.items() if path.endswith(end)), None)


def _shown(item: Json) -> Json:
    return {key: value for key, value in item.items() if key != "config"}


def _problem(status: int, code: str, detail: str, hint: str = "") -> JSONResponse:
    body = {"type": "x", "title": "not found", "status": status, "detail": detail, "code": code, "hint": hint}
    return JSONResponse(body, status, media_type=problems.MEDIA_TYPE)


@contextmanager
def imitation() -> Iterator[Imitation]:
    """One that runs, and ends with the block."""
    found = Imitation()
    found.run()
    try:
        yield found
    finally:
        found.kill()
