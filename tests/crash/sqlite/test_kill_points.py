"""A process killed at any named point leaves something to go on from: the next runs end equal, nothing lost or doubled.

Three runs follow each kill, with changes of rows and structure between them. Each kill has a twin: the same state after the kill, and a
next run without the one part of the recovery that the kill needs, which must do harm. These points belong to engine and state and
are tried with a target that needs no Spark; for Delta's own see `test_delta_kill_points.py`.
"""

from __future__ import annotations

import importlib
import pkgutil
import time
from collections.abc import Mapping

import pytest

import replicator_runtime
import replicator_source_kafka
import replicator_source_postgres
import replicator_source_sqlite
import replicator_state
import replicator_target_delta
from replicator_sdk import failpoint
from tests.crash import kill_points
from tests.crash.kill_points import Twin
from tests.crash.kills import killed
from tests.crash.removed_recovery import PARTS
from tests.crash.sqlite.conftest import MakePair
from tests.crash.sqlite.pair import Pair
from tests.end_to_end.replicator import COMMAND


def test_no_named_point_is_left_out() -> None:
    """A point that is registered and not added here fails this test. BigQuery's own are tried beside that target's tests."""
    packages = (
        replicator_runtime,
        replicator_source_kafka,
        replicator_source_postgres,
        replicator_source_sqlite,
        replicator_state,
        replicator_target_delta,
    )
    for package in packages:
        for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
            if not module.name.endswith(".migrations.env"):  # alembic alone can run it
                importlib.import_module(module.name)
    tried = {point for moment in kill_points.ALL for point in moment}
    tried |= kill_points.OF_LATE_TABLES
    tried |= kill_points.OF_SLICES | kill_points.OF_RENAMES | kill_points.OF_DATABASES | kill_points.OF_REMAINS
    tried |= kill_points.OF_REQUESTS | kill_points.OF_RESET | kill_points.OF_PLANS
    tried |= kill_points.OF_ONLY | kill_points.OF_REPAIR | kill_points.OF_HEAL
    tried |= kill_points.OF_REWIND | kill_points.OF_RESET_OF_LOGS
    tried |= kill_points.OF_DELETE | kill_points.OF_DELETE_AT_POSTGRES | kill_points.OF_SLOT
    tried |= kill_points.OF_PAUSES | kill_points.OF_RESUMES | kill_points.OF_LETTERS | kill_points.OF_HOLDS
    tried |= kill_points.OF_OLDER_STATES
    tried |= kill_points.OF_DROP | kill_points.OF_READER | kill_points.OF_LOST_TOPICS | kill_points.OF_ARCHIVES
    tried |= kill_points.OF_LONG_FAILURES | kill_points.OF_VERSIONS | kill_points.OF_STARTS
    tried |= kill_points.OF_ARCHIVED_RENAMES | kill_points.OF_SUPERVISION | kill_points.OF_OPERATIONS
    elsewhere = (
        "test.",
        "bigquery.",
        "iceberg.",
        "merge_flush.",
        "change_files.",
        "sqlite_files.",
    )  # targets and strangers' plugins
    assert {p for p in failpoint.registered() if not p.startswith(elsewhere)} | {
        "file.commit.before",
        "file.commit.after",
    } == tried


def test_every_part_of_the_recovery_is_needed_at_some_point() -> None:
    beside = {restructure.twin.removed for restructure in kill_points.BESIDE_STRUCTURE.values()}
    at_points = {twin.removed for moment in kill_points.ALL for twin in moment.values()}
    elsewhere = kill_points.PARTS_FOR_JAVA | kill_points.PARTS_OF_RENAMES | kill_points.PARTS_OF_REMAINS
    elsewhere |= kill_points.PARTS_OF_REQUESTS | kill_points.PARTS_OF_PLANS | kill_points.PARTS_OF_LANES
    elsewhere |= kill_points.PARTS_OF_ARCHIVES | kill_points.PARTS_OF_REWINDS
    assert at_points | beside | elsewhere == set(PARTS)


