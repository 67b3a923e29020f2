"""One replicator that is stopped, killed, made to fail and changed in structure for as long as it is wanted to.

An hour of it is meant to be a week: batches are small, so that there are as many commits; maintenance is due every few seconds;
and before each round every file of the target that is older than a few rounds is made days older.
"""

from __future__ import annotations

import math
import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from tests.endurance.measured_targets import MeasuredTarget
from tests.endurance.measures import CYCLE, DELETED_SECONDS, OFFSETS_SECONDS, Sample, cpu_seconds, probe, sample
from tests.services.spark.session import SMALL
from tests.soak.history import History
from tests.soak.runs import Runs
from tests.soak.soak import compared_twice, pipeline, with_databases
from tests.soak.sources import Source

_TEN = (
    "streams",
    "streams",
    "streams",
    "killed",
    "streams",
    "streams",
    "fails",
    "streams",
    "stopped twice",
    "compared",
)
"""How the rounds of each ten end."""
assert len(_TEN) == CYCLE
_BATCH_SECONDS = 0.05
_PROBE_SECONDS = 1.0
# What is kept for some days is kept for some minutes, so that as much goes as comes long before the end.
_SHORT_RETENTION = {"offsets": {"keepDays": OFFSETS_SECONDS / 86400}}
_FEW_MINUTES = {
    "spark.databricks.delta.properties.defaults.deletedFileRetentionDuration": f"interval {DELETED_SECONDS:.0f} seconds"
}


@dataclass
class Endurance:
    """One source into one target.

    Args:
        source: The source; its tables are made here.
        target: The target.
        folder: For state, logs and what the target keeps.
        seed: Of all choices.
        report: Gets a line after each round.
    """

    source: Source
    target: MeasuredTarget
    folder: Path
    seed: int
    report: Callable[[str], None]
    samples: list[Sample] = field(default_factory=list)
    rounds: Counter[str] = field(default_factory=Counter)
    commits: int = 0

    def run(self, rounds: int, seconds: float, commits: int = 0, minutes: float = math.inf) -> None:
        """Run at least so many rounds of so many seconds, and go on until the target has so many commits, or for so many minutes.

        Every tenth round compares source and target, and so does the last.

        Raises:
            AssertionError: When they differ, or a run ends with an error.
        """
        chance = random.Random(self.seed)
        history = History(chance, self.source.dialect)
        for transaction in history.create():
            self.source.execute(transaction)
        self.source.begin()
        runs = Runs(self.folder, forked=False)
        (plugin, properties), target = self.source.begin_replicator(chance), self.target.target.begin(self.folder)
        if "pollIntervalSeconds" in properties:
            properties = {**properties, "pollIntervalSeconds": _BATCH_SECONDS}
        source = (plugin, properties)
        made = pipeline("endurance", self._state, source, target, history, batch_seconds=_BATCH_SECONDS)
        document = with_databases(made, self.source)
        runs.pipeline(
            {**document, **_SHORT_RETENTION, "spark": {"master": "local[2]", "conf": {**SMALL, **_FEW_MINUTES}}}
        )
        number, kind, until = 0, "", time.monotonic() + 60 * minutes
        try:
            while kind != "compared" or number < rounds or (self.commits < commits and time.monotonic() < until):
                kind = "compared" if number == rounds - 1 else _TEN[number % len(_TEN)]
                self._round(runs, history, chance, kind, seconds)
                self.rounds[kind] += 1
                number += 1
        except AssertionError as error:
            raise AssertionError(
                f"seed {self.seed}, round {number + 1} ({kind}), {self.commits} commits\n{error}\nlog: {runs.log}"
            ) from None
        finally:
            runs.kill()

    def _round(self, runs: Runs, history: History, chance: random.Random, kind: str, seconds: float) -> None:
        self.target.make_old()
        began = time.monotonic()
        failpoint = f"engine.table.before_apply=raise@{chance.randint(1, 50)}" if kind == "fails" else ""
        runs.begin(until_current=False, seconds=0.0 if kind == "stopped twice" else seconds, failpoints=failpoint)
        runs.works()
        process = psutil.Process(runs.process_id) if runs.process_id else None
        worked, cpu = time.monotonic(), cpu_seconds(process)
        probes = self._load(history, chance, worked + (1.0 if kind == "stopped twice" else seconds))
        elapsed, committed = time.monotonic() - worked, self.target.new_commits()
        cpu = max(0.0, cpu_seconds(process) - cpu)
        taken = sample(process, elapsed, cpu, committed, self.target.files(), self._state, probes)
        if kind == "killed":
            runs.kill()
        else:
            ended = runs.end()
            assert "error" not in ended, ended
        if kind == "compared":
            self._compare(runs, history)
        if kind != "stopped twice":
            self.samples.append(taken)
        self.commits += committed
        self.report(f"{kind}, {time.monotonic() - began:.0f} s, {self.commits} commits: {taken}")

    def _load(self, history: History, chance: random.Random, until: float) -> list[float]:
        """Changes, as fast as the source takes them, with some changes of structure; returns what `probe` says each second."""
        probes, probe_at = [probe()], time.monotonic() + _PROBE_SECONDS
        for transaction in history.transactions("structure first"):
            self.source.execute(transaction)
        while time.monotonic() < until:
            for transaction in history.transactions("rows"):
                self.source.execute(transaction)
            if time.monotonic() >= probe_at:
                probes.append(probe())
                probe_at = time.monotonic() + _PROBE_SECONDS
            time.sleep(0.01)
        self.source.idle(chance)
        return probes

    def _compare(self, runs: Runs, history: History) -> None:
        self.source.settle()
        runs.begin()
        ended = runs.end()
        assert ended.get("reached"), ended
        compared_twice(self.source, self.target.target, history, runs)

    @property
    def _state(self) -> Path:
        return self.folder / "state"
