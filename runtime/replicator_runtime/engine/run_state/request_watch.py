"""Notices the requests of operators while a run works."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

import structlog

from replicator_runtime.engine.run_state.unknown_errors import summary

if TYPE_CHECKING:
    from collections.abc import Iterator

    from replicator_runtime.engine.run_state.run import Run

log = structlog.get_logger()
_AGAIN_SECONDS = 60.0
_PRUNE_SECONDS = 86400.0
_KEPT = timedelta(days=30)


@contextmanager
def watching_requests(run: Run) -> Iterator[None]:
    """Set `run.requested` soon after a request was made, within the block.

    The folder is listed every second on a local disk, and less often on an object store, which charges for it. A request that
    could not be carried out ends the attempt again after a minute. Once a day those are deleted that ended a month ago.
    """
    done, announced, prune_at = threading.Event(), dict[str, float](), time.monotonic()

    def look() -> None:
        """Until the block ends."""
        nonlocal prune_at
        said = ""
        while not done.wait(run.requests.look_seconds):
            try:
                waiting, now = run.requests.waiting(), time.monotonic()
                if now >= prune_at:
                    prune_at = now + _PRUNE_SECONDS
                    run.requests.prune(_KEPT)
                if any(now - announced.get(one, -_AGAIN_SECONDS) >= _AGAIN_SECONDS for one in waiting):
                    run.requested.set()
                    announced.clear()
                    announced.update(dict.fromkeys(waiting, now))
            except Exception as failure:  # noqa: BLE001 - data goes on, and the next look may see it
                if said != (said := summary(failure)):
                    log.warning("request.not_read", error=said)

    thread = threading.Thread(target=look, name="requests", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join(30)
