"""A paused table of a log in slices, killed while it is paused and while it is read by itself: three runs after each end equal."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from replicator_state import ReplicatorDirectory
from tests.crash.slices.test_kills import Pair, pair
from tests.crash.three_runs import ThreeRuns
from tests.depth import some

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["pair"]

_WHILE_IT_IS_PAUSED = ("engine.late_table.left",)
_WHILE_IT_IS_READ = ("engine.late_table.applied",)
"""`runtime/engine/slices/test_late_tables.py` tries the others."""


@pytest.mark.timeout(900)
def test_three_runs_after_a_kill_at_any_step_of_a_pause_are_equal(pair: Pair, tmp_path: Path) -> None:
    """One table has a key, the other one none: what is applied twice or left out is seen."""
    requests = ReplicatorDirectory(str(tmp_path / "state"), "default", "shop").requests()
    pair.change_rows()
    pair.copy.run_until_current()
    pair.change_stock()
    pair.copy.run_until_current()  # the saved offset is after the last commits of those that are paused next
    for point in some((*_WHILE_IT_IS_PAUSED, *_WHILE_IT_IS_READ), 1, name="late tables"):
        for table in ("customers", "notes"):
            requests.submit("table.pause", {"tables": [table]})
        if point in _WHILE_IT_IS_PAUSED:
            pair.change_rows()
            pair.process.kill_at(pair.document(), point)
        pair.change_rows()
        pair.change_structure()
        pair.copy.run_until_current()
        assert pair.differences() != []
        for table in ("customers", "notes"):
            requests.submit("table.resume", {"tables": [table]})
        pair.change_rows()
        if point in _WHILE_IT_IS_READ:
            pair.process.kill_at(pair.document(), point)
        ThreeRuns(pair, [pair.copy]).check()
