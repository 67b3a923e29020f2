"""Brings about what is wanted of each pipeline, in one thread that waits for processes to end and for requests.

All that it has to remember is in the database and at the launcher's places, so a service that is killed at any point is
followed by one that goes on from there. Nothing here waits for one process: a slow stop delays no other pipeline.
"""

from __future__ import annotations

import math
import os
import select
import threading
import time
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import structlog

from replicator_runtime.service.supervision.former.runs import Former
from replicator_runtime.service.supervision.launcher import Order, Presence, Seen
from replicator_runtime.service.supervision.lease import SupervisorLease
from replicator_runtime.service.supervision.records import KEPT_INSTANCES, WHOLE_OUTPUTS, Records, Supervised, next_id
from replicator_runtime.service.supervision.run_errors import (
    gone_with_host,
    not_started,
    nothing_to_delete,
    run_elsewhere,
    run_on_former_host,
    unreported,
)
from replicator_runtime.service.supervision.states import (
    DONE,
    NOTHING_STORED,
    Step,
    Wanted,
    decide,
    error_of,
)
from replicator_sdk.failpoint import failpoint, register

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from replicator_runtime.service.store.database import Database
    from replicator_runtime.service.supervision.files import PipelineFiles
    from replicator_runtime.service.supervision.former.runs import FormerRuns
    from replicator_runtime.service.supervision.launcher import Launcher
    from replicator_runtime.service.supervision.states import Newest

register(
    "service.start.before_row",
    "service.start.row_stored",
    "service.start.process_started",
    "service.stop.before_signal",
    "service.stop.signalled",
    "service.end.seen",
    "service.end.stored",
    "service.delete.removed",
)
_BEAT_SECONDS, _RETRY_SECONDS = 5.0, 1.0
_STUCK_SECONDS = 60.0
_FOLLOWS_SECONDS = 15.0
_STARTS_AT_ONCE = 4
_GRACE_SECONDS = 10.0
_CLOSE_SECONDS = 10.0
log = structlog.get_logger()


