"""Claims about a target whose process is killed: subclass `TargetKills` beside `TargetConformance`.

    class TestMyTargetIsKilled(TargetKills):
        @pytest.fixture
        def system(self, tmp_path):
            return MySystem(tmp_path)

The plugin's class must be importable in another process, and what it writes must outlive the process. Its failpoints are those
that are registered when its module is imported.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from replicator_sdk.testing.failures.explained import at_step, comparing
from replicator_sdk.testing.histories.history import History
from replicator_sdk.testing.kills.child import LINE, Ended, Passed, run_child
from replicator_sdk.testing.kills.stages import NEVER, STAGES, Stages, spread
from replicator_sdk.testing.kills.target_process import Job
from replicator_sdk.testing.target_claims.target_system import TargetClaims, TargetSystem
from replicator_sdk.testing.target_script import ScriptBuilder


class TargetKills(TargetClaims, Stages):
    """Whatever kills the process, the next runs make the tables right."""

    def test_a_kill_at_any_failpoint_is_recovered_from(self, system: TargetSystem, tmp_path: Path) -> None:
        """Killed at each registered failpoint, when it comes there first, last and between, the target is right after the next
        run, and after two more with changes and a change of structure before each.
        """
        found = self._trial(system, tmp_path, "names", {}).failpoints
        armed = ",".join(f"{point}=kill@{NEVER}" for point in found)
        passed = self._trial(system, tmp_path, "passes", {"REPLICATOR_FAILPOINTS": armed}).failpoints
        for point in sorted(passed.keys() - self.unreached_failpoints):
            at_step(f"a run that is not killed, at {point}")
            with comparing("how often a run passes the failpoint and at least once"):
                assert passed[point] > 0
            for number in spread(passed[point], self.kills_of_a_failpoint):
                self._kill(system, tmp_path, f"{point}_{number}", {"REPLICATOR_FAILPOINTS": f"{point}=kill@{number}"})

    def test_a_kill_at_a_random_line_is_recovered_from(self, system: TargetSystem, tmp_path: Path) -> None:
        """Killed at lines of the plugin chosen at random, the target is right after the next run, and after two more
        with changes and a change of structure before each.
        """
        lines = self._trial(system, tmp_path, "lines", {LINE: "0"}).lines
        for line in random.Random(lines).sample(range(1, lines + 1), min(lines, self.random_kills)):  # noqa: S311
            self._kill(system, tmp_path, f"line_{line}", {LINE: str(line)})

    def _trial(self, system: TargetSystem, folder: Path, name: str, environment: Mapping[str, str]) -> Passed:
        """What a process passes that is not killed."""
        ended = _Runs(system, self._history(), folder, name).run(1, environment, self.seconds)
        with comparing("the exit code of a run that is not killed and 0"):
            assert ended.status == 0, ended.output
        assert ended.passed is not None
        return ended.passed

    def _kill(self, system: TargetSystem, folder: Path, name: str, environment: Mapping[str, str]) -> None:
        """One killed run of the first stage and three runs after it."""
        history = self._history()
        runs = _Runs(system, history, folder, "".join(c if c.isalnum() else "_" for c in name))
        at_step(f"the run that is killed at {name}")
        ended = runs.run(1, environment, self.seconds)
        with comparing(f"the end of the process and SIGKILL at {name}"):
            assert ended.was_killed, ended.output
        for number in STAGES:
            at_step(f"run {number} after the kill at {name}")
            ended = runs.run(number, {}, self.seconds)
            with comparing("the exit code of the run and 0"):
                assert ended.status == 0, ended.output
            builder = ScriptBuilder(history, runs.ids)
            self._compare(system, builder.flush(history.transactions[: _until(history, number)]).tables)


def _until(history: History, number: int) -> int:
    return len(history.transactions) * number // len(STAGES)


@dataclass
class _Runs:
    """Processes that go on with one history in tables of their own."""

    system: TargetSystem
    history: History
    folder: Path
    name: str
    epoch: int = 0

    def __post_init__(self) -> None:
        self.ids = {table: self.system.table_id(f"{self.name}_{table}") for table in self.history.tables}

    def run(self, number: int, environment: Mapping[str, str], seconds: float) -> Ended:
        """Run a process until the end of a stage."""
        self.epoch += 1
        target, path = self.system.target, self.folder / f"{self.name}.job"
        until, notes = _until(self.history, number), self.folder / f"{self.name}.durable"
        job = Job(type(target), target.config, self.history, self.ids, until, self.epoch, notes)
        return run_child("replicator_sdk.testing.kills.target_process", job, path, environment, seconds)
