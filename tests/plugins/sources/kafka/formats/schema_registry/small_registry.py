"""A small schema registry, for errors that a real one does not have, and for fast tests."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@contextmanager
def registry_that_answers(answers: Mapping[str, tuple[int, Any]]) -> Iterator[str]:
    """The address of a registry that has an answer, status and JSON (or text), for each path, else 404."""

    class Registry(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, answer = answers.get(self.path, (404, {"error_code": 40403}))
            self.send_response(status)
            self.end_headers()
            self.wfile.write((answer if isinstance(answer, str) else json.dumps(answer)).encode())

        def log_message(self, *_: Any) -> None:
            """Log nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Registry) as server:
        threading.Thread(target=lambda: server.serve_forever(0.02), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
