"""A process killed at any named place leaves something to go on from: the next runs end equal, nothing lost or doubled.

Three runs follow each kill, with changes of rows and structure between them. Each kill has a twin: the same left behind, and a next run without the one part of the recovery that mends it, which must do
harm. Most places belong to engine and state and are tried with a target that needs no Spark. Delta's own are tried one
after the other on one replicator: each run recovers from the kill before it, then dies at the next place.
"""

from __future__ import annotations

import importlib
import json
import pkgutil
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

import replicator_runtime
import replicator_source_postgres
import replicator_source_sqlite
import replicator_state
import replicator_target_delta
from replicator_sdk import failpoint
from tests.crash import places
from tests.crash.breakages import BREAKAGES, unnamed_files
from tests.crash.conftest import ENTRY, MakePair, Pair, killed
from tests.crash.places import Twin
from tests.end_to_end.replicator import COMMAND, Ended, Running
from tests.services.forks import fork
from tests.services.spark.session import INTERPRETER


def test_no_named_place_is_left_out() -> None:
    """A place that somebody registers without adding it here fails this test. BigQuery's own are tried beside that target's tests."""
    rooms = (
        replicator_runtime,
        replicator_source_postgres,
        replicator_source_sqlite,
        replicator_state,
        replicator_target_delta,
    )
    for room in rooms:
        for module in pkgutil.walk_packages(room.__path__, room.__name__ + "."):
            importlib.import_module(module.name)
    tried = {place for moment in places.ALL for place in moment} | places.OF_SLICES | places.OF_TAKE_OVER
    assert {p for p in failpoint.registered() if not p.startswith(("test.", "bigquery.", "merge_flush."))} | {
        "cellar.commit.before",
        "cellar.commit.after",
    } == tried


def test_every_part_of_the_recovery_is_what_mends_some_place() -> None:
    beside = {restructure.twin.broken for restructure in places.BESIDE_STRUCTURE.values()}
    assert {twin.broken for moment in places.ALL for twin in moment.values()} | beside == set(BREAKAGES)


def both(found: Mapping[str, Twin]) -> pytest.MarkDecorator:
    """Parameters: each place and its twin."""
    return pytest.mark.parametrize(("point", "twin"), found.items(), ids=found)


@both(places.AT_THE_BEGINNING)
def test_a_kill_at_the_beginning_is_mended_by_the_next_run(point: str, twin: Twin, make_pair: MakePair) -> None:
    pair = make_pair()
    pair.kill_at(point)
    is_mended_by(pair, twin, make_pair)


@both(places.ON_THE_WAY)
def test_a_kill_on_the_way_is_mended_by_the_next_run(
    point: str, twin: Twin, changed_pair: Pair, make_pair: MakePair
) -> None:
    pair = make_pair(like=changed_pair)
    pair.kill_at(point)
    if not twin.from_the_start:
        is_mended_by(pair, twin, make_pair)
        return
    pair.trade()
    pair.assert_mended()
    other = make_pair(like=changed_pair, broken=twin.broken, name="twin")
    other.kill_at(point)
    other.trade()
    other.assert_harm(twin, other.replicator.run("--until-current"))


@both(places.LATER)
def test_a_kill_after_some_seconds_is_mended_by_the_next_run(point: str, twin: Twin, make_pair: MakePair) -> None:
    pair = make_pair(broken="soon")
    killed(pair.start(point=point), point)
    pair.replicator.command = COMMAND
    is_mended_by(pair, twin, make_pair)


def is_mended_by(pair: Pair, twin: Twin, make_pair: MakePair) -> None:
    """What the kill left becomes equal by the next run, unless that lacks a part of the recovery."""
    pair.trade()
    other = make_pair(like=pair, broken=twin.broken, name="twin")
    other.assert_harm(twin, other.replicator.run("--until-current"))
    pair.assert_mended()


@pytest.mark.parametrize("name", places.BESIDE_STRUCTURE)
def test_a_kill_beside_a_change_of_structure_is_mended_for_good(name: str, make_pair: MakePair) -> None:
    """The target has the change, the run ends before it notes anything more; harm may come with a later run only."""
    point, restructure = "engine.ddl.after_apply", places.BESIDE_STRUCTURE[name]
    pair = make_pair()
    pair.recover()
    pair.shop.run(*restructure.statements)
    other = make_pair(like=pair, broken=restructure.twin.broken, name="twin")
    for each in (pair, other):
        each.kill_at(point)
        each.shop.run(*restructure.later)
        each.trade()
    for _ in range(restructure.good_runs):
        other.recover()
        other.trade()
    other.assert_harm(restructure.twin, other.replicator.run("--until-current"))
    pair.assert_mended()


