"""The end of the demonstration: a service with the demo's pipeline, and its page, while the shop goes on working."""

from __future__ import annotations

import math
import os
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING, Final

from replicator_runtime.cli.remote.client import Service
from replicator_runtime.cli.remote.place import Place, document_of
from replicator_runtime.cli.stop_signals import StopSignals
from replicator_runtime.demo.workload import Workload
from replicator_sdk.errors import ReplicatorError, RetryableError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_NOT_STARTED: Final = "RPL-1593"
_PAUSE_SECONDS: Final = 0.1
_LOOK_SECONDS: Final = 0.5
_STOP_SECONDS: Final = 60.0
_GOES_ON: Final = frozenset({"starting", "running", "waiting"})


def show_page(pipeline: Path, say: Callable[[str], None], show: Callable[[str], None]) -> None:
    """Have a service run the demo's pipeline, with the shop at work, until Ctrl-C.

    Args:
        pipeline: The demo's pipeline JSON, in the demo's folder.
        say: Takes a sentence for the user.
        show: Takes the address of the page on the pipeline, once it answers.

    Raises:
        RetryableError: RPL-1593 when the service does not start.
        ReplicatorError: What the service answers.
    """
    folder, document = pipeline.parent, document_of(pipeline)
    place = Place(str(document["name"]), "default")
    with _service(folder) as url, _shop(folder / "shop.db"):
        service = Service(url)
        service.post("/v1/contexts/default/pipelines", {"config": document, "start": True})
        say("a service runs the demo's pipeline now, and the shop goes on working; Ctrl-C ends both. Its page:")
        ended = threading.Event()
        with StopSignals(ended.set, say):
            show(f"{url}/ns/{place.namespace}/pipelines/{place.name}")
            ended.wait()
            _stop(service, place)


def _stop(service: Service, place: Place) -> None:
    """End the pipeline in order; the service leaves what it runs alone."""
    pipeline, deadline = service.at(place), time.monotonic() + _STOP_SECONDS
    with suppress(ReplicatorError):
        pipeline.post("/stop")
        while pipeline.get()["state"] in _GOES_ON and time.monotonic() < deadline:
            time.sleep(_LOOK_SECONDS)


@contextmanager
def _service(folder: Path) -> Iterator[str]:
    """The address of a service that keeps everything in the demo's folder, and ends with the block."""
    options = ["--port", "0", "--auth", "none", "--store", f"sqlite:///{folder / 'service.db'}"]
    options += ["--base-path", str(folder / "state"), "--log-level", "warning"]
    program = "from replicator_runtime.cli import main; main()"
    with (folder / "service.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", program, "serve", *options],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
            start_new_session=True,  # Ctrl-C ends the pipeline first
        )
    assert process.stdout is not None
    try:
        url = process.stdout.readline().strip()
        if not url:
            raise RetryableError(
                "the demo's service has ended before it answered",
                code=_NOT_STARTED,
                hint=f"{folder / 'service.log'} says why; `replicator demo --no-page` does without it",
            )
        yield url
    finally:
        process.terminate()
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()


@contextmanager
def _shop(file: Path) -> Iterator[None]:
    with closing(sqlite3.connect(file)) as shop:
        [(last,)] = shop.execute(
            'SELECT max(number) FROM (SELECT max(id) AS number FROM orders UNION SELECT max("order") FROM order_items)'
        )
    workload = Workload(file, math.inf, seed=3, pause_seconds=_PAUSE_SECONDS, first_order=last + 1, grows=False)
    workload.start()
    try:
        yield
    finally:
        workload.close()
