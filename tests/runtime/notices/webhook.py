"""A service on the loopback that is notified: a server that takes what Apprise posts, refuses it, or never answers."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Webhook:
    """Safe from any thread.

    Attributes:
        messages: What it took, the oldest first.
        refused: How many it did not take.
        status: What it answers with.
        answers: While it is not set, it takes a request and does not answer.
    """

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []
        self.refused = 0
        self.status = 200
        self.location = ""
        self.answers = threading.Event()
        self.answers.set()
        self.port = 0

    def url(self, path: str = "hook") -> str:
        """Where Apprise finds it."""
        return f"json://127.0.0.1:{self.port}/{path}"

    @property
    def titles(self) -> list[str]:
        """Of the messages."""
        return [message["title"].partition(": ")[2] for message in self.messages]

    def until(self, holds: Callable[[], bool], seconds: float = 120.0) -> None:
        """Wait for what it is to get."""
        until = time.monotonic() + seconds
        while not holds():
            assert time.monotonic() < until, self.titles
            time.sleep(0.02)


@contextmanager
def serving(webhook: Webhook) -> Iterator[Webhook]:
    """Serve it within the block."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            content = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            webhook.answers.wait(120)
            if webhook.status == 200:
                webhook.messages.append(content)
            else:
                webhook.refused += 1
            try:
                self.send_response(webhook.status)
                if webhook.location:
                    self.send_header("Location", webhook.location)
                self.send_header("Content-Length", "0")
                self.end_headers()
            except OSError:
                return  # the client has given up

        def log_message(self, *_: Any) -> None:
            """Nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        webhook.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield webhook
        finally:
            webhook.answers.set()
            server.shutdown()
            thread.join()
