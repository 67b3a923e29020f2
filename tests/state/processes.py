"""Starting, racing and killing the workers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]


def start(role: str, *arguments: str, failpoints: str = "") -> subprocess.Popen[str]:
    """A worker process with pipes."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.state.worker", role, *arguments],
        cwd=ROOT,
        env={**os.environ, "REPLICATOR_FAILPOINTS": failpoints},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def kill(worker: subprocess.Popen[str]) -> str:
    """Ends the worker by SIGKILL; what it said after the lines that were read.

    `communicate` reads below the buffer that `readline` fills, so that lines which came together with one that was read are lost.
    """
    assert worker.stdout is not None
    worker.kill()
    rest = worker.stdout.read()
    worker.communicate()
    assert worker.returncode == -signal.SIGKILL
    return rest


@contextmanager
def race(path: Path, count: int, role: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """`count` processes of one role on the folder `path`, which have just left the line together; killed at the end."""
    crowd = start("crowd", str(path), str(count), role, *arguments)
    try:
        assert crowd.stdout is not None
        assert crowd.stdout.readline() == "ready\n"
        Path(f"{path}.go").touch()
        yield crowd
    finally:
        Path(f"{path}.end").touch()
        crowd.communicate(timeout=240)


def said(path: Path, count: int) -> list[list[str]]:
    """The words each racer has said so far."""
    files = [Path(f"{path}.out{number}") for number in range(count)]
    return [file.read_text().split() if file.exists() else [] for file in files]
