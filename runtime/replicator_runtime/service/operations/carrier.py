"""Has requests carried out that no run takes, in a process of their own, one at a time for each pipeline."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import structlog

from replicator_runtime.service.commands.process import start_process
from replicator_runtime.service.observation.stored import pipeline_row, pipeline_rows
from replicator_runtime.service.pipelines.files import pipeline_file
from replicator_runtime.service.supervision.states import Wanted
from replicator_sdk.errors import ReplicatorError
from replicator_sdk.failpoint import failpoint, register
from replicator_state import LEASE_HELD

if TYPE_CHECKING:
    from replicator_runtime.service.context import ServiceContext

register("service.carrier.free", "service.carrier.started", "service.carrier.ended")
_LOOK_SECONDS: Final = 2.0
_LONGEST_SECONDS: Final = 60.0
_AT_ONCE: Final = 4
_OF_A_NAMESPACE: Final = 2
_MOST_SECONDS: Final = 4 * 3600.0
"""A process that has not ended by then, and one whose pipeline is started or deleted, is ended; what it had begun is begun again later."""
_KILL_SECONDS: Final = 15.0
_AGAIN_SECONDS: Final = 0.2
log = structlog.get_logger()
Key = tuple[str, str]


@dataclass(slots=True)
class _Waiting:
    """A pipeline with requests that wait."""

    due: float = 0.0
    wait: float = _LOOK_SECONDS
    process: subprocess.Popen[bytes] | None = None
    again: bool = False
    ended: bool = False
    problem: dict[str, Any] = field(default_factory=dict)


class Carrier:
    """Looks after the pipelines with requests that wait; does nothing, and uses no processor, while there are none. Safe from any thread.

    A process that it has started goes on when the service ends. Two at once do no harm: one has the lease.

    Args:
        context: The service's.
    """

    def __init__(self, context: ServiceContext) -> None:
        self._context = context
        self._changed = threading.Condition()
        self._waiting: dict[Key, _Waiting] = {}
        self._problems: dict[Key, dict[str, Any]] = {}
        self._closed = False
        self._thread: threading.Thread | None = None

    def look(self, namespace: str, name: str) -> None:
        """Requests of this pipeline wait: have them carried out soon, by its run or by a process."""
        with self._changed:
            one = self._waiting.setdefault((namespace, name), _Waiting())
            one.due, one.wait, one.again = 0.0, _LOOK_SECONDS, one.process is not None
            self._start()
            self._changed.notify_all()

    def end(self, namespace: str, name: str) -> None:
        """End the process of a pipeline that is started or deleted now, since it may hang and keeps others out; its run does the rest."""
        with self._changed:
            one = self._waiting.get((namespace, name))
            if one is None:
                return
            one.due = time.monotonic() + _LONGEST_SECONDS
            if one.process is not None:
                one.ended = True
                _end(one.process)

    def resume(self) -> None:
        """Look after what waited when the service ended before; returns at once."""
        threading.Thread(target=self._resume, name="requests-left", daemon=True).start()

    def problem(self, namespace: str, name: str) -> dict[str, Any]:
        """Why the last process could not carry out what waits: code, message, hint; empty when it could."""
        with self._changed:
            return dict(self._problems.get((namespace, name), {}))

    def close(self) -> None:
        """Start no more processes; those that go on end by themselves."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(10)

    def _resume(self) -> None:
        for row in pipeline_rows(self._context.database):
            if self._closed:
                return
            try:
                if self._context.observation.reader(row).directory.requests().waiting():
                    self.look(row.namespace, row.name)
            except Exception as error:  # noqa: BLE001 - of one pipeline; its next request looks again
                log.warning("service.requests_not_read", pipeline=row.name, kind=type(error).__name__)

    def _start(self) -> None:
        if self._thread is None and not self._closed:
            self._thread = threading.Thread(target=self._loop, name="requests", daemon=True)
            self._thread.start()

    def _loop(self) -> None:
        while True:
            with self._changed:
                now = time.monotonic()
                working = Counter(namespace for (namespace, _), one in self._waiting.items() if one.process is not None)
                may_start = [key for key in self._waiting if working[key[0]] < _OF_A_NAMESPACE]
                idle = [(key, self._waiting[key].due) for key in may_start if self._waiting[key].process is None]
                due = [key for key, at in idle if at <= now]
                if self._closed:
                    return
                if not due or working.total() >= _AT_ONCE:
                    can_wait = idle and working.total() < _AT_ONCE
                    self._changed.wait(max(0.05, min(at for _, at in idle) - now) if can_wait else None)
                    continue
            self._attend(due[0])

    def _attend(self, key: Key) -> None:
        """Start a process for a pipeline, unless nothing waits there, or a run takes it."""
        try:
            row = pipeline_row(self._context.database, *key)
            directory = self._context.observation.reader(row).directory.newest()
            if row.wanted == Wanted.DELETING or not directory.requests().waiting():
                self._done(key)
                return
            directory.check_free()
            failpoint("service.carrier.free")
            process = self._spawn(key)
        except Exception as error:  # noqa: BLE001 - such as a store that is away, or a pipeline that was deleted meanwhile
            self._later(key, error)
            return
        with self._changed:
            self._waiting[key].process = process
            self._waiting[key].again = False
        failpoint("service.carrier.started")
        threading.Thread(target=self._await, args=(key, process), name="carry-out", daemon=True).start()

    def _spawn(self, key: Key) -> subprocess.Popen[bytes]:
        file = pipeline_file(self._context, *key)
        line = [sys.executable, "-m", "replicator_runtime.service.operations.carry_out", str(file)]
        return start_process(line, self._context.settings, key[0])

    def _await(self, key: Key, process: subprocess.Popen[bytes]) -> None:
        limit = threading.Timer(_MOST_SECONDS, _end, (process,))
        limit.daemon = True
        limit.start()
        printed, _ = process.communicate()
        limit.cancel()
        failpoint("service.carrier.ended")
        try:
            problem = json.loads(printed.splitlines()[-1]) if process.returncode and printed else {}
        except (ValueError, IndexError):
            problem = {}
        self._context.observation.forget(*key)
        with self._changed:
            self._problems.pop(key, None)
            if problem:
                self._problems[key] = problem
            one = self._waiting[key]
            one.process = None
            if not one.again:
                one.wait = min(_LONGEST_SECONDS, 2 * one.wait) if process.returncode else _LOOK_SECONDS
            one.due = time.monotonic() + (one.wait if process.returncode and not one.again else _AGAIN_SECONDS)
            if one.ended:
                one.due = time.monotonic() + _LONGEST_SECONDS
            one.again = one.ended = False
            self._changed.notify_all()

    def _done(self, key: Key) -> None:
        with self._changed:
            if not self._waiting[key].again:
                del self._waiting[key]
            self._problems.pop(key, None)

    def _later(self, key: Key, error: Exception) -> None:
        with self._changed:
            one = self._waiting[key]
            if not isinstance(error, ReplicatorError):
                log.warning("service.requests_not_carried_out", pipeline=key[1], kind=type(error).__name__)
                del self._waiting[key]
                return
            held = error.code == LEASE_HELD
            one.wait = _LOOK_SECONDS if held else min(_LONGEST_SECONDS, 2 * one.wait)
            one.due = time.monotonic() + one.wait
            if not held:
                self._problems[key] = {"code": error.code, "message": error.message, "hint": error.hint}


def _end(process: subprocess.Popen[bytes]) -> None:
    """SIGTERM to it and all that it has started, and SIGKILL when that has not ended it in time; returns at once."""
    later = threading.Timer(_KILL_SECONDS, _signal, (process, signal.SIGKILL))
    later.daemon = True
    later.start()
    _signal(process, signal.SIGTERM)


def _signal(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    if process.poll() is None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)