def both(found: Mapping[str, Twin]) -> pytest.MarkDecorator:
    """Parameters: each point and its twin."""
    return pytest.mark.parametrize(("point", "twin"), found.items(), ids=found)


@both(kill_points.AT_THE_BEGINNING)
def test_three_runs_after_a_kill_at_the_beginning_are_equal(point: str, twin: Twin, make_pair: MakePair) -> None:
    pair = make_pair()
    pair.kill_at(point)
    assert_recovered(pair, twin, make_pair)


@both(kill_points.ON_THE_WAY)
def test_three_runs_after_a_kill_on_the_way_are_equal(
    point: str, twin: Twin, changed_pair: Pair, make_pair: MakePair
) -> None:
    pair = make_pair(like=changed_pair)
    pair.kill_at(point)
    if not twin.from_the_start:
        assert_recovered(pair, twin, make_pair)
        return
    pair.change_rows()
    pair.assert_recovered()
    other = make_pair(like=changed_pair, removed=twin.removed, name="twin")
    other.kill_at(point)
    other.change_rows()
    other.assert_next_run_harms(twin)


@both(kill_points.OF_TAKE_OVER)
def test_three_runs_after_a_kill_while_a_run_takes_over_from_a_killed_one_are_equal(
    point: str, twin: Twin, changed_pair: Pair, make_pair: MakePair
) -> None:
    """The harder history: the first of the two kills falls between data and offset, and no run ends between them."""
    pair = make_pair(like=changed_pair)
    pair.kill_at("engine.offset.before_save")
    pair.change_rows()
    pair.kill_at(point)
    assert_recovered(pair, twin, make_pair)


@both(kill_points.LATER)
def test_three_runs_after_a_kill_some_seconds_later_are_equal(point: str, twin: Twin, make_pair: MakePair) -> None:
    pair = make_pair(removed="soon")
    killed(pair.start(point=point), point)
    pair.replicator.command = COMMAND
    assert_recovered(pair, twin, make_pair)


def assert_recovered(pair: Pair, twin: Twin, make_pair: MakePair) -> None:
    """What the kill left becomes equal, unless the next run lacks a part of the recovery."""
    pair.change_rows()
    other = make_pair(like=pair, removed=twin.removed, name="twin")
    other.assert_next_run_harms(twin)
    pair.assert_recovered()


@pytest.mark.parametrize("name", kill_points.BESIDE_STRUCTURE)
def test_three_runs_after_a_kill_beside_a_change_of_structure_are_equal(name: str, make_pair: MakePair) -> None:
    """The target has the change, the run ends before it notes anything more; harm may come with a later run only."""
    point, restructure = "engine.ddl.after_apply", kill_points.BESIDE_STRUCTURE[name]
    pair = make_pair()
    pair.run_until_current()
    pair.database.run(*restructure.statements)
    other = make_pair(like=pair, removed=restructure.twin.removed, name="twin")
    for each in (pair, other):
        each.kill_at(point)
        each.database.run(*restructure.later)
        each.change_rows()
    for _ in range(restructure.good_runs):
        other.run_until_current()
        other.change_rows()
    other.assert_next_run_harms(restructure.twin)
    pair.assert_recovered()


@pytest.mark.parametrize("removed", sorted({*PARTS} - {"orphans"}))
def test_where_nothing_is_killed_a_removed_part_does_no_harm(removed: str, make_pair: MakePair) -> None:
    """What the twins see comes from the kills; for `orphans` see the test of Delta's points."""
    pair = make_pair(removed=removed)
    running = pair.start()
    running.said("streaming")
    pair.change_everything()
    deadline = time.monotonic() + 180
    while pair.differences() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert running.stop().status == 143  # asked to, by SIGTERM
    assert pair.differences() == {}
