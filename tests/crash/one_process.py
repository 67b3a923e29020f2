"""Several runs in one process, which keeps Spark meanwhile: a run into Delta then costs two seconds instead of ten."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import psutil

from tests.crash.kills import AT_RANDOM, kills
from tests.soak.runs import Runs

_SECONDS_TO_STOP = 120.0


class OneProcess:
    """The process starts with the first run after a kill and ends with the block.

    Args:
        folder: For its logs; it is made.
        environment: Further variables of the process.
        shares_java: Whether its virtual machine is one that others have used; not for runs that are killed.
    """

    def __init__(
        self, folder: Path, environment: Mapping[str, str] | None = None, *, shares_java: bool = False
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._runs = Runs(folder, environment, shares_java=shares_java)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._runs.close()
        else:
            self._runs.kill()

    def run(self, document: Mapping[str, Any], without: str = "") -> str:
        """Run a pipeline until it is current; the code of its error, empty when it went well."""
        self._runs.pipeline(document)
        self._runs.begin(without=without)
        ended = self._runs.end()
        assert "code" in ended or ended.get("reached"), f"{ended}, log: {self._runs.log}"
        return str(ended.get("code", ""))

    def kill_at(
        self, document: Mapping[str, Any], point: str, *, without: str = "", until_current: bool = True, times: int = 1
    ) -> None:
        """A run that dies when it is at `point` for the `times`-th time, before it is current or, if it goes on then, at any time."""
        self._runs.pipeline(document)
        failpoints = f"{point}=kill@{times}"
        self._runs.begin(until_current=until_current, seconds=3600, failpoints=failpoints, without=without)
        ended = self._runs.end()
        assert ended == {"killed": True}, f"not killed at {point}: {ended}"
        kills.append(point)

    def stop_at(self, document: Mapping[str, Any], point: str) -> None:
        """An endless run which, once it gets there, is stopped at `point` as a machine that is paused; see `stopped`."""
        self._runs.pipeline(document)
        self._runs.begin(until_current=False, seconds=3600, failpoints=f"{point}=stop", without="lapse")
        self._runs.works()

    def stopped(self) -> None:
        """Wait until the run is stopped, then stop all that it has started."""
        process = psutil.Process(self._runs.process_id)
        until = time.monotonic() + _SECONDS_TO_STOP
        while process.status() != psutil.STATUS_STOPPED:
            assert time.monotonic() < until, f"never stopped, log: {self._runs.log}"
            time.sleep(0.02)
        os.killpg(process.pid, signal.SIGSTOP)

    def go_on(self) -> str:
        """Have a stopped run go on to its end; the code of its error, empty when it went well."""
        assert self._runs.process_id is not None
        os.killpg(self._runs.process_id, signal.SIGCONT)
        return str(self._runs.end().get("code", ""))

    def start(self, document: Mapping[str, Any]) -> None:
        """Start an endless run, wait until it copies or streams."""
        self._runs.pipeline(document)
        self._runs.begin(until_current=False, seconds=3600)
        self._runs.works()

    def kill(self) -> None:
        """Kill the process, whatever it is doing."""
        self._runs.kill()
        kills.append(AT_RANDOM)


@dataclass(frozen=True)
class CopyInProcess:
    """A replicator that was killed and goes on in a shared process.

    Attributes:
        process: The process.
        document: Makes the pipeline JSON.
        differences: What differs between source and target; empty when they are equal.
        without: The part of the recovery to run without, if any.
    """

    process: OneProcess
    document: Callable[[], Mapping[str, Any]]
    differences: Callable[[], object]
    without: str = ""

    def run_until_current(self) -> None:
        """Run until the target has all changes."""
        code = self.process.run(self.document(), self.without)
        assert code == ""