class Supervisor:
    """Starts, stops and restarts the processes of all pipelines of a database. Its methods may be called from any thread.

    Args:
        database: The service's.
        launchers: By name; the first one starts what is started.
        work_folder: Of this service alone.
        files: Of pipelines.
        former: Says of processes on other hosts whether they are gone.
        stop_seconds: How long a run has, after it was asked to end, before it is killed.
    """

    def __init__(
        self,
        database: Database,
        launchers: Mapping[str, Launcher],
        work_folder: Path,
        files: PipelineFiles,
        former: FormerRuns,
        *,
        stop_seconds: float = 60.0,
    ) -> None:
        self._lease = SupervisorLease(database, work_folder)
        self._records = Records(database, self._lease)
        self._launchers = launchers
        self._launcher = next(iter(launchers.values()))
        self._files = files
        self._former = former
        self._stop_seconds = stop_seconds
        self._watched: dict[str, tuple[Launcher, str]] = {}
        self._ready: set[str] = set()
        self._kill_at: dict[str, float] = {}
        self._renewed_at = 0.0
        self._turned_at = self._supervised_at = time.monotonic()
        self._woken, self._wake = os.pipe()
        os.set_blocking(self._woken, False)
        os.set_blocking(self._wake, False)
        self._waking = threading.Lock()
        self._closing = False
        self._swept = False
        self._thread: threading.Thread | None = None

    @property
    def refusal(self) -> str:
        """Why this service does not supervise; empty when it does."""
        return self._lease.refusal

    @property
    def lasting_refusal(self) -> str:
        """The same, once it has been so for longer than one service needs to follow another; empty before."""
        return self._lease.refusal if time.monotonic() - self._supervised_at > _FOLLOWS_SECONDS else ""

    @property
    def is_stuck(self) -> bool:
        """Whether it has not looked at its pipelines for a minute, although it looks every few seconds."""
        return time.monotonic() - self._turned_at > _STUCK_SECONDS

    def start(self) -> None:
        """Begin to supervise, in a thread."""
        self._thread = threading.Thread(target=self._run, name="supervisor", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """Have it look at once at what is wanted."""
        with self._waking, suppress(OSError):
            if self._wake >= 0:  # the number may be another file's once it was closed
                os.write(self._wake, b".")

    def output_of(self, launcher: str, place: str, most: int) -> bytes | None:
        """The newest bytes that the process at a place has printed on standard error; None where they are not kept here.

        Raises:
            OSError: When they cannot be read now.
        """
        found = self._launchers.get(launcher)
        return None if found is None else found.output(place, most)

    def close(self) -> None:
        """End the thread. Processes go on; the next service finds them.

        A thread that waits for a database which does not answer is waited for `_CLOSE_SECONDS` only; it keeps its lease and what
        it has open, until this process ends.
        """
        self._closing = True
        self.wake()
        if self._thread is not None:
            self._thread.join(_CLOSE_SECONDS)
            if self._thread.is_alive():
                log.warning("service.supervision_not_ended", seconds=_CLOSE_SECONDS)
                return
        for launcher in self._launchers.values():
            launcher.close()
        self._lease.release()
        with self._waking:
            os.close(self._woken)
            os.close(self._wake)
            self._wake = -1

    def _run(self) -> None:
        while not self._closing:
            try:
                self._wait(self._pass() if self._supervises() else _RETRY_SECONDS)
            except Exception as error:
                log.warning("service.supervision_failed", kind=type(error).__name__)
                log.debug("service.supervision_failed", exc_info=error)
                time.sleep(_RETRY_SECONDS)
            self._turned_at = time.monotonic()

    def _supervises(self) -> bool:
        """Whether this service is the one that supervises; asks the database once in a beat."""
        now = time.monotonic()
        if not self._lease.refusal and now - self._renewed_at < _BEAT_SECONDS:
            return True
        before = self._lease.refusal
        held = self._lease.take()
        self._renewed_at = now
        if held:
            self._supervised_at = now
        if self._lease.refusal != before:
            log.info("service.supervision", supervises=held, reason=self._lease.refusal)
        return held

    def _wait(self, seconds: float) -> None:
        """Until a request, the end of a process, or so many seconds."""
        poll = select.poll()
        poll.register(self._woken, select.POLLIN)
        processes: dict[int, str] = {}
        for instance_id, (launcher, place) in self._watched.items():
            descriptor = None if instance_id in self._ready else launcher.descriptor(place)
            if descriptor is None:
                self._ready.add(instance_id)
            else:
                processes[descriptor] = instance_id
                poll.register(descriptor, select.POLLIN)
        for descriptor, _ in poll.poll(max(0.0, seconds) * 1000):
            if descriptor in processes:
                self._ready.add(processes[descriptor])
        with suppress(BlockingIOError):
            while os.read(self._woken, 4096):
                pass

    def _pass(self) -> float:
        """Look at every pipeline once; how many seconds later again, if nothing happens."""
        if not self._swept:
            self._sweep()
        now, wait, starts = datetime.now(UTC), _BEAT_SECONDS, 0
        for each in self._records.all():
            try:
                again, started = self._bring_about(each, now, may_start=starts < _STARTS_AT_ONCE)
            except Exception as error:  # this pipeline's only: its files, or its process, cannot be looked at now
                named = {"namespace": each.namespace, "pipeline": each.name}
                log.warning("service.pipeline_not_supervised", **named, kind=type(error).__name__)
                log.debug("service.pipeline_not_supervised", **named, exc_info=error)
                again, started = _RETRY_SECONDS, False
            wait, starts = min(wait, again), starts + started
        return wait

    def _bring_about(self, each: Supervised, now: datetime, *, may_start: bool) -> tuple[float, bool]:
        """Look at a pipeline, and do what follows; how many seconds later again, and whether it was started."""
        again = _BEAT_SECONDS
        if each.newest is not None and each.newest.ended is None:
            again = self._look(each, each.newest)
            if each.newest.instance_id not in self._watched:
                return again, False
        decision = decide(each.wanted, each.newest, now)
        if decision.again_at is not None:
            again = min(again, (decision.again_at - now).total_seconds())
        if decision.step is Step.START and not may_start:
            return min(again, _RETRY_SECONDS), False
        self._do(decision.step, each)
        return again, decision.step is Step.START

    def _do(self, step: Step, each: Supervised) -> None:
        if step is Step.START:
            self._start(each)
        elif step is Step.STOP:
            assert each.newest is not None
            self._stop(each.newest)
        elif step is Step.REMOVE:
            self._remove(each)

    def _look(self, each: Supervised, newest: Newest) -> float:
        """Find a process again, or see that it has ended; how many seconds later to look again."""
        watched = newest.instance_id in self._watched
        if watched and newest.instance_id not in self._ready:
            return _BEAT_SECONDS
        launcher = self._launchers.get(newest.launcher)
        if launcher is None:
            return self._elsewhere(each, newest, Seen(Presence.ELSEWHERE, detail=f"by {newest.launcher}"))
        seen = launcher.look(newest.place) if watched else launcher.refuse(newest.place)
        if seen.presence is Presence.NOT_BEGUN:
            seen = launcher.refuse(newest.place)
        if seen.presence is Presence.ELSEWHERE:
            return self._elsewhere(each, newest, seen)
        if seen.presence is Presence.ENDED:
            self._end(each, newest, seen)
            return 0.0
        if newest.error:
            self._records.note(newest.instance_id, {})
        self._watched[newest.instance_id] = (launcher, newest.place)
        again = launcher.look_again_seconds(newest.place)
        if math.isinf(again):
            self._ready.discard(newest.instance_id)
        return again

    def _start(self, each: Supervised) -> None:
        launcher, instance_id = self._launcher, next_id(each.newest)
        place = launcher.place(instance_id)
        failpoint("service.start.before_row")
        begun = self._records.begin(each, instance_id, launcher.name, place)
        if begun is None:
            self.wake()
            return
        failpoint("service.start.row_stored")
        self._watched[instance_id] = (launcher, place)
        try:
            file = self._files.write(each.namespace, each.name, begun.config)
            launcher.start(
                place,
                Order(each.namespace, each.name, instance_id, begun.words, begun.config, file, self._stop_seconds),
            )
        except OSError as error:
            log.warning("service.cannot_start", namespace=each.namespace, pipeline=each.name, kind=type(error).__name__)
            seen = launcher.refuse(place)
            if seen.presence is Presence.ENDED:
                reason = (error.strerror or type(error).__name__).lower()
                self._end(each, begun.newest, Seen(Presence.ENDED, error=not_started(reason)))
            return
        failpoint("service.start.process_started")

    def _stop(self, newest: Newest) -> None:
        launcher, place = self._watched[newest.instance_id]
        if not newest.dismissed:
            self._records.dismiss(newest.instance_id)
        now = time.monotonic()
        if (kill_at := self._kill_at.get(newest.instance_id)) is not None:
            if now >= kill_at:
                launcher.kill(place)
            return
        self._kill_at[newest.instance_id] = now + self._stop_seconds + _GRACE_SECONDS
        failpoint("service.stop.before_signal")
        launcher.stop(place)
        failpoint("service.stop.signalled")

    def _end(self, each: Supervised, newest: Newest, seen: Seen) -> None:
        failpoint("service.end.seen")
        at = datetime.now(UTC) if seen.at is None else datetime.fromtimestamp(seen.at, UTC)
        error = seen.error or unreported(seen.exit_code)
        if error.get("code") == NOTHING_STORED and self._records.ran(each.namespace, each.name):
            error = nothing_to_delete(error)
        self._records.end(newest.instance_id, seen.exit_code, at, {} if seen.exit_code == DONE else error)
        failpoint("service.end.stored")
        self._unwatch(newest)
        self._drop_older(each)

    def _drop_older(self, each: Supervised) -> None:
        """Keep less of a pipeline's processes before the newest; nothing that fails here keeps it from its next start."""
        older = self._records.older(each.namespace, each.name)
        kept, dropped = older[: KEPT_INSTANCES - WHOLE_OUTPUTS], older[KEPT_INSTANCES - WHOLE_OUTPUTS :]
        for _, name, place in kept:
            if name in self._launchers:
                with suppress(OSError):
                    self._launchers[name].shorten(place)
        for _, name, place in dropped:
            if name in self._launchers:
                self._launchers[name].forget(place)
        if dropped:
            self._records.forget([instance_id for instance_id, _, _ in dropped])

    def _unwatch(self, newest: Newest) -> None:
        self._watched.pop(newest.instance_id, None)
        self._ready.discard(newest.instance_id)
        self._kill_at.pop(newest.instance_id, None)
        if (launcher := self._launchers.get(newest.launcher)) is not None:
            launcher.release(newest.place)

    def _elsewhere(self, each: Supervised, newest: Newest, seen: Seen) -> float:
        """Start nothing beside a process that may live where this service cannot see it, until it is gone or an operator says so.

        How many seconds later to look again.
        """
        found = Former.UNKNOWN
        if newest.dismissed or each.wanted is Wanted.STOPPED:
            return self._end_elsewhere(newest, {})
        if seen.host:
            found = self._former.look(each.namespace, each.name, newest, seen.host)
        if found is Former.GONE:
            return self._end_elsewhere(newest, gone_with_host(seen.host))
        renews = found is Former.RENEWS
        unknown = found is Former.UNKNOWN
        error = run_elsewhere(seen.detail) if unknown else run_on_former_host(seen.host, renews=renews)
        if error != error_of(newest.error):
            self._records.note(newest.instance_id, error)
        return _RETRY_SECONDS if found is Former.LOOKED_AT else _BEAT_SECONDS

    def _end_elsewhere(self, newest: Newest, error: Mapping[str, str]) -> float:
        self._records.end(newest.instance_id, None, datetime.now(UTC), error)
        self._former.forget(newest.instance_id)
        return 0.0

    def _remove(self, each: Supervised) -> None:
        places = self._records.places(each.namespace, each.name)
        self._records.remove(each.namespace, each.name)
        failpoint("service.delete.removed")
        for name, place in places:
            if name in self._launchers:
                self._launchers[name].forget(place)
        self._files.remove(each.namespace, each.name)

    def _sweep(self) -> None:
        """Delete what an earlier service has left of pipelines that are deleted, and of processes that it never started."""
        files = self._files.names()
        instances, pipelines = self._records.known()
        for launcher in self._launchers.values():
            launcher.sweep(instances)
        for namespace, name in files - pipelines:
            self._files.remove(namespace, name)
        self._swept = True
