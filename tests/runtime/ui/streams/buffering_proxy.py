"""A proxy that passes an answer on once it has the whole of it, as one does that gathers events."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

_HOP = {"connection", "transfer-encoding", "keep-alive", "content-length"}


@dataclass
class BufferingProxy:
    """Where it listens, and whether it gathers now.

    Attributes:
        address: Of the page through it.
        buffers: Whether answers without an end are gathered; else it passes on what comes.
    """

    address: str
    buffers: bool = True


@contextmanager
def buffering_proxy(service: str) -> Iterator[BufferingProxy]:
    """One before the service at this address; it ends with the block."""
    place = urlsplit(service).netloc

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            """Write nothing."""

        def answer(self) -> None:
            """Pass a request on, and then its answer."""
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            upstream = http.client.HTTPConnection(place, timeout=120)
            with suppress(OSError, http.client.HTTPException):
                headers = {name: value for name, value in self.headers.items() if name.lower() not in _HOP}
                upstream.request(self.command, self.path, body or None, headers)
                found = upstream.getresponse()
                self._pass_on(found)
            upstream.close()
            self.close_connection = True

        def _pass_on(self, found: http.client.HTTPResponse) -> None:
            endless = "event-stream" in found.headers.get("Content-Type", "")
            whole = b"" if endless and not proxy.buffers else found.read()
            self.send_response(found.status)
            for name, value in found.headers.items():
                if name.lower() not in _HOP:
                    self.send_header(name, value)
            self.send_header("Connection", "close")
            self.end_headers()
            self.wfile.write(whole)
            while endless and (part := found.read1(65_536)):
                self.wfile.write(part)
                self.wfile.flush()

        do_GET = do_POST = do_PUT = do_DELETE = answer  # noqa: N815 - names that http.server calls

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.block_on_close = False
    proxy = BufferingProxy(f"http://127.0.0.1:{server.server_address[1]}")
    thread = threading.Thread(target=server.serve_forever, name="proxy", daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)
