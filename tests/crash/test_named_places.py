"""A process killed at any named place leaves something to go on from: the next run ends equal, nothing lost or doubled.

Most places belong to engine and state and are tried with a target that needs no Spark. Delta's own are tried one after the
other on one replicator: each run recovers from the kill before it, then dies at the next place.
"""

from __future__ import annotations

import importlib
import pkgutil

import pytest

import replicator_runtime
import replicator_source_postgres
import replicator_source_sqlite
import replicator_state
import replicator_target_delta
from replicator_sdk import failpoint
from tests.crash.conftest import MakePair, Pair, killed

# While a replicator starts anew and copies what is there.
AT_THE_BEGINNING = (
    "state.lease.claimed",
    "state.put.before",
    "state.put.between",
    "state.put.after",
    "state.status.before",
    "state.status.after",
    "state.offset.before_write",
    "state.offset.after_write",
    "engine.offset.before_save",
    "engine.offset.after_save",
    "engine.snapshot.planned",
    "engine.snapshot.chunks_loaded",
    "engine.snapshot.finished",
    "cellar.commit.before",
    "cellar.commit.after",
)
# While it applies changes, among them a change of structure.
ON_THE_WAY = (
    "state.put.between",
    "state.offset.before_write",
    "state.offset.after_write",
    "engine.offset.before_save",
    "engine.offset.after_save",
    "engine.batch.gathered",
    "engine.batch.applied",
    "engine.table.before_apply",
    "engine.table.after_apply",
    "engine.ddl.before_apply",
    "engine.ddl.after_apply",
    "cellar.commit.before",
    "cellar.commit.after",
)
# After some seconds of running.
LATER = ("state.lease.before_renew",)
DELTA_AT_THE_BEGINNING = (
    "delta.snapshot.begun",
    "delta.snapshot.files_written",
    "delta.snapshot.committed",
    "delta.snapshot.finished",
)
DELTA_ON_THE_WAY = (
    "delta.files.written",
    "delta.vectors.written",
    "delta.commit.before",
    "delta.commit.after",
    "delta.ddl.before",
    "delta.ddl.after",
)
DELTA_IN_MAINTENANCE = ("delta.compaction.written",)


def test_no_named_place_is_left_out() -> None:
    """A place that somebody registers without adding it here fails this test."""
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
    tried = {*AT_THE_BEGINNING, *ON_THE_WAY, *LATER, *DELTA_AT_THE_BEGINNING, *DELTA_ON_THE_WAY, *DELTA_IN_MAINTENANCE}
    assert {p for p in failpoint.registered() if not p.startswith("test.")} | {
        "cellar.commit.before",
        "cellar.commit.after",
    } == tried


@pytest.mark.parametrize("point", AT_THE_BEGINNING)
def test_a_kill_at_the_beginning_is_mended_by_the_next_run(point: str, make_pair: MakePair) -> None:
    pair = make_pair()
    pair.kill_at(point)
    pair.trade()
    pair.recover()
    assert pair.differences() == {}


def change_everything(pair: Pair) -> None:
    """Rows, then structure, then rows again."""
    pair.trade()
    pair.shop.run("ALTER TABLE customer ADD COLUMN city TEXT DEFAULT 'Rome'")
    pair.trade()


@pytest.mark.parametrize("point", ON_THE_WAY)
def test_a_kill_on_the_way_is_mended_by_the_next_run(point: str, make_pair: MakePair) -> None:
    pair = make_pair()
    pair.recover()
    change_everything(pair)
    pair.kill_at(point)
    pair.trade()
    pair.recover()
    assert pair.differences() == {}


@pytest.mark.parametrize("point", LATER)
def test_a_kill_after_some_seconds_is_mended_by_the_next_run(point: str, make_pair: MakePair) -> None:
    pair = make_pair()
    killed(pair.start(point=point), point)
    pair.trade()
    pair.recover()
    assert pair.differences() == {}


@pytest.mark.timeout(600)
def test_kills_at_every_place_of_delta_are_mended_by_the_next_run(make_pair: MakePair) -> None:
    pair = make_pair(delta=True)
    for point in DELTA_AT_THE_BEGINNING:
        pair.kill_at(point)
        pair.trade()
    pair.recover()
    assert pair.differences() == {}
    for number, point in enumerate(DELTA_ON_THE_WAY):
        pair.trade(20)
        if "ddl" in point:
            pair.shop.run(f"ALTER TABLE customer ADD COLUMN city_{number} TEXT DEFAULT 'Rome'")
        pair.kill_at(point)
    pair.recover()
    assert pair.differences() == {}
    pair.replicator.lake_settings = {"optimizeIntervalSeconds": 1}
    for point in DELTA_IN_MAINTENANCE:
        running = pair.start(point=point)
        pair.trade(200)
        killed(running, point)
    pair.replicator.lake_settings = {}
    pair.recover()
    assert pair.differences() == {}


# --------------------------------------------------------------- twins: the same with a part of the recovery taken away


def test_without_the_tables_own_progress_a_kill_doubles_rows(make_pair: MakePair) -> None:
    """The twin of the above: what was applied before the offset was saved is applied again."""
    pair = make_pair(broken="progress")
    pair.recover()
    pair.shop.run("INSERT INTO note VALUES ('once')")
    pair.kill_at("engine.offset.before_save")
    pair.recover()
    assert pair.differences() == {"note": 1}


def test_with_the_offset_saved_before_the_data_a_kill_loses_rows(make_pair: MakePair) -> None:
    """The twin of the above: what was in the air is never read again."""
    pair = make_pair(broken="order")
    pair.recover()
    pair.shop.run("INSERT INTO note VALUES ('lost')")
    pair.kill_at("engine.table.before_apply")
    pair.recover()
    assert pair.differences() == {"note": 1}


@pytest.mark.timeout(300)
def test_without_deltas_own_progress_a_kill_doubles_rows(make_pair: MakePair) -> None:
    """The twin for Delta: the check of the position in the table's own last commit is switched off."""
    pair = make_pair(delta=True, broken="progress")
    pair.recover()
    pair.shop.run("INSERT INTO note VALUES ('once')")
    pair.kill_at("delta.commit.after")
    pair.recover()
    assert pair.differences() == {"note": 1}
