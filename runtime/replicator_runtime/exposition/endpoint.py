"""Serves a registry over HTTP."""

from __future__ import annotations

import socket
import socketserver
import threading
from typing import TYPE_CHECKING, Final
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import make_wsgi_app

from replicator_sdk.errors import NeedsUserError

if TYPE_CHECKING:
    from prometheus_client.registry import CollectorRegistry

    from replicator_runtime.config.sections.metrics import Address

_CLIENT_SECONDS: Final = 10.0


class _Handler(WSGIRequestHandler):
    timeout = _CLIENT_SECONDS  # one that connects and sends nothing keeps its thread no longer

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the standard library's
        """Log nothing: a line every few seconds says nothing."""


class _Server(socketserver.ThreadingMixIn, WSGIServer):
    daemon_threads = True

    def server_bind(self) -> None:
        """Bind without asking name servers for the host's full name."""
        socketserver.TCPServer.server_bind(self)
        host, port = self.server_address[:2]
        self.server_name, self.server_port = str(host), int(port)
        self.setup_environ()


class _SixServer(_Server):
    address_family = socket.AF_INET6


class Endpoint:
    """Serves `registry` from construction until it is closed, in threads of its own.

    Args:
        address: Where.
        registry: What.

    Attributes:
        port: The port, also where any free one was asked for.

    Raises:
        NeedsUserError: RPL-7211 when the address cannot be had.
    """

    def __init__(self, address: Address, registry: CollectorRegistry) -> None:
        try:
            family = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)[0][0]
            kind = _SixServer if family is socket.AF_INET6 else _Server
            self._server: WSGIServer = make_server(address.host, address.port, make_wsgi_app(registry), kind, _Handler)
        except OSError as error:
            raise NeedsUserError(
                f"metrics cannot be served at {address}: {(error.strerror or str(error)).lower()}",
                code="RPL-7211",
                hint="give another address with --metrics-address, such as 127.0.0.1:0 for any free port",
            ) from error
        self.port = self._server.server_port
        self._thread = threading.Thread(target=self._server.serve_forever, name="metrics", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(_CLIENT_SECONDS)
