"""The status file shows what the run does now, also for a moment."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from replicator_runtime.engine.run_state import status
from replicator_runtime.engine.run_state.progress import Progress

if TYPE_CHECKING:
    import pytest

    from replicator_runtime.engine.run_state.run import Run


def test_a_change_of_phase_is_written_before_the_next_regular_time(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[Any] = []
    run = cast(
        "Run",
        SimpleNamespace(
            progress=Progress(), store=SimpleNamespace(put_status=written.append, read_status=lambda: None)
        ),
    )
    monkeypatch.setattr(status, "status", lambda run, error: run.progress.phase)
    monkeypatch.setattr(status, "_EVERY_SECONDS", 3600.0)
    loop, goes_on = status.StatusWriter._loop, threading.Event()

    def late(writer: status.StatusWriter) -> None:
        goes_on.wait(60)
        loop(writer)

    monkeypatch.setattr(status.StatusWriter, "_loop", late)
    writer = status.StatusWriter(run)
    writer.start()
    run.progress.set_phase("retrying")  # before the thread gets to its first line
    goes_on.set()
    until = time.monotonic() + 60
    while not written and time.monotonic() < until:
        time.sleep(0.02)
    writer.close()
    assert len(written) == 2, "once more when it is closed"
    assert written[0] == "retrying"
