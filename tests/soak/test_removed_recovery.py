"""The soak finds what a replicator does wrong without a part of its recovery: its twin."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.soak.soak import Soak
from tests.soak.sources import Sqlite
from tests.soak.targets import Delta

_PLAN = (("clean", "rows"), ("failpoint", "rows"), ("clean", "rows"))
"""A change of structure would end the batch, and its position be saved, before the kill."""


def test_a_replicator_that_ignores_the_positions_of_its_tables_is_found(tmp_path: Path) -> None:
    """Runs that kill themselves do so when a batch is applied and its offset is not saved; a replay then doubles its rows."""
    kill = "engine.batch.applied=kill"
    soak = Soak(Sqlite(tmp_path), Delta(), tmp_path, 418, failpoint=kill, without="progress", plan=_PLAN)
    with pytest.raises(AssertionError, match=r"rows at the source, \d+ at the target; missing 0 \(\), surplus [1-9]"):
        soak.run(len(_PLAN))
    assert soak.stops["failpoint"] == 1


def test_a_replicator_with_its_whole_recovery_passes_the_same_rounds(tmp_path: Path) -> None:
    soak = Soak(Sqlite(tmp_path), Delta(), tmp_path, 418, failpoint="engine.batch.applied=kill", plan=_PLAN)
    soak.run(len(_PLAN))
    assert soak.stops == {"clean": 2, "failpoint": 1}
