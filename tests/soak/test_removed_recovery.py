"""The soak finds what a replicator does wrong without a part of its recovery: its twin."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.soak.soak import Soak
from tests.soak.sources import Sqlite
from tests.soak.targets import Delta

_SEED = 418
"""Its third round inserts rows, is killed and has no change of structure; the fourth compares."""
_ROUNDS = 6


def test_a_replicator_that_ignores_the_positions_of_its_tables_is_found(tmp_path: Path) -> None:
    """Runs that kill themselves do so when a batch is applied and its offset is not saved; a replay then doubles its rows."""
    kill = "engine.batch.applied=kill"
    soak = Soak(Sqlite(tmp_path), Delta(), tmp_path, _SEED, failpoint=kill, without="progress")
    with pytest.raises(AssertionError, match=r"rows at the source, \d+ at the target; missing 0 \(\), surplus [1-9]"):
        soak.run(_ROUNDS)
    assert soak.stops["failpoint"] == 1
