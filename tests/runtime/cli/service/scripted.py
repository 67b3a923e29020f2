"""A service on loopback that answers as a test has written, and keeps what it was sent."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Answer:
    """What is answered to one request; a connection that is closed instead when `status` is 0."""

    body: Any = None
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Sent:
    """A request."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: Any


@dataclass
class Scripted:
    """Answers each path by its answers in turn, the last one again and again.

    Attributes:
        url: Its address.
        answers: By method and path.
        sent: What was asked, in order.
    """

    url: str = ""
    answers: dict[str, list[Answer]] = field(default_factory=dict)
    sent: list[Sent] = field(default_factory=list)

    def answer(self, request: str, *answers: Answer) -> None:
        """Answer `request`, such as `GET /v1/plugins`, so."""
        self.answers[request] = list(answers)

    def next_answer(self, sent: Sent) -> Answer:
        """The answer to a request."""
        self.sent.append(sent)
        script = self.answers.get(f"{sent.method} {sent.path}")
        if script is None:
            problem = {"code": "RPL-1501", "detail": f"nothing at {sent.path}", "class": "needs_user", "exitCode": 3}
            return Answer(problem, 404)
        return script.pop(0) if len(script) > 1 else script[0]


@contextmanager
def scripted_service() -> Iterator[Scripted]:
    """Starts one and closes it."""
    script = Scripted()

    class Handler(BaseHTTPRequestHandler):
        def _handle(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            read = self.rfile.read(length) if length else b""
            sent = Sent(self.command, self.path, dict(self.headers), json.loads(read) if read else None)
            answer = script.next_answer(sent)
            if not answer.status:
                self.close_connection = True
                return
            content = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
            content = b"" if answer.body is None else content
            self.send_response(answer.status)
            for name, value in {**answer.headers, "Content-Length": str(len(content))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_DELETE = _handle  # noqa: N815 - the names are the standard library's

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the standard library's
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    script.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield script
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
