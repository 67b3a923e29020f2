"""A service in this process, on a port of its own, for a browser."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import uvicorn

from replicator_runtime.service.application import create_application
from replicator_runtime.service.settings import Auth, ServiceSettings

_START = 30.0


@contextmanager
def service_at(folder: Path, auth: Auth = Auth.NONE, *, data_samples: bool = False) -> Iterator[str]:
    """The address of a service that keeps its things in `folder`; it ends with the block."""
    folder.mkdir(parents=True, exist_ok=True)
    application = create_application(
        ServiceSettings(
            store=f"sqlite:///{folder / 'service.db'}",
            base_path=str(folder / "state"),
            work_folder=folder / "work",
            port=0,
            auth=auth,
            data_samples=data_samples,
        )
    )
    server = uvicorn.Server(
        uvicorn.Config(application, "127.0.0.1", 0, log_level="warning", timeout_graceful_shutdown=1)
    )
    thread = threading.Thread(target=server.run, name="service", daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{_port(server, thread)}"
    finally:
        server.should_exit = True
        thread.join(_START)


def _port(server: uvicorn.Server, thread: threading.Thread) -> int:
    deadline = time.monotonic() + _START
    while not server.started:
        assert thread.is_alive(), "the service has ended while it started"
        assert time.monotonic() < deadline, "the service has not started"
        time.sleep(0.02)
    port: int = server.servers[0].sockets[0].getsockname()[1]
    return port
