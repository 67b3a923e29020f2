"""A process killed while a renamed table is renamed at the target is followed by three runs that end equal."""

from __future__ import annotations

import pytest

from tests.crash.kill_points import Twin
from tests.crash.kills import harms
from tests.crash.sqlite.conftest import MakePair
from tests.crash.sqlite.pair import Pair

_THERE, _BACK = "ALTER TABLE customer RENAME TO client", "ALTER TABLE client RENAME TO customer"
_COPIED = "table.copied_again"
_AWAY = "UPDATE client SET name = 'renamed' WHERE id < 20"


def killed_beside_a_rename(pair: Pair, point: str) -> None:
    """A pair whose run died at the point; its table has its first name again since."""
    pair.run_until_current()
    pair.change_rows()
    pair.database.run(_THERE, _AWAY)
    pair.kill_at(point)
    pair.database.run("DELETE FROM client WHERE id = 30")


@pytest.mark.parametrize("point", ["engine.rename.saved", "engine.rename.applied"])
def test_three_runs_after_a_kill_beside_a_rename_are_equal(point: str, make_pair: MakePair) -> None:
    pair = make_pair()
    killed_beside_a_rename(pair, point)
    pair.database.run(_BACK)
    pair.change_rows()
    pair.assert_recovered()


def test_without_what_is_stored_of_a_rename_the_next_run_does_not_find_the_table(make_pair: MakePair) -> None:
    pair = make_pair()
    killed_beside_a_rename(pair, "engine.rename.saved")
    make_pair(like=pair, removed="rename", name="twin").assert_next_run_harms(Twin("rename", "RPL-4101"))


def test_a_rename_that_the_target_does_not_know_again_costs_a_copy_of_the_table(make_pair: MakePair) -> None:
    """No row is lost without this part of the recovery; but the rename was in vain."""
    pair = make_pair()
    killed_beside_a_rename(pair, "engine.rename.applied")
    other = make_pair(like=pair, removed="renamed", name="twin")
    assert _COPIED in other.run_until_current().messages
    harms.append("renamed")
    assert _COPIED not in pair.run_until_current().messages


@pytest.mark.timeout(600)
@pytest.mark.parametrize("point", ["delta.rename.moved", "engine.rename.applied"])
def test_three_runs_into_delta_after_a_kill_beside_a_rename_are_equal(point: str, make_pair: MakePair) -> None:
    pair = make_pair(delta=True)
    killed_beside_a_rename(pair, point)
    if point == "delta.rename.moved":
        other = make_pair(delta=True, like=pair, removed="renamed", name="twin")
        other.assert_next_run_harms(Twin("renamed", "RPL-3408"))
    pair.run_until_current()
    assert sorted(path.name for path in (pair.replicator.lake / "main").iterdir()) == ["client", "note"]
    pair.database.run(_BACK)
    pair.change_rows()
    pair.assert_recovered()
