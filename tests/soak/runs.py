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

from tests.services.processes import dying_with_parent, tail
from tests.services.spark.session import INTERPRETER

_SECONDS = 240.0


class Runs:
    """Starts the process when it is needed; one run at a time.

    Args:
        folder: For the pipeline file, logs and answers.
        environment: Further variables of the process.
    """

    def __init__(self, folder: Path, environment: Mapping[str, str] | None = None) -> None:
        self._environment = environment or {}
        self._pipeline, self._answers, self.log = folder / "pipeline.json", folder / "answers", folder / "log"
        self._process: subprocess.Popen[bytes] | None = None
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
            command = [*dying_with_parent(), sys.executable, "-m", "tests.soak.worker", str(self._answers)]
            with self.log.open("ab") as output:
                self._process = subprocess.Popen(
                    command,
                    stdin=subprocess.PIPE,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    env={**os.environ, **INTERPRETER, **self._environment},
                    start_new_session=True,
                )
        wanted = {
            "pipeline": str(self._pipeline),
            "until_current": until_current,
            "seconds": seconds,
            "failpoints": failpoints,
            "without": without,
        }
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(wanted).encode() + b"\n")
        self._process.stdin.flush()

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
            lines = self._answers.read_text().splitlines()
            if len(lines) > self._seen:
                self._seen += 1
                answer: Mapping[str, Any] = json.loads(lines[self._seen - 1])
                return answer
            if self._process.poll() is not None:
                return {"killed": True}
            if time.monotonic() > deadline:
                self.kill()
                raise AssertionError(f"a run did not end:\n{tail(self.log, 60)}")
            time.sleep(0.02)

    def kill(self) -> None:
        """SIGKILL the process and what it started."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.communicate(timeout=20)
            self._process = None
