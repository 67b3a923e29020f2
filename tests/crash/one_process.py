"""Several runs in one process, which keeps Spark meanwhile: a run into Delta then costs two seconds instead of ten."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from tests.crash.kills import AT_RANDOM, kills
from tests.soak.runs import Runs


class OneProcess:
    """The process starts with the first run after a kill and ends with the block.

    Args:
        folder: For its logs; it is made.
        environment: Further variables of the process.
    """

    def __init__(self, folder: Path, environment: Mapping[str, str] | None = None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._runs = Runs(folder, environment)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._runs.kill()

    def run(self, document: Mapping[str, Any], without: str = "") -> str:
        """Run a pipeline until it is current; the code of its error, empty when it went well."""
        self._runs.pipeline(document)
        self._runs.begin(without=without)
        ended = self._runs.end()
        assert "code" in ended or ended.get("reached"), f"{ended}, log: {self._runs.log}"
        return str(ended.get("code", ""))

    def kill_at(self, document: Mapping[str, Any], point: str) -> None:
        """A run that dies at `point`."""
        self._runs.pipeline(document)
        self._runs.begin(failpoints=f"{point}=kill")
        ended = self._runs.end()
        assert ended == {"killed": True}, f"not killed at {point}: {ended}"
        kills.append(point)

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
