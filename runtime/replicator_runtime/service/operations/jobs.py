"""Runs commands for people in processes of their own, which outlive the service and are found again by the next one."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter, deque
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import structlog
from ulid import ULID

from replicator_runtime.service.commands.process import start_process
from replicator_runtime.service.file_locks import is_locked, take_lock
from replicator_runtime.service.operations.job_process import LOCK, OUTPUT, PROCESS, RESULT, WORDS
from replicator_runtime.service.operations.job_records import OPEN, RUNNING, WAITING, JobRecords
from replicator_runtime.service.private_files import write_private
from replicator_sdk.failpoint import failpoint, register

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from replicator_runtime.service.settings import ServiceSettings
    from replicator_runtime.service.store.database import Database
    from replicator_runtime.service.store.tables import Job

register("service.job.stored", "service.job.running", "service.job.spawned", "service.job.ended")
AT_ONCE: Final = 4
OF_A_NAMESPACE: Final = 2
_LOOK_SECONDS: Final = 0.2
_PASS_SECONDS: Final = 2.0
_RENEW_SECONDS: Final = 60.0
_MOST_WAIT_SECONDS: Final = 30.0
FORGOTTEN_AFTER: Final = timedelta(minutes=10)
"""A job that no service has had in its memory for so long is not begun any more, and one whose service is silent for so long is lost."""
CANCEL: Final = "cancel"
_KILL_SECONDS: Final = 15.0
_UNCONFIRMED: Final = "RPL-1228"
PLAN_ONLY: Final = "planOnly"
log = structlog.get_logger()
_left: list[subprocess.Popen[bytes]] = []
"""Processes that go on after their service has ended in order: referenced, since Python warns of one that it collects while it runs."""


@dataclass(slots=True)
class _Open:
    """A job that has not ended."""

    job_id: str
    namespace: str
    name: str
    cancelled_at: float | None = None
    killed: bool = False


class Jobs:
    """Safe from any thread. Four jobs at once, two of a namespace, one of a pipeline; others wait in the order in which they were asked for.

    Of several services with one work folder the first one runs the jobs of all; another one follows when that has ended.

    Args:
        settings: The service's.
        database: The service's.
    """

    def __init__(self, settings: ServiceSettings, database: Database) -> None:
        self.records = JobRecords(database, settings.work_folder.absolute())
        self._settings = settings
        self._folder = settings.work_folder / "jobs"
        self._lock = threading.Lock()
        self._queue: deque[_Open] = deque()
        self._running: dict[str, _Open] = {}
        self._closed = threading.Event()
        self._held: int | None = None
        self._renewed_at = 0.0
        self._thread: threading.Thread | None = None

    def start(
        self, namespace: str, name: str, shown: Sequence[str], words: Sequence[str], by: str, *, plan_only: bool = False
    ) -> Job:
        """Run a command soon; the job, which waits.

        Args:
            namespace: The pipeline's.
            name: The pipeline.
            shown: The command for people and the database: it names the pipeline instead of its file, and no row's values.
            words: The command, `--json` included.
            by: Who asks.
            plan_only: Whether it only shows what it would do: then it is done where it asks for a confirmation.
        """
        job_id = str(ULID())
        folder = self._folder / job_id
        try:
            # Before the row, so that no job waits whose words are not there.
            folder.mkdir(parents=True, mode=0o700)
            write_private(folder / WORDS, json.dumps(list(words)))
            if plan_only:
                write_private(folder / PLAN_ONLY, "")
            job = self.records.add(job_id, namespace, name, shown, by)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        failpoint("service.job.stored")
        if self._held is not None:
            self._enqueue(_Open(job_id, namespace, name))
        return job

    def cancel(self, namespace: str, job_id: str) -> Job:
        """End a job: in order if it can within some seconds. One that has ended stays as it is.

        Raises:
            ProblemError: 404 RPL-1564 when there is none.
        """
        job = self.records.find(namespace, job_id)
        if self.records.change(job_id, "cancelled", [WAITING], ended=datetime.now(UTC), output=""):
            with self._lock:
                self._queue = deque(one for one in self._queue if one.job_id != job_id)
            shutil.rmtree(self._folder / job_id, ignore_errors=True)
            return self.records.find(namespace, job_id)
        with suppress(OSError):  # it has ended, or is another host's
            write_private(self._folder / job_id / CANCEL, "")
        return job

    def cancel_all(self, namespace: str, name: str) -> None:
        """End all jobs of a pipeline, as `cancel` does."""
        for job in self.records.open_ones():
            if (job.namespace, job.name) == (namespace, name):
                self.cancel(namespace, job.job_id)

    def resume(self) -> None:
        """Go on with what an earlier service left, and with what other services of the work folder are asked for, from now on."""
        self._thread = threading.Thread(target=self._look_after, name="jobs", daemon=True)
        self._thread.start()

    def _look_after(self) -> None:
        while not self._closed.is_set():
            try:
                if self._holds():
                    self._adopt()
            except Exception as error:  # noqa: BLE001 - such as a database that is away
                log.warning("service.jobs_not_read", kind=type(error).__name__)
            self._closed.wait(_PASS_SECONDS)

    def _holds(self) -> bool:
        """Whether this service runs the jobs of its work folder: the kernel gives the lock back when it is killed."""
        if self._held is None:
            self._held = take_lock(self._settings.work_folder / "jobs.lock")
            if self._held is None:
                return False
            self._sweep()
        return True

    def _sweep(self) -> None:
        """Delete what was left of jobs that the database does not know."""
        if not self._folder.exists():
            return
        before = time.time() - FORGOTTEN_AFTER.total_seconds()  # one that is being stored now has no row yet
        old = {one.name: one for one in self._folder.iterdir() if one.stat().st_mtime < before}
        for job_id in old.keys() - self.records.known(list(old)):
            if not _lives(old[job_id]):
                shutil.rmtree(old[job_id], ignore_errors=True)

    def _adopt(self) -> None:
        """Find jobs that this service has not begun: those that go on, that have ended, that wait, and those that are lost."""
        now = datetime.now(UTC)
        if time.monotonic() - self._renewed_at >= _RENEW_SECONDS:
            with self._lock:
                known = [*self._running, *(one.job_id for one in self._queue)]
            self.records.renew(known)
            self._renewed_at = time.monotonic()
        for job in self.records.open_ones():
            one, folder = _Open(job.job_id, job.namespace, job.name), self._folder / job.job_id
            with self._lock:
                if job.job_id in self._running or any(each.job_id == job.job_id for each in self._queue):
                    continue
            forgotten = abs(now - self.records.seen(job)) > FORGOTTEN_AFTER
            if _lives(folder):
                if self.records.is_here(job):
                    self._follow(one)
            elif (folder / RESULT).exists() or (job.state == RUNNING and (folder / PROCESS).exists()):
                self._follow(one)
            elif (folder / WORDS).exists() and not forgotten:
                self.records.change(job.job_id, WAITING, OPEN)
                self._enqueue(one)
            elif forgotten or self.records.is_here(job):
                self.records.change(job.job_id, "lost", OPEN, ended=now, output="")
                shutil.rmtree(folder, ignore_errors=True)

    def close(self) -> None:
        """Start nothing more; what runs goes on by itself."""
        self._closed.set()
        if self._thread is not None:
            self._thread.join(10)
        if self._held is not None:
            os.close(self._held)
            self._held = None

    @property
    def counts(self) -> dict[str, int]:
        """How many wait and run."""
        with self._lock:
            return {WAITING: len(self._queue), RUNNING: len(self._running)}

    def _enqueue(self, one: _Open) -> None:
        with self._lock:
            if one.job_id not in self._running and all(each.job_id != one.job_id for each in self._queue):
                self._queue.append(one)
        self._start_next()

    def _start_next(self) -> None:
        """Start those whose turn it is."""
        while not self._closed.is_set():
            with self._lock:
                busy = {(one.namespace, one.name) for one in self._running.values()}
                work = Counter(one.namespace for one in self._running.values())
                found = next(
                    (
                        one
                        for one in self._queue
                        if (one.namespace, one.name) not in busy and work[one.namespace] < OF_A_NAMESPACE
                    ),
                    None,
                )
                if found is None or len(self._running) >= AT_ONCE:
                    return
                self._queue.remove(found)
                self._running[found.job_id] = found
            self._start(found)

    def _start(self, one: _Open) -> None:
        lock = None
        begun = False
        try:
            # Locked before the row says that it runs, so that another service never takes it for one without a process.
            lock = take_lock(self._folder / one.job_id / LOCK)
            if lock is None:
                self._drop(one)  # another service begins it now
                return
            begun = self.records.change(one.job_id, RUNNING, [WAITING], started=datetime.now(UTC))
            if not begun:
                self._drop(one)  # cancelled, or deleted with its pipeline
                return
            failpoint("service.job.running")
            process = self._spawn(one, lock)
            failpoint("service.job.spawned")
        except Exception as error:  # noqa: BLE001 - such as no memory, a folder that was deleted, or a database that is away
            log.warning("service.job_not_started", job=one.job_id, kind=type(error).__name__)
            if begun:
                ending = (one, "failed", None, None)
                threading.Thread(target=self._end, args=ending, name="job", daemon=True).start()
            else:
                self._drop(one)  # `_adopt` finds it again
            return
        finally:
            if lock is not None:
                os.close(lock)
        self._follow(one, process)

    def _drop(self, one: _Open) -> None:
        with self._lock:
            self._running.pop(one.job_id, None)

    def _spawn(self, one: _Open, lock: int) -> subprocess.Popen[bytes]:
        """The process; it has the lock from its beginning on, so that no moment is without."""
        folder = self._folder / one.job_id
        output = os.open(folder / OUTPUT, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            line = [sys.executable, "-m", "replicator_runtime.service.operations.job_process", str(folder), str(lock)]
            return start_process(line, self._settings, one.namespace, output, [lock])
        finally:
            os.close(output)

    def _follow(self, one: _Open, process: subprocess.Popen[bytes] | None = None) -> None:
        with self._lock:
            self._running[one.job_id] = one
        threading.Thread(target=self._await, args=(one, process), name="job", daemon=True).start()

    def _await(self, one: _Open, process: subprocess.Popen[bytes] | None) -> None:
        """Until the process has ended, which is another service's child perhaps."""
        folder = self._folder / one.job_id
        while process.poll() is None if process is not None else _lives(folder):
            if one.cancelled_at is None and (folder / CANCEL).exists():
                one.cancelled_at = time.monotonic()
            if one.cancelled_at is not None:
                _stop(one, folder, process)
            if self._closed.wait(_LOOK_SECONDS):
                _left.extend([] if process is None else [process])
                return
        failpoint("service.job.ended")
        found = _result(folder)
        exit_code = process.returncode if process is not None else None if found is None else int(found["exitCode"])
        envelope = None if found is None else found["envelope"]
        if found is not None and (folder / PLAN_ONLY).exists() and _asks(envelope):
            exit_code, envelope = 0, {**(envelope or {}), "error": None}
        state = "done" if exit_code == 0 else "failed"
        if one.cancelled_at is not None and exit_code != 0:
            state = "cancelled"
        elif found is None and process is None:
            state = "lost"
        self._end(one, state, exit_code, envelope)

    def _end(self, one: _Open, state: str, exit_code: int | None, envelope: dict[str, Any] | None) -> None:
        """Store its end, however long the database is away; the next service finds the result in its folder if this one ends."""
        output = "" if envelope is None else json.dumps(envelope, ensure_ascii=False)
        wait = 1.0
        while True:
            try:
                self.records.change(
                    one.job_id, state, OPEN, ended=datetime.now(UTC), exit_code=exit_code, output=output
                )
                for old in [one.job_id, *self.records.prune(one.namespace, one.name)]:
                    shutil.rmtree(self._folder / old, ignore_errors=True)
                break
            except Exception as error:  # noqa: BLE001 - the database is away
                log.warning("service.job_not_ended", job=one.job_id, kind=type(error).__name__)
            if self._closed.wait(wait):
                return
            wait = min(_MOST_WAIT_SECONDS, 2 * wait)
        self._drop(one)
        self._start_next()


def _stop(one: _Open, folder: Path, process: subprocess.Popen[bytes] | None) -> None:
    """Ask its process to end, and end it with all that it has started when it has not done so in time."""
    try:
        pid = process.pid if process is not None else int(json.loads((folder / PROCESS).read_bytes())["pid"])
    except (OSError, ValueError, KeyError):
        return
    assert one.cancelled_at is not None
    with suppress(ProcessLookupError, PermissionError):
        if time.monotonic() - one.cancelled_at >= _KILL_SECONDS:
            os.killpg(pid, signal.SIGKILL)
        elif not one.killed:
            one.killed = True
            os.kill(pid, signal.SIGTERM)


def _lives(folder: Path) -> bool:
    """Whether a process of the job lives, as far as it can be seen: one that cannot be seen now is looked at again."""
    try:
        return is_locked(folder / LOCK)
    except OSError:
        return True


def _result(folder: Path) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = json.loads((folder / RESULT).read_bytes())
    except (OSError, ValueError):
        return None
    return found


def _asks(envelope: dict[str, Any] | None) -> bool:
    """Whether it ended where it asked for a confirmation."""
    return ((envelope or {}).get("error") or {}).get("code") == _UNCONFIRMED
