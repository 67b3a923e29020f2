"""What people see: states, percent, rates and lag."""

from __future__ import annotations

import time

from replicator_runtime.engine.run_state.progress import Progress
from replicator_runtime.engine.tables.table_state import TableState
from replicator_sdk import TableId

A = TableId("db", "a")


def test_a_snapshots_percent_follows_its_chunks_and_ends_with_it() -> None:
    progress = Progress()
    progress.set_table(A, TableState.SNAPSHOTTING)
    progress.snapshot_chunks(A, 0, 0, 4)
    progress.snapshot_chunks(A, 500, 2, 4)
    [view] = progress.snapshot().tables
    assert (view.snapshot_percent, view.rows) == (50.0, 500)
    assert view.snapshot_seconds_left is not None
    progress.set_table(A, TableState.REPLICATING)
    [view] = progress.snapshot().tables
    assert (view.snapshot_percent, view.rows) == (None, 0)


def test_lag_is_the_age_of_the_oldest_change_not_yet_applied() -> None:
    progress = Progress()
    assert progress.snapshot().lag_seconds is None
    progress.read(caught_up=False, source_timestamp=int((time.time() - 30) * 1e6))
    lag = progress.snapshot().lag_seconds
    assert lag is not None
    assert 29 < lag < 40
    progress.read(caught_up=True, source_timestamp=-1)
    assert progress.snapshot().lag_seconds == 0.0


def test_applied_rows_make_a_rate() -> None:
    progress = Progress()
    progress.set_table(A, TableState.REPLICATING)
    progress.applied(A, 100, 1)
    view = progress.snapshot()
    assert view.tables[0].rows == 100
    assert view.rows_per_second > 0
