"""Runs a command and says what it cost: seconds, CPU seconds and peak memory of its whole process tree."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import psutil

from tests.services.processes import spawn


@dataclass(frozen=True, slots=True)
class Cost:
    """What a run cost.

    Attributes:
        seconds: From its start to its end, or to the moment it was done (`run_until`).
        cpu: CPU seconds of the process and all its children.
        peak: Peak of their summed resident memory, bytes.
        peak_root: Peak resident memory of the process itself, without its children, bytes.
        status: Exit code; None when it was stopped by us.
    """

    seconds: float
    cpu: float
    peak: int
    peak_root: int
    status: int | None


class _Watch:
    """Samples a process tree five times a second, ended children included."""

    def __init__(self, pid: int) -> None:
        self._root = psutil.Process(pid)
        self._cpu: dict[tuple[int, float], float] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.peak = self.peak_root = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    @property
    def cpu(self) -> float:
        """CPU seconds seen so far."""
        return sum(self._cpu.values())

    def _run(self) -> None:
        while not self._ended.wait(0.2):
            with contextlib.suppress(psutil.Error):
                self._sample()

    def _sample(self) -> None:
        total = 0
        for process in [self._root, *self._root.children(recursive=True)]:
            with contextlib.suppress(psutil.Error), process.oneshot():
                times = process.cpu_times()
                self._cpu[process.pid, process.create_time()] = times.user + times.system
                resident = process.memory_info().rss
                total += resident
                if process.pid == self._root.pid:
                    self.peak_root = max(self.peak_root, resident)
        self.peak = max(self.peak, total)


class RunError(RuntimeError):
    """A measured command failed or did not finish; the message ends with the tail of its log."""


def run(
    command: Sequence[str | Path],
    log: Path,
    *,
    limit: float = 900,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> Cost:
    """Run `command` to its end, output appended to `log`.

    Raises:
        RunError: When it fails or takes longer than `limit` seconds.
    """
    cost = _measure(command, log, lambda process: process.poll() is not None, limit, environment, folder)
    if cost.status != 0:
        raise RunError(f"{command[0]} ended with {cost.status}:\n{tail(log)}")
    return cost


def run_until(
    command: Sequence[str | Path],
    log: Path,
    done: Callable[[], bool],
    *,
    limit: float = 900,
    environment: Mapping[str, str] | None = None,
) -> Cost:
    """Run `command` until `done()`, then stop it; the seconds are those until `done()`.

    Raises:
        RunError: When it ends by itself or is not done within `limit` seconds.
    """
    cost = _measure(command, log, lambda process: process.poll() is not None or done(), limit, environment, None)
    if cost.status is not None:
        raise RunError(f"{command[0]} ended with {cost.status} before it was done:\n{tail(log)}")
    return cost


def _measure(
    command: Sequence[str | Path],
    log: Path,
    over: Callable[[subprocess.Popen[bytes]], bool],
    limit: float,
    environment: Mapping[str, str] | None,
    folder: Path | None,
) -> Cost:
    started = time.monotonic()
    process = spawn(command, log=log, environment=environment, folder=folder)
    try:
        with _Watch(process.pid) as watch:
            while not over(process):
                if time.monotonic() - started > limit:
                    raise RunError(f"{command[0]} took more than {limit} s:\n{tail(log)}")
                time.sleep(0.05)
            seconds = time.monotonic() - started
        return Cost(seconds, watch.cpu, watch.peak, watch.peak_root, process.poll())
    finally:
        end(process)


def end(process: subprocess.Popen[bytes], patience: float = 20) -> None:
    """End a process and its group."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(patience)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(10)


def tail(log: Path, lines: int = 25) -> str:
    """The last lines of a log."""
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:]) if log.exists() else ""
