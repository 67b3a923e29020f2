"""Writes `state.json`, a public format: other programs read it, so keys are added and never changed."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import structlog

from replicator_runtime.engine.run_state.progress import error_view
from replicator_runtime.engine.run_state.unknown_errors import summary
from replicator_runtime.engine.tables.table_state import TableState

if TYPE_CHECKING:
    from replicator_runtime.engine.run_state.progress import PauseView
    from replicator_runtime.engine.run_state.run import Run
    from replicator_runtime.engine.views.source_view import SourceView

log = structlog.get_logger()
_EVERY_SECONDS = 5.0
_LOOK_SECONDS = 1.0


class StatusWriter:
    """Writes the status every few seconds in a thread of its own, within a second after the phase changes, and when closed."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._done = threading.Event()
        self._phase = ""
        self._thread = threading.Thread(target=self._loop, name="status", daemon=True)

    def start(self) -> None:
        """Begin; what the run before showed of errors is shown for some more minutes."""
        try:
            if before := self._run.store.read_status():
                self._run.progress.take_over(before)
        except Exception as failure:  # noqa: BLE001 - nor must one that cannot be read
            log.warning("status.not_read", error=summary(failure))
        self._phase = self._run.progress.phase  # not when the thread gets to it: the phase may be another one by then
        self._thread.start()

    def close(self, error: BaseException | None = None) -> None:
        """Write a last time, with what ended the run."""
        self._done.set()
        self._thread.join(30)
        self._write(error)

    def _loop(self) -> None:
        phase, written_at = self._phase, time.monotonic()
        while not self._done.wait(_LOOK_SECONDS):
            if self._run.progress.phase != phase or time.monotonic() - written_at >= _EVERY_SECONDS:
                phase, written_at = self._run.progress.phase, time.monotonic()
                self._write(None)

    def _write(self, error: BaseException | None) -> None:
        try:
            self._run.store.put_status(status(self._run, error))
        except Exception as failure:  # noqa: BLE001 - a status that cannot be written must not stop the data
            log.warning("status.not_written", error=summary(failure))


def status(run: Run, error: BaseException | None = None) -> dict[str, Any]:
    """The status as JSON: the keys of the specification (`docs/seeds.md#001-replicator`) and some for operators."""
    view = run.progress.snapshot()
    retried = run.progress.retried_error if view.phase == "retrying" else None
    fault = error or run.progress.source_error or retried
    return {
        "schema": "replicator.state/v1",
        "name": run.config.name,
        "namespace": run.config.namespace,
        "generation": run.generation,
        "runId": run.run_id,
        "epoch": run.epoch,
        "updated": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "phase": view.phase,
        "sourceState": "OK" if fault is None else "FAILING",
        "sourceError": None if fault is None else error_view(fault),
        "lastError": None if view.last_error is None else view.last_error.to_json(),
        "offset": None if run.saved_offset is None else str(run.saved_offset),
        "sequenceNumber": run.saved_sequence,
        "lagSeconds": view.lag_seconds,
        "readLagSeconds": view.read_lag_seconds,
        "currentAt": _time(view.current_at),
        "source": view.source and _source(view.source),
        # Of all tables: the source says only what it has read.
        "validThrough": _time(run.metrics.value("source.valid_through"))
        if all(t.state is TableState.REPLICATING for t in view.tables)
        else None,
        "rowsPerSecond": round(view.rows_per_second, 1),
        "metrics": run.metrics.snapshot(),
        "tables": [
            {
                **t.table.to_json(),
                "state": t.state.value,
                "rows": t.rows,
                "snapshotPercent": t.snapshot_percent,
                "lagSeconds": t.lag_seconds,
                "rowsPerSecond": round(t.rows_per_second, 1),
                "error": t.error_parts,
                "lastError": None if t.last_error is None else t.last_error.to_json(),
                "failingSince": _time(t.failing_since),
                "copyAgainAt": _time(t.copy_again_at),
                "pause": t.pause and _pause(t.pause),
                "waitsFor": t.waits_for or None,
                "maintenance": {m.name: {"doneAt": _time(m.done_at), "error": m.error or None} for m in t.maintenance},
            }
            for t in view.tables
        ],
    }


def _source(source: SourceView) -> dict[str, Any]:
    health = source.health
    return {
        "answeredAt": _time(source.answered_at),
        "clockAheadSeconds": source.clock_ahead,
        "waitingBytes": health.waiting_bytes,
        "waitingChanges": health.waiting_changes,
        "heldBytes": health.held_bytes,
        "heldLimitBytes": health.held_limit_bytes,
        "retentionSeconds": health.retention_seconds,
        "secondsLeft": source.left_now,
        "limitedBy": health.limited_by or None,
        "lateSeconds": health.late_seconds,
    }


def _pause(pause: PauseView) -> dict[str, Any]:
    return {
        "since": _time(pause.since),
        "resuming": pause.resuming,
        "copiedAgain": pause.copied_again,
        "laneRows": pause.lane_rows,
        "laneBytes": pause.lane_bytes,
        "asks": pause.asks or None,
        "failed": pause.failed,
        "triedAgainAt": _time(pause.tried_at),
        "laneSince": _time(pause.oldest_at),
        "inLog": pause.in_log,
    }


def _time(seconds: float | None) -> str | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
