"""A network that can break: a loopback proxy before a server, which a test cuts, freezes or slows down."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
import time
from collections.abc import Iterator
from enum import Enum

import pytest

from tests.services.processes import LOOPBACK

_CHUNK = 64 * 1024


class Weather(Enum):
    """What the proxy does with the bytes that pass."""

    CLEAR = "everything passes"
    FROZEN = "connections stay open and nothing passes, as with a dead router in between"
    CUT = "open connections are reset, and new ones refused at once"


class Proxy:
    """Forwards `port` to a server's port; `freeze()`, `cut()` and `clear()` change the weather for all connections.

    Its methods may be called from any thread. Bytes that a frozen proxy received are kept, and pass when it clears.
    It runs in threads of the test process: a client in the same process must not block in C with the interpreter locked.
    """

    def __init__(self, server_port: int) -> None:
        """Listens at once, on a free loopback port."""
        self.host, self._server_port = LOOPBACK, server_port
        self.weather, self.delay_seconds = Weather.CLEAR, 0.0
        self._sockets: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._closed = False
        self._listener = socket.create_server((LOOPBACK, 0))
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True, name=f"proxy-{self.port}").start()

    def clear(self, *, delay_seconds: float = 0.0) -> None:
        """Lets everything pass, each piece `delay_seconds` later."""
        self.delay_seconds, self.weather = delay_seconds, Weather.CLEAR

    def freeze(self) -> None:
        """Lets nothing pass, and closes nothing."""
        self.weather = Weather.FROZEN

    def cut(self) -> None:
        """Resets what is connected and refuses what comes, until `clear()`."""
        self.weather = Weather.CUT
        self.reset()

    def reset(self) -> None:
        """Resets what is connected; new connections get through."""
        with self._lock:
            for end in self._sockets:
                with contextlib.suppress(OSError):  # SO_LINGER 0: the peer sees a reset, not an orderly end
                    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
                    end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Ends the proxy and everything that passes through it."""
        self._closed = True
        self.cut()
        self._listener.close()

    def _accept(self) -> None:
        while not self._closed:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self.weather is Weather.CUT:
                client.close()
                continue
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client:
            try:
                server = socket.create_connection((LOOPBACK, self._server_port), timeout=10)
            except OSError:
                return
            with server:
                pair = {client, server}
                with self._lock:
                    self._sockets |= pair
                with contextlib.suppress(OSError):
                    self._forward(client, server)
                with self._lock:
                    self._sockets -= pair

    def _forward(self, client: socket.socket, server: socket.socket) -> None:
        other = {client: server, server: client}
        while self.weather is not Weather.CUT:
            ready, _, _ = select.select([client, server], [], [], 0.1)
            if self.weather is Weather.FROZEN:
                time.sleep(0.02)
                continue
            for end in ready:
                piece = end.recv(_CHUNK)
                if not piece:
                    return
                if self.delay_seconds:
                    time.sleep(self.delay_seconds)
                other[end].sendall(piece)


@pytest.fixture
def network() -> Iterator[NetworkTo]:
    """Makes proxies, each before the port it is called with; they end with the test."""
    proxies = NetworkTo()
    yield proxies
    proxies.close()


class NetworkTo:
    """Makes proxies and closes them."""

    def __init__(self) -> None:
        """Has no proxy yet."""
        self._proxies: list[Proxy] = []

    def __call__(self, server_port: int) -> Proxy:
        """A new proxy that forwards to a loopback port."""
        self._proxies.append(Proxy(server_port))
        return self._proxies[-1]

    def close(self) -> None:
        """Closes all proxies."""
        for proxy in self._proxies:
            proxy.close()
