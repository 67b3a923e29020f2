"""Servers on real sockets that do not speak what a client expects."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.services.certificates import issue
from tests.services.processes import LOOPBACK


@contextmanager
def silent_server() -> Iterator[int]:
    """A port that accepts connections and never sends anything."""
    with _listening() as listener:
        taken: list[socket.socket] = []

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    taken.append(listener.accept()[0])

        threading.Thread(target=accept, daemon=True).start()
        yield int(listener.getsockname()[1])
        for connection in taken:
            connection.close()


@contextmanager
def tls_server(folder: Path) -> Iterator[int]:
    """A port that speaks TLS only."""
    made = issue(folder)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made.certificate, made.key)
    with _listening() as listener:

        def accept() -> None:
            while listener.fileno() >= 0:
                with contextlib.suppress(OSError):
                    context.wrap_socket(listener.accept()[0], server_side=True).close()

        threading.Thread(target=accept, daemon=True).start()
        yield int(listener.getsockname()[1])


@contextmanager
def _listening() -> Iterator[socket.socket]:
    listener = socket.create_server((LOOPBACK, 0))
    try:
        yield listener
    finally:
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)  # ends the accept that another thread waits in
        listener.close()
