"""Starts a process of the kit with a pickled job, and reads what it says of itself."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from replicator_sdk.failpoint import passes, registered
from replicator_sdk.testing.failures.interruption import Place, traced

LINE = "REPLICATOR_KILL_AT_LINE"


@dataclass(frozen=True)
class Passed:
    """What a process passed that was not killed.

    Attributes:
        lines: How many lines of the plugin; 0 when they were not counted.
        failpoints: Name → how often, as far as it was armed.
    """

    lines: int
    failpoints: Mapping[str, int]


@dataclass(frozen=True)
class Ended:
    """How a process ended.

    Attributes:
        status: Its exit code.
        output: What it printed.
        passed: What it passed; None when it did not come to its end.
    """

    status: int
    output: str
    passed: Passed | None

    @property
    def was_killed(self) -> bool:
        """Whether it was killed by SIGKILL."""
        return self.status == -signal.SIGKILL


def run_child(module: str, job: object, path: Path, environment: Mapping[str, str], seconds: float) -> Ended:
    """Run `python -m module` with a job, which is written to `path`.

    Args:
        module: Its main function calls `main_of_child`.
        job: Picklable; its classes can be imported with this process's `sys.path`.
        path: A file of its own for each run.
        environment: What it has beside this process's environment.
        seconds: How long it may take.
    """
    said = path.with_suffix(".json")
    said.unlink(missing_ok=True)
    path.write_bytes(pickle.dumps(job))
    done = subprocess.run(
        [sys.executable, "-m", module, str(path)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **environment},
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    passed = Passed(**json.loads(said.read_text())) if said.exists() else None
    return Ended(done.returncode, done.stdout + done.stderr, passed)


class LineCounter:
    """Counts the lines of a plugin, and kills the process at one of them.

    Attributes:
        lines: How many so far.
    """

    def __init__(self) -> None:
        self.lines = 0
        self._last = int(os.environ.get(LINE, "0"))

    @contextmanager
    def watching(self, plugin: type) -> Iterator[None]:
        """Count in this thread while the block runs, if the environment asks for it."""
        if LINE not in os.environ:
            yield
            return
        with traced(plugin, self._count):
            yield

    def _count(self, _: Place) -> None:
        self.lines += 1
        if self.lines == self._last:
            os.kill(os.getpid(), signal.SIGKILL)


def main_of_child(run: Callable[[object, LineCounter], None]) -> None:
    """Run the job that the command line names, then write what was passed beside it."""
    path, counter = Path(sys.argv[1]), LineCounter()
    run(pickle.loads(path.read_bytes()), counter)  # noqa: S301 - written by the test that started this process
    found = {"lines": counter.lines, "failpoints": {name: passes(name) for name in sorted(registered())}}
    path.with_suffix(".json").write_text(json.dumps(found))
