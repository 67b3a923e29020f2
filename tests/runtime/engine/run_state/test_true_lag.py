"""The lag is true where a source says nothing: it grows while that does not answer, by the source's clock, and has two parts."""

from __future__ import annotations

import time

import pytest

from replicator_runtime.engine.run_state.progress import SILENT_SECONDS, Progress
from replicator_runtime.engine.tables.table_state import TableState
from replicator_runtime.engine.views.source_view import SourceView
from replicator_sdk import TableId
from replicator_sdk.discovery.source_health import SourceHealth

A, B = TableId("db", "a"), TableId("db", "b")


class Clock:
    """Both clocks of this process, moved by hand."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.passed = 0.0
        now, started = time.time(), time.monotonic()
        monkeypatch.setattr(time, "time", lambda: now + self.passed)
        monkeypatch.setattr(time, "monotonic", lambda: started + self.passed)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


@pytest.fixture
def current(clock: Clock) -> Progress:
    """A run that has applied everything, and goes on saying so."""
    progress = Progress()
    progress.set_phase("streaming")
    for table in (A, B):
        progress.set_table(table, TableState.REPLICATING)
    progress.read(True, -1, frozenset())
    return progress


def answer(progress: Progress, ahead: float | None = None) -> None:
    progress.answered(SourceView(time.time(), SourceHealth(), ahead))


def ago(seconds: float) -> int:
    return int((time.time() - seconds) * 1e6)


def test_lag_grows_while_a_source_does_not_answer_and_is_0_when_it_does(current: Progress, clock: Clock) -> None:
    answer(current)
    for _ in range(4):
        clock.passed += 10
        current.read(True, -1, frozenset())  # the stream finds nothing to do, whatever the reason
    view = current.snapshot()
    assert view.lag_seconds == pytest.approx(40, abs=0.1)
    assert view.read_lag_seconds == pytest.approx(40, abs=0.1)
    assert [t.lag_seconds for t in view.tables] == pytest.approx([40, 40], abs=0.1)
    answer(current)
    assert current.snapshot().lag_seconds == 0
    assert [t.lag_seconds for t in current.snapshot().tables] == [0, 0]


def test_a_source_whose_changes_come_answers(current: Progress, clock: Clock) -> None:
    answer(current)
    clock.passed += 10 * SILENT_SECONDS
    current.heard()
    assert current.snapshot().lag_seconds == 0


def test_a_source_that_was_never_asked_is_taken_for_one_that_answers(current: Progress, clock: Clock) -> None:
    clock.passed += 10 * SILENT_SECONDS
    current.read(True, -1, frozenset())
    assert current.snapshot().lag_seconds == 0


def test_a_late_answer_is_no_outage(current: Progress, clock: Clock) -> None:
    answer(current)
    clock.passed += SILENT_SECONDS - 1
    assert current.snapshot().lag_seconds == 0


@pytest.mark.parametrize("ahead", [-120.0, 90.0])
def test_ages_of_changes_are_by_the_sources_clock(current: Progress, clock: Clock, ahead: float) -> None:
    answer(current, ahead)
    current.read(False, int((time.time() + ahead - 7) * 1e6), None)
    assert current.snapshot().lag_seconds == pytest.approx(7, abs=0.1)


def test_the_part_of_reading_is_what_the_newest_change_read_is_late(current: Progress, clock: Clock) -> None:
    answer(current)
    current.heard()
    current.read(False, ago(50), None, 0, ago(30))
    assert current.snapshot().read_lag_seconds == pytest.approx(30, abs=0.1)
    clock.passed += 5
    answer(current)
    clock.passed += 3
    assert current.snapshot().read_lag_seconds == 0, "nothing comes any more: what waits is the target's"
    assert current.snapshot().lag_seconds == pytest.approx(58, abs=0.1)


def test_an_unknown_lag_stays_unknown(clock: Clock) -> None:
    progress = Progress()
    answer(progress)
    assert (progress.snapshot().lag_seconds, progress.snapshot().read_lag_seconds) == (None, None)


def test_a_copy_is_as_late_as_the_source_that_is_a_copy_itself(current: Progress) -> None:
    current.answered(SourceView(time.time(), SourceHealth(late_seconds=90.0)))
    view = current.snapshot()
    assert (view.lag_seconds, view.read_lag_seconds) == (90.0, 90.0)
    assert [t.lag_seconds for t in view.tables] == [90.0, 90.0]
    answer(current)
    assert current.snapshot().lag_seconds == 0


def test_the_time_left_falls_while_the_source_does_not_answer(current: Progress, clock: Clock) -> None:
    current.answered(SourceView(time.time(), SourceHealth(), seconds_left=60.0))
    clock.passed += 20
    source = current.snapshot().source
    assert source is not None
    assert source.left_now == pytest.approx(40, abs=0.1)
    clock.passed += 600
    assert source.left_now == 0.0


@pytest.mark.parametrize(
    ("left", "retention", "near"),
    [
        (None, 3600.0, False),
        (3000.0, None, True),
        (4000.0, None, False),
        (3000.0, 3600.0, False),
        (1700.0, 3600.0, True),
    ],
)
def test_log_ends_soon_when_half_of_a_short_retention_is_over(
    left: float | None, retention: float | None, near: bool
) -> None:
    source = SourceView(time.time() + 60, SourceHealth(retention_seconds=retention), seconds_left=left)
    assert source.ends_within(3600) is near
