"""A real server, on a port of its own."""

from __future__ import annotations

import selectors
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from replicator_runtime.service.serving import serve
from replicator_runtime.service.settings import Auth, ServiceSettings
from replicator_sdk.errors import ConfigError
from tests.depth import ALL_CASES

STREAMS = 1000 if ALL_CASES else 100
_SECONDS = 120.0
_PROGRAM = """
import sys
from pathlib import Path
from replicator_runtime.service import slow_clients
from replicator_runtime.service.serving import serve
from replicator_runtime.service.settings import Auth, ServiceSettings

slow_clients.HEADER_SECONDS = 1.0
folder = Path(sys.argv[1])
settings = ServiceSettings(f"sqlite:///{folder}/service.db", f"{folder}/state", folder / "work", port=0, auth=Auth.NONE)
serve(settings, ready=lambda address: (sys.stdout.write(f"{address}\\n"), sys.stdout.flush()))
"""


@contextmanager
def _served(folder: Path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A service in a process of its own, and its port."""
    command = [sys.executable, "-c", _PROGRAM, str(folder)]
    with (
        (folder / "errors").open("w") as errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True) as process,
    ):
        try:
            assert process.stdout is not None
            # Others than the address are lines of the log.
            address = next(line.strip() for line in process.stdout if line.startswith("http"))
            assert address.startswith("http://127.0.0.1:")
            yield process, int(address.rpartition(":")[2])
        finally:
            process.kill()


def _resident_bytes(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return 1024 * int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS")))


def _read_all(streams: list[socket.socket], until: bytes) -> int:
    """Read from all until each has sent `until`, or its end where that is empty; how many have."""
    received = dict.fromkeys(streams, b"")
    done: set[socket.socket] = set()
    deadline = time.monotonic() + _SECONDS
    with selectors.DefaultSelector() as selector:
        for stream in streams:
            stream.setblocking(False)
            selector.register(stream, selectors.EVENT_READ)
        while selector.get_map() and time.monotonic() < deadline:
            for key, _ in selector.select(1.0):
                found = key.fileobj
                assert isinstance(found, socket.socket)
                data = found.recv(65536)
                received[found] += data
                if not data or (until and until in received[found]):
                    selector.unregister(found)
                    if not until or until in received[found]:
                        done.add(found)
    return len(done)


def test_many_event_streams_leave_other_answers_alone_and_end_at_sigterm(tmp_path: Path) -> None:
    request = b"GET /v1/contexts/default/events HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n"
    with _served(tmp_path) as (process, port), ExitStack() as opened:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=_SECONDS) as response:
            assert response.status == 200
        before = _resident_bytes(process.pid)
        streams: list[socket.socket] = []
        while len(streams) < STREAMS:
            # One caller may have 32 requests at once that have not begun to answer.
            more = [
                opened.enter_context(socket.create_connection(("127.0.0.1", port), timeout=_SECONDS)) for _ in range(20)
            ]
            for stream in more:
                stream.sendall(request)
            assert _read_all(more, b"text/event-stream") == len(more)
            streams += more
        for path in ("livez", "readyz", "v1/contexts/default/drafts"):
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=_SECONDS) as response:
                assert response.status == 200
        assert (_resident_bytes(process.pid) - before) / STREAMS < 256 * 1024
        process.send_signal(signal.SIGTERM)
        assert _read_all(streams, b"") == STREAMS, "each stream ends"
        assert process.wait(_SECONDS) == 0
    assert (tmp_path / "errors").read_text() == ""


def test_a_client_that_never_ends_its_headers_is_left(tmp_path: Path) -> None:
    with _served(tmp_path) as (_, port), ExitStack() as opened:
        clients = [opened.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(3)]
        clients[1].sendall(b"GET /livez HTTP/1.1\r\nHost: local")
        clients[2].sendall(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert _read_all([clients[2]], b'{"status":"ok"}') == 1
        clients[2].sendall(b"GET /livez HT")
        assert _read_all(clients, b"") == 3


def test_a_port_in_use_is_one_line_of_reason(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        settings = ServiceSettings("sqlite://", "", tmp_path, port=taken.getsockname()[1], auth=Auth.NONE)
        with pytest.raises(ConfigError) as refused:
            serve(settings, ready=lambda address: None)
    assert refused.value.code == "RPL-1544"
