"""Three runs find harm that the first run after a kill does not show."""

from __future__ import annotations

import pytest

from tests.crash import kill_points
from tests.crash.sqlite.conftest import MakePair


def test_harm_of_the_second_run_is_found(make_pair: MakePair) -> None:
    """A schema that is not kept before the target has it does harm once rows of the new structure come."""
    change = kill_points.BESIDE_STRUCTURE["column"]
    pair = make_pair(removed=change.twin.removed)
    pair.run_until_current()
    pair.database.run(*change.statements)
    pair.kill_at("engine.ddl.after_apply")
    pair.change_rows()
    pair.run_until_current()
    assert pair.differences() == {}
    with pytest.raises(AssertionError, match=change.twin.harm):
        pair.assert_recovered()


def test_harm_of_the_first_run_is_found(make_pair: MakePair) -> None:
    pair = make_pair(removed="progress")
    pair.run_until_current()
    pair.change_rows()
    pair.kill_at("engine.offset.before_save")
    with pytest.raises(AssertionError, match=r"run 1 after kill 1: .*note"):
        pair.assert_recovered()
