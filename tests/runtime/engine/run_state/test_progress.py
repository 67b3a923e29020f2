"""What people see: states, percent, rates and lag."""

from __future__ import annotations

import time

import pytest

from replicator_runtime.engine.run_state.progress import Progress
from replicator_runtime.engine.tables.table_state import TableState
from replicator_sdk import TableId

A, B, C = TableId("db", "a"), TableId("db", "b"), TableId("db", "c")


@pytest.fixture(autouse=True)
def stopped_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now)


def seconds_ago(seconds: float) -> int:
    """A time in µs since 1970."""
    return int((time.time() - seconds) * 1e6)


def lags(progress: Progress) -> dict[TableId, float | None]:
    """By table, in whole seconds."""
    return {t.table: None if t.lag_seconds is None else round(t.lag_seconds) for t in progress.snapshot().tables}


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


@pytest.mark.parametrize("how", ["an attempt failed", "the source says so"])
def test_lag_rises_while_the_source_cannot_be_read(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now)
    progress = Progress()
    progress.set_table(A, TableState.REPLICATING)
    progress.set_phase("streaming")
    progress.read(True, -1, frozenset())
    if how == "an attempt failed":
        progress.set_phase("retrying")
    else:
        progress.source_error = OSError("unreachable")
    now += 40
    assert (progress.snapshot().lag_seconds, lags(progress)) == (40.0, {A: 40})


def test_a_tables_lag_is_its_own() -> None:
    progress = Progress()
    progress.set_phase("streaming")
    for table in (A, B, C):
        progress.set_table(table, TableState.REPLICATING)
        progress.applied(table, 1, seconds_ago(500))
    progress.set_table(C, TableState.FAILING)
    progress.read(False, seconds_ago(30), frozenset({A}))
    assert lags(progress) == {A: 30, B: 0, C: 500}


def test_a_run_that_has_ended_has_no_lag_and_says_when_it_was_current() -> None:
    progress = Progress()
    progress.set_table(A, TableState.REPLICATING)
    progress.read(True, -1)
    before = progress.snapshot().current_at
    progress.set_phase("done")
    view = progress.snapshot()
    assert (view.lag_seconds, view.tables[0].lag_seconds) == (None, None)
    assert view.current_at == before
    assert before is not None


def test_tables_that_exchange_names_keep_what_is_known_of_them() -> None:
    progress, a, b = Progress(), TableId("db", "a"), TableId("db", "b")
    for table, rows in ((a, 3), (b, 5)):
        progress.set_table(table, TableState.REPLICATING)
        progress.applied(table, rows, 0)
    progress.rename_tables({a: b, b: a})
    progress.set_table(a, TableState.REPLICATING)
    assert {view.table: view.rows for view in progress.snapshot().tables} == {a: 5, b: 3}


def test_applied_rows_make_a_rate() -> None:
    progress = Progress()
    progress.set_table(A, TableState.REPLICATING)
    progress.applied(A, 100, 1)
    view = progress.snapshot()
    assert view.tables[0].rows == 100
    assert view.rows_per_second > 0


def test_what_a_run_does_before_its_stream_is_shown_until_it_is_done_or_fails() -> None:
    progress, shown = Progress(), ""
    try:
        with progress.doing("starts the target"):
            shown = progress.snapshot().doing
            raise ValueError("no answer")
    except ValueError:
        pass
    assert (shown, progress.snapshot().doing) == ("starts the target", "")
