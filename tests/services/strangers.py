"""Servers that are not what a client takes them for."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from typing import TypeAlias

import pytest

from tests.services.processes import LOOPBACK

Answer: TypeAlias = Callable[[socket.socket], None]
Stranger: TypeAlias = Callable[[str], int]


@contextlib.contextmanager
def listening(answer: Answer) -> Iterator[int]:
    """A server on a free port, which it yields; `answer` has each connection in a thread of its own."""
    taken: list[socket.socket] = []

    def serve(connection: socket.socket) -> None:
        with contextlib.suppress(OSError):
            answer(connection)

    def accept(server: socket.socket) -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            taken.append(connection)
            threading.Thread(target=serve, args=(connection,), daemon=True).start()

    with socket.create_server((LOOPBACK, 0)) as server:
        thread = threading.Thread(target=accept, args=(server,), daemon=True)
        thread.start()
        try:
            yield int(server.getsockname()[1])
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()
            for connection in taken:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
                connection.close()


def answer_http(connection: socket.socket) -> None:
    """As a web server does with a request that it does not understand; to a client that waits it says nothing."""
    connection.recv(1024)
    connection.sendall(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")
    connection.shutdown(socket.SHUT_RDWR)


def answer_nothing(connection: socket.socket) -> None:
    """Takes what comes, and never answers."""
    while connection.recv(1024):
        pass


@pytest.fixture
def stranger() -> Iterator[Stranger]:
    """Starts servers, `stranger("http")` or `stranger("silent")`; returns their port."""
    kinds = {"http": answer_http, "silent": answer_nothing}
    with contextlib.ExitStack() as servers:
        yield lambda kind: servers.enter_context(listening(kinds[kind]))
