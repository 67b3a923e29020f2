"""Claims about a target whose process is killed: subclass `TargetKills` beside `TargetConformance`.

    class TestMyTargetIsKilled(TargetKills):
        @pytest.fixture
        def system(self, tmp_path):
            return MySystem(tmp_path)

The plugin's class must be importable in another process, and what it writes must outlive the process. Its failpoints are those
that are registered when its module is imported.
"""

from __future__ import annotations

import json
import os
import pickle
import random
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from replicator_sdk.testing.failures.explained import at_step, comparing
from replicator_sdk.testing.histories.history import History, parse_history
from replicator_sdk.testing.kills.target_process import LINE, Job
from replicator_sdk.testing.target_claims.target_system import TargetClaims, TargetSystem
from replicator_sdk.testing.target_script import ScriptBuilder

_NEVER = 10**9
_TABLES: dict[str, dict[str, Any]] = {
    "keyed": {"columns": {"id": "int64 not null", "name": "string"}, "key": ["id"]},
    "words": {"columns": {"word": "string"}},
}


class TargetKills(TargetClaims):
    """Whatever kills the process, the next runs make the tables right."""

    kills_of_a_failpoint: ClassVar[int] = 6
    """At how many of its passes of each failpoint a process is killed: the first, the last, and some between."""

    random_kills: ClassVar[int] = 5
    """At how many lines of the plugin, chosen at random, a process is killed."""

    unreached_failpoints: ClassVar[frozenset[str]] = frozenset()
    """Failpoints of the plugin that applying a history does not pass, such as those of maintenance."""

    seconds: ClassVar[float] = 120.0
    """How long one process may take."""

    def test_a_kill_at_any_failpoint_is_recovered_from(self, system: TargetSystem, tmp_path: Path) -> None:
        """Killed at each registered failpoint, when it comes there first, last and between, the target is right after the next
        run, and after two more with changes and a change of structure before each.
        """
        found = self._trial(system, tmp_path, "names", {})["failpoints"]
        armed = ",".join(f"{point}=kill@{_NEVER}" for point in found)
        passed: dict[str, int] = self._trial(system, tmp_path, "passes", {"REPLICATOR_FAILPOINTS": armed})["failpoints"]
        for point in sorted(passed.keys() - self.unreached_failpoints):
            at_step(f"a run that is not killed, at {point}")
            with comparing("how often a run passes the failpoint and at least once"):
                assert passed[point] > 0
            for number in _spread(passed[point], self.kills_of_a_failpoint):
                self._kill(system, tmp_path, f"{point}_{number}", {"REPLICATOR_FAILPOINTS": f"{point}=kill@{number}"})

    def test_a_kill_at_a_random_line_is_recovered_from(self, system: TargetSystem, tmp_path: Path) -> None:
        """Killed at lines of the plugin chosen at random, the target is right after the next run, and after two more
        with changes and a change of structure before each.
        """
        lines = self._trial(system, tmp_path, "lines", {LINE: "0"})["lines"]
        for line in random.Random(lines).sample(range(1, lines + 1), min(lines, self.random_kills)):  # noqa: S311
            self._kill(system, tmp_path, f"line_{line}", {LINE: str(line)})

    def _trial(self, system: TargetSystem, folder: Path, name: str, environment: Mapping[str, str]) -> dict[str, Any]:
        """What a process passes that is not killed."""
        runs = _Runs(system, self._history(), folder, name)
        with comparing("the exit code of a run that is not killed and 0"):
            assert runs.run(1, environment, self.seconds) == 0, runs.output
        found: dict[str, Any] = json.loads((folder / f"{name}.json").read_text())
        return found

    def _kill(self, system: TargetSystem, folder: Path, name: str, environment: Mapping[str, str]) -> None:
        """One killed run of the first stage and three runs after it."""
        history = self._history()
        runs = _Runs(system, history, folder, "".join(c if c.isalnum() else "_" for c in name))
        at_step(f"the run that is killed at {name}")
        with comparing(f"the end of the process and SIGKILL at {name}"):
            assert runs.run(1, environment, self.seconds) == -signal.SIGKILL
        for stage in (1, 2, 3):
            at_step(f"run {stage} after the kill at {name}")
            with comparing("the exit code of the run and 0"):
                assert runs.run(stage, {}, self.seconds) == 0, runs.output
            builder = ScriptBuilder(history, runs.ids)
            self._compare(system, builder.flush(history.transactions[: _until(history, stage)]).tables)

    def _history(self) -> History:
        """Three stages of rows, a change of structure, and rows."""
        stages = [[*_rows(n), *self._structure(n), *_rows(n + 1)] for n in (10, 20, 30)]
        tables = {name: facts for name, facts in _TABLES.items() if self.supports_keyless or "key" in facts}
        return parse_history(
            "killed",
            {"claim": "", "tables": tables, "transactions": [t for stage in stages for t in self._kept(stage)]},
        )

    def _kept(self, stage: list[list[dict[str, Any]]]) -> list[list[dict[str, Any]]]:
        if self.supports_keyless:
            return stage
        return [[step for step in steps if next(iter(step.values())) != "words"] for steps in stage]

    def _structure(self, number: int) -> list[list[dict[str, Any]]]:
        """Another change of structure in each stage, one that the target can follow; else none, but a transaction."""
        if number == 20 and self.supports_truncate:
            return [[{"truncate": "words" if self.supports_keyless else "keyed"}]]
        if self.supports_add_column:
            return [[{"add_column": "keyed", "name": f"more{number}", "type": "int64", "default": number}]]
        return [[{"insert": "keyed", "rows": [{"id": 1000 + number, "name": "no change"}]}]]


