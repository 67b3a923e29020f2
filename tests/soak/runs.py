"""Runs of one replicator in a process of their own, which may be killed."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.services.forks import Forked, fork
from tests.services.processes import spawn, tail
from tests.services.spark import kept_java
from tests.services.spark.kept_java import KeptJava
from tests.services.spark.session import INTERPRETER

_SECONDS = 240.0
_SECONDS_TO_END = 30.0
_WORKER = "from tests.soak.worker import main; main()"


class Runs:
    """Starts the process when it is needed; one run at a time.

    Args:
        folder: For the pipeline file, logs and answers.
        environment: Further variables of the process.
        forked: Whether it starts at once, as `tests.services.forks` says; else its memory is its own, and may be measured.
        shares_java: Whether it has a virtual machine of `kept_java`; not for runs that are killed.
    """

    def __init__(
        self,
        folder: Path,
        environment: Mapping[str, str] | None = None,
        *,
        forked: bool = True,
        shares_java: bool = False,
    ) -> None:
        self._environment = environment or {}
        self._begin = fork if forked else spawn
        self._pipeline, self._answers, self.log = folder / "pipeline.json", folder / "answers", folder / "log"
        self._wishes = folder / "wishes"
        self._process: Forked | subprocess.Popen[bytes] | None = None
        self._asked: int | None = None
        self._shares_java = shares_java
        self._java: KeptJava | None = None
        self._seen = 0

    def pipeline(self, document: Mapping[str, Any]) -> None:
        """What runs from now on."""
        self._pipeline.write_text(json.dumps(document))

    def begin(
        self, *, until_current: bool = True, seconds: float = 0.0, failpoints: str = "", without: str = ""
    ) -> None:
        """Begin a run; `without` names a part of the recovery (see `tests.crash.removed_recovery`)."""
        if self._process is None or self._process.poll() is not None:
            self.kill()
            self._answers.write_text("")
            self._seen = 0
            self._start()
        wanted = {
            "pipeline": str(self._pipeline),
            "until_current": until_current,
            "seconds": seconds,
            "failpoints": failpoints,
            "without": without,
        }
        assert self._asked is not None
        os.write(self._asked, json.dumps(wanted).encode() + b"\n")

    def _start(self) -> None:
        os.mkfifo(self._wishes)
        self._asked = os.open(self._wishes, os.O_RDWR)  # for both, since one for writing would wait for the other end
        command = [sys.executable, "-c", _WORKER, str(self._answers), str(self._wishes)]
        self._java = kept_java.take() if self._shares_java else None
        variables = self._java.variables() if self._java else {}
        self._process = self._begin(
            command, log=self.log, environment={**INTERPRETER, **self._environment, **variables}
        )
        if self._java:
            self._java.ended = self._process.poll

    @property
    def process_id(self) -> int | None:
        """Of the process that runs pipelines; None when none lives."""
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    def works(self) -> None:
        """Wait until the run copies or streams, or has ended."""
        self._answer()

    def end(self) -> Mapping[str, Any]:
        """Wait for the run's end; what became of it, `killed` when the process is gone."""
        while "phase" in (answer := self._answer()):
            pass
        return answer

    def _answer(self) -> Mapping[str, Any]:
        deadline = time.monotonic() + _SECONDS
        assert self._process is not None
        while True:
            has_ended = self._process.poll() is not None  # what it answers last comes before its end
            lines = self._answers.read_text().rpartition("\n")[0].splitlines()
            if len(lines) > self._seen:
                self._seen += 1
                answer: Mapping[str, Any] = json.loads(lines[self._seen - 1])
                return answer
            if has_ended:
                return {"killed": True}
            if time.monotonic() > deadline:
                self.kill()
                raise AssertionError(f"a run did not end:\n{tail(self.log, 60)}")
            time.sleep(0.02)

    def close(self) -> None:
        """Have the process end in order when no run goes on; for one whose virtual machine others go on with."""
        if self._process is not None and self._process.poll() is None and self._java and self._asked is not None:
            os.write(self._asked, b"{}\n")
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_SECONDS_TO_END)
        self.kill()

    def kill(self) -> None:
        """SIGKILL the process and what it started."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            status = self._process.wait(120)
            if self._java:
                self._java.give_back(status)
            self._process = self._java = None
        if self._asked is not None:
            os.close(self._asked)
            self._asked = None
            self._wishes.unlink()
