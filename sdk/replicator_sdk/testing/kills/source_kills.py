"""Claims about a source whose process is killed: subclass `SourceKills` beside `SourceConformance`.

    class TestMySourceIsKilled(SourceKills):
        @pytest.fixture
        def system(self, tmp_path):
            return MySystem(tmp_path)

The plugin's class must be importable in another process, and the database must outlive the process. Its failpoints are those
that are registered when its module is imported.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path

import pytest

from replicator_sdk.testing.failures.explained import assert_same, at_step, comparing
from replicator_sdk.testing.histories.values import difference
from replicator_sdk.testing.kills.child import LINE, Ended, run_child
from replicator_sdk.testing.kills.source_process import Job, Stored
from replicator_sdk.testing.kills.stages import NEVER, STAGES, Stages, spread, stage
from replicator_sdk.testing.source_system import Application, SourceClaims, SourceSystem


class SourceKills(SourceClaims, Stages):
    """Whatever kills the process, the next runs read everything, once."""

    @pytest.fixture
    def system(self) -> SourceSystem:
        """The source under test; override it."""
        raise NotImplementedError("a subclass of SourceKills must define the fixture `system`")

    def test_a_kill_at_any_failpoint_is_recovered_from(self, system: SourceSystem, tmp_path: Path) -> None:
        """Killed at each registered failpoint, when it comes there first, last and between, the next run reads the rest,
        and two more do with changes and a change of structure before each.
        """
        found = self._trial(system, tmp_path, "names", {})
        armed = ",".join(f"{point}=kill@{NEVER}" for point in found)
        passed = self._trial(system, tmp_path, "passes", {"REPLICATOR_FAILPOINTS": armed})
        for point in sorted(passed.keys() - {"lines"} - self.unreached_failpoints):
            at_step(f"two runs that are not killed, at {point}")
            with comparing("how often a run passes the failpoint and at least once"):
                assert passed[point] > 0
            for number in spread(passed[point], self.kills_of_a_failpoint):
                self._kill(system, tmp_path, f"{point}_{number}", {"REPLICATOR_FAILPOINTS": f"{point}=kill@{number}"})

    def test_a_kill_at_a_random_line_is_recovered_from(self, system: SourceSystem, tmp_path: Path) -> None:
        """Killed at lines of the plugin chosen at random, the next run reads the rest, and two more do with changes and
        a change of structure before each.
        """
        lines = self._trial(system, tmp_path, "lines", {LINE: "0"})["lines"]
        for line in random.Random(lines).sample(range(1, lines + 1), min(lines, self.random_kills)):  # noqa: S311
            self._kill(system, tmp_path, f"line_{line}", {LINE: str(line)}, must=False)

    def _trial(
        self, system: SourceSystem, folder: Path, name: str, environment: Mapping[str, str]
    ) -> Mapping[str, int]:
        """How often a process that is not killed passes each failpoint, and how many lines of the plugin: the most of two."""
        runs = _Runs(self, system, folder, name)
        first = runs.run(environment)
        runs.app.execute_all(stage(runs.app.history, 1))
        second = runs.run(environment)
        for ended in (first, second):
            with comparing("the exit code of a run that is not killed and 0"):
                assert ended.status == 0, ended.output
        assert first.passed is not None
        assert second.passed is not None
        most = {name: max(count, second.passed.failpoints[name]) for name, count in first.passed.failpoints.items()}
        return {**most, "lines": max(first.passed.lines, second.passed.lines)}

    def _kill(
        self, system: SourceSystem, folder: Path, name: str, environment: Mapping[str, str], *, must: bool = True
    ) -> None:
        """Kill the run that copies the tables, or else the next one; then make three runs."""
        runs = _Runs(self, system, folder, name)
        killed = runs.run(environment).was_killed
        if killed:
            runs.must_end_well(f"the run after the kill at {name}, while the source rests")
        runs.app.execute_all(stage(runs.app.history, 1))
        if not killed:
            at_step(f"the run that is killed at {name}")
            ended = runs.run(environment)
            with comparing(f"the end of the process and SIGKILL at {name}"):
                assert ended.was_killed or (ended.status == 0 and not must), ended.output
        for number in STAGES:
            if number > 1:
                runs.app.execute_all(stage(runs.app.history, number))
            runs.must_end_well(f"run {number} after the kill at {name}")
            runs.compare()


class _Runs:
    """Processes that go on with one source.

    Attributes:
        app: What changes the source.
    """

    def __init__(self, claims: SourceKills, system: SourceSystem, folder: Path, name: str) -> None:
        plain = "".join(c if c.isalnum() else "_" for c in name)
        self._claims, self._system, self._path = claims, system, folder / f"{plain}.job"
        self.app = Application(system, claims._history(), f"{plain}_")  # noqa: SLF001 - of one module's classes
        self._schemas = self.app.describe()

    @property
    def _file(self) -> Path:
        return self._path.with_suffix(".stored")

    def run(self, environment: Mapping[str, str]) -> Ended:
        """Read everything that is committed by now, in a process."""
        source, claims = self._system.source, self._claims
        job = Job(
            type(source),
            source.config,
            self._schemas,
            source.latest_offset(),
            claims.has_snapshots,
            self._file,
            claims.wait_seconds,
        )
        return run_child(
            "replicator_sdk.testing.kills.source_process", job, self._path, environment, seconds=claims.seconds
        )

    def must_end_well(self, step: str) -> None:
        """A run that is not killed."""
        at_step(step)
        ended = self.run({})
        with comparing("the exit code of the run and 0"):
            assert ended.status == 0, ended.output

    def compare(self) -> None:
        """What was read, what is at the source, and what the application made."""
        stored = Stored.load(self._file)
        for table, meant in self.app.simulator.reference.tables.items():
            found, there = stored.reference.tables[table], self._system.read_table(meant.schema)
            assert_same(f"the rows of {table} at the source and as read", difference(meant.schema, there, found.rows))
            compared = f"the rows of {table} as the application made them and at the source"
            assert_same(compared, difference(meant.schema, meant.rows, there))