@pytest.mark.parametrize("broken", sorted({*BREAKAGES} - {"orphans"}))
def test_where_nothing_is_killed_no_broken_part_is_missed(broken: str, make_pair: MakePair) -> None:
    """What the twins see comes from the kills; for `orphans` see the test of Delta's places."""
    pair = make_pair(broken=broken)
    running = pair.start()
    running.said("streaming", 60)
    pair.change_everything()
    deadline = time.monotonic() + 60
    while pair.differences() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert running.stop().status == 143  # asked to, by SIGTERM
    assert pair.differences() == {}


@pytest.mark.timeout(600)
def test_kills_at_every_place_of_delta_are_mended_by_the_next_run(make_pair: MakePair) -> None:
    pair, left = make_pair(delta=True), LeftOfDelta(make_pair)
    for point, twin in places.DELTA_AT_THE_BEGINNING.items():
        left.before(pair)
        pair.kill_at(point)
        left.after(pair, twin, point)
    pair.recover()
    assert pair.differences() == {}
    left.calm(pair)
    for number, (point, twin) in enumerate(places.DELTA_ON_THE_WAY.items()):
        pair.trade(20)
        if "ddl" in point:
            pair.shop.run(f"ALTER TABLE customer ADD COLUMN city_{number} TEXT DEFAULT 'Rome'")
        left.before(pair)
        pair.kill_at(point)
        left.after(pair, twin, point)
    pair.replicator.lake_settings = {"optimizeIntervalSeconds": 1}
    for point, twin in places.DELTA_IN_MAINTENANCE.items():
        left.before(pair)
        running = pair.start(point=point)
        until = time.monotonic() + 120
        while running.process.poll() is None and time.monotonic() < until:  # each batch makes files to put together
            pair.trade(20)
            time.sleep(0.5)
        killed(running, point)
        left.after(pair, twin, point)
    pair.replicator.lake_settings = {}
    pair.assert_mended()
    left.assert_harm()


class LeftOfDelta:
    """What each kill left, copied aside, to go on from without a part of the recovery: all in one process at the end."""

    def __init__(self, make_pair: MakePair) -> None:
        self._make_pair = make_pair
        self._orphans: set[Path] = set()
        self._twins: list[tuple[Pair, Twin]] = []
        self._calm: Pair

    def before(self, pair: Pair) -> None:
        """A kill follows; what kills before it left is not its doing."""
        self._orphans = _orphans(pair)

    def after(self, pair: Pair, twin: Twin, name: str) -> None:
        """Keep what the kill left, and what the shop does then."""
        pair.trade()
        self._twins.append((self._copy(pair, name), twin))

    def calm(self, pair: Pair) -> None:
        """Keep a pair that is not killed: the part that only Delta has is not missed there."""
        self._orphans = _orphans(pair)
        self._calm = self._copy(pair, "calm")
        self._calm.trade()

    def _copy(self, pair: Pair, name: str) -> Pair:
        other = self._make_pair(delta=True, like=pair, name=name)
        for path in self._orphans:
            (other.replicator.lake / path).unlink()
        (other.replicator.folder / "pipeline.json").write_text(json.dumps(other.replicator.document()))
        return other

    def assert_harm(self) -> None:
        """Go on from all that was left."""
        runs = [(self._calm, "orphans"), *((other, twin.broken) for other, twin in self._twins)]
        replicator, log = self._calm.replicator, self._calm.replicator.folder / "twins.log"
        arguments = [f"{broken}={other.replicator.folder}" for other, broken in runs]
        process = fork([*ENTRY, "each", *arguments], log=log, environment={**INTERPRETER, **replicator.environment})
        ended = Running(process, log).wait()
        assert ended.status == 0, ended.messages
        assert self._calm.differences() == {}
        for other, twin in self._twins:
            other.assert_harm(twin, _ended(other.replicator.folder))


def _orphans(pair: Pair) -> set[Path]:
    lake = pair.replicator.lake
    return {path.relative_to(lake) for table in lake.glob("main/*") for path in unnamed_files(table)}


def _ended(folder: Path) -> Ended:
    """What one of the runs of `entry.py each` left to read."""
    said = (folder / "twin.log").read_text()
    return Ended(int((folder / "twin.status").read_text()), said, json.loads(said))
