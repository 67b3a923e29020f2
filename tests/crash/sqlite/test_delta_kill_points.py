"""Three runs after a kill at each of Delta's named points end equal, and a next run without a part of the recovery does harm.

The points are tried one after the other on one replicator: each run recovers from the kill before it, then dies at the next
point. What each kill left is copied, twice; the runs that follow are all in one process, with one Spark.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.crash import kill_points
from tests.crash.kill_points import Twin
from tests.crash.kills import killed
from tests.crash.one_process import OneProcess
from tests.crash.orphans import unnamed_files
from tests.crash.sqlite.conftest import MakePair
from tests.crash.sqlite.pair import Pair
from tests.depth import some


@pytest.mark.timeout(900)
def test_three_runs_after_a_kill_at_every_point_of_delta_are_equal(make_pair: MakePair, tmp_path: Path) -> None:
    pair, left = make_pair(delta=True), LeftByKills(make_pair)
    pair.replicator.source = ("sqlite", {**pair.replicator.source[1], "chunkRows": 40})
    for point, twin in some(list(kill_points.DELTA_AT_THE_BEGINNING.items()), 1, name="beginning"):
        left.before_kill(pair)
        pair.kill_at(point)
        left.after_kill(pair, twin, point)
    pair.run_until_current()
    assert pair.differences() == {}
    left.without_kill(pair)
    for number, (point, twin) in enumerate(some(list(kill_points.DELTA_ON_THE_WAY.items()), 1, name="on the way")):
        pair.change_rows(20)
        if "ddl" in point:
            pair.database.run(f"ALTER TABLE customer ADD COLUMN city_{number} TEXT DEFAULT 'Rome'")
        left.before_kill(pair)
        pair.kill_at(point)
        left.after_kill(pair, twin, point)
    with OneProcess(tmp_path / "process", shares_java=True) as process:
        left.assert_harm(process)
        left.assert_recovered(process)


@pytest.mark.timeout(900)
def test_three_runs_after_a_kill_of_a_copy_in_one_commit_are_equal(make_pair: MakePair, tmp_path: Path) -> None:
    """Each point is tried on a new replicator, since the kill before leaves a plan, and a plan goes on in steps."""
    left = LeftByKills(make_pair)
    for point, twin in some(list(kill_points.DELTA_AT_ONCE.items()), 1, name="at once"):
        pair = make_pair(delta=True, name=point)
        left.before_kill(pair)
        pair.kill_at(point)
        left.after_kill(pair, twin, f"{point} killed")
    whole = make_pair(delta=True, name="whole")
    whole.run_until_current()
    assert whole.differences() == {}
    left.without_kill(whole)
    with OneProcess(tmp_path / "process", shares_java=True) as process:
        left.assert_harm(process)
        left.assert_recovered(process)


@pytest.mark.timeout(1800)
def test_three_runs_after_a_kill_at_every_point_of_maintenance_are_equal(make_pair: MakePair, tmp_path: Path) -> None:
    pair, left = make_pair(delta=True), LeftByKills(make_pair)
    pair.run_until_current()
    left.without_kill(pair)
    often = {"optimizeIntervalSeconds": 1, "vacuumIntervalSeconds": 1, "vacuumRetentionHours": 1}
    pair.replicator.lake_settings = often
    for point, twin in some(list(kill_points.DELTA_IN_MAINTENANCE.items()), 1, name="maintenance"):
        left.before_kill(pair)
        _kill_in_maintenance(pair, point)
        left.after_kill(pair, twin, point)
    with OneProcess(tmp_path / "process", shares_java=True) as process:
        left.assert_harm(process)
        left.assert_recovered(process)


def _kill_in_maintenance(pair: Pair, point: str) -> None:
    running = pair.start(point=point)
    until = time.monotonic() + 300
    while running.process.poll() is None and time.monotonic() < until:  # each batch makes files to put together
        pair.change_rows(20)
        time.sleep(0.5)
    killed(running, point)


class LeftByKills:
    """Copies of what each kill left: one to recover, the other, its twin, to go on from without a part of the recovery."""

    def __init__(self, make_pair: MakePair) -> None:
        self._make_pair = make_pair
        self._orphans: set[Path] = set()
        self._killed: list[Pair] = []
        self._twins: list[tuple[Pair, Twin]] = []
        self._not_killed: Pair

    def before_kill(self, pair: Pair) -> None:
        """Note the files that earlier kills left."""
        self._orphans = _orphans(pair)

    def after_kill(self, pair: Pair, twin: Twin, point: str) -> None:
        """Change rows; copy what the kill left."""
        pair.change_rows()
        self._killed.append(self._copy(pair, point))
        self._twins.append((self._copy(pair, f"{point} twin"), twin))

    def without_kill(self, pair: Pair) -> None:
        """Copy a pair that is not killed: there the part that only Delta has does no harm when removed."""
        self._orphans = _orphans(pair)
        self._not_killed = self._copy(pair, "not killed")
        self._not_killed.change_rows()

    def _copy(self, pair: Pair, name: str) -> Pair:
        """A copy without what earlier kills left, as far as the killed run has not discarded it."""
        other = self._make_pair(delta=True, like=pair, name=name)
        for path in self._orphans:
            (other.replicator.lake / path).unlink(missing_ok=True)
        return other

    def assert_harm(self, process: OneProcess) -> None:
        """The next run of each twin does harm."""
        assert process.run(self._not_killed.replicator.document(), "orphans") == ""
        assert self._not_killed.differences() == {}
        for other, twin in self._twins:
            other.assert_harm(twin, process.run(other.replicator.document(), twin.removed))

    def assert_recovered(self, process: OneProcess) -> None:
        """Three runs of each end equal."""
        for pair in self._killed:
            pair.assert_recovered(process)


def _orphans(pair: Pair) -> set[Path]:
    lake = pair.replicator.lake
    return {path.relative_to(lake) for table in lake.glob("main/*") for path in unnamed_files(table)}