def _rows(number: int) -> list[list[dict[str, Any]]]:
    """Two transactions of rows of both tables, whose effect is seen when they are applied twice or not at all."""
    first: list[dict[str, Any]] = [
        {"insert": "keyed", "rows": [{"id": number * 10 + i, "name": f"n{i}"} for i in range(4)]},
        {"insert": "words", "rows": [{"word": f"w{number}"}] * 3},
    ]
    second: list[dict[str, Any]] = [
        {"update": "keyed", "where": {"id": number * 10}, "set": {"name": "changed"}},
        {"update": "keyed", "where": {"id": number * 10 + 1}, "set": {"id": number * 10 + 9}},
        {"delete": "keyed", "where": {"id": number * 10 + 2}},
        {"delete": "words", "where": {"word": f"w{number}"}, "limit": 1},
    ]
    return [first, second]


def _spread(count: int, wanted: int) -> list[int]:
    """At most `wanted` numbers from 1 to `count`, evenly spread."""
    if count <= wanted:
        return list(range(1, count + 1))
    return sorted({1 + i * (count - 1) // max(1, wanted - 1) for i in range(wanted)})


def _until(history: History, stage: int) -> int:
    return len(history.transactions) * stage // 3


@dataclass
class _Runs:
    """Processes that go on with one history in tables of their own.

    Attributes:
        output: What the last one printed.
    """

    system: TargetSystem
    history: History
    folder: Path
    name: str
    epoch: int = 0
    output: str = ""

    def __post_init__(self) -> None:
        self.ids = {table: self.system.table_id(f"{self.name}_{table}") for table in self.history.tables}

    def run(self, stage: int, environment: Mapping[str, str], seconds: float) -> int:
        """Run a process until the end of a stage, or its own; returns its exit code."""
        self.epoch += 1
        target, path = self.system.target, self.folder / f"{self.name}.job"
        until, notes = _until(self.history, stage), self.folder / f"{self.name}.durable"
        path.write_bytes(
            pickle.dumps(Job(type(target), target.config, self.history, self.ids, until, self.epoch, notes))
        )
        done = subprocess.run(
            [sys.executable, "-m", "replicator_sdk.testing.kills.target_process", str(path)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **environment},
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
        self.output = done.stdout + done.stderr
        return done.returncode
