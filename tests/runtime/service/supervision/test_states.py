"""What follows from what is wanted of a pipeline and from how its newest process has ended."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from ulid import ULID

from replicator_runtime.service.supervision.records import next_id
from replicator_runtime.service.supervision.states import (
    Newest,
    State,
    Step,
    Wanted,
    backoff_seconds,
    decide,
    state_of,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def newest(
    exit_code: int | None = None,
    *,
    ended: bool = True,
    dismissed: bool = False,
    restarts: int = 0,
    lived: float = 1.0,
    command: str = "run",
    error: str = "",
) -> Newest:
    """A process that has ended just now, or lives."""
    started = NOW - timedelta(seconds=lived)
    end = NOW if ended else None
    return Newest(str(ULID()), "local", "", command, 1, started, end, exit_code, restarts, dismissed, error)


@pytest.mark.parametrize("code", [2, 3, 5, 6, 7, 8])
def test_what_would_fail_again_in_the_same_way_is_not_restarted(code: int) -> None:
    found = decide(Wanted.STARTED, newest(code), NOW + timedelta(days=1))
    assert (found.step, found.again_at) == (Step.NOTHING, None)
    assert state_of(Wanted.STARTED, newest(code), NOW) is State.FAILED


def test_a_start_while_another_process_has_the_lease_is_tried_again() -> None:
    """A command at a terminal has it for minutes, a run that was killed on another host for half a minute."""
    ended = newest(3, error='{"code": "RPL-7130"}')
    assert decide(Wanted.STARTED, ended, NOW + timedelta(minutes=1)).step is Step.START
    assert state_of(Wanted.STARTED, ended, NOW) is State.BACKOFF
    deleting = newest(3, command="delete", error='{"code": "RPL-7130"}')
    assert decide(Wanted.DELETING, deleting, NOW + timedelta(minutes=1)).step is Step.START


def test_a_clock_that_was_ahead_keeps_no_pipeline_down() -> None:
    again_at = decide(Wanted.STARTED, newest(4), NOW - timedelta(days=365)).again_at
    assert again_at is not None
    assert again_at <= NOW - timedelta(days=365) + timedelta(minutes=6)


@pytest.mark.parametrize("code", [1, 4, 127, 130, 137, 139, 143, None])
def test_any_other_end_that_no_one_asked_for_is_followed_by_a_start(code: int | None) -> None:
    ended = newest(code)
    assert decide(Wanted.STARTED, ended, NOW).again_at == ended.again_at()
    assert decide(Wanted.STARTED, ended, ended.again_at()).step is Step.START
    assert state_of(Wanted.STARTED, ended, NOW) is State.BACKOFF


def test_a_run_that_is_done_is_stopped() -> None:
    assert decide(Wanted.STARTED, newest(0), NOW + timedelta(days=1)).step is Step.NOTHING
    assert state_of(Wanted.STARTED, newest(0), NOW) is State.STOPPED


@pytest.mark.parametrize("code", [0, 3, 4, 130, 137, 143, None])
def test_however_a_run_ended_that_was_asked_to_it_is_stopped_or_started_at_once(code: int | None) -> None:
    ended = newest(code, dismissed=True)
    assert decide(Wanted.STARTED, ended, NOW).step is Step.START
    assert decide(Wanted.STOPPED, ended, NOW).step is Step.NOTHING
    assert state_of(Wanted.STOPPED, ended, NOW) is State.STOPPED
    assert state_of(Wanted.STARTED, ended, NOW) is State.WAITING


def test_what_lives_is_ended_where_that_is_wanted_and_left_alone_else() -> None:
    assert decide(Wanted.STARTED, newest(ended=False), NOW).step is Step.NOTHING
    assert decide(Wanted.STOPPED, newest(ended=False), NOW).step is Step.STOP
    assert decide(Wanted.STARTED, newest(ended=False, dismissed=True), NOW).step is Step.STOP
    assert decide(Wanted.DELETING, newest(ended=False), NOW).step is Step.STOP
    assert decide(Wanted.DELETING, newest(ended=False, command="delete"), NOW).step is Step.NOTHING


def test_a_pipeline_is_removed_once_deleting_is_done_or_there_is_nothing_to_delete() -> None:
    assert decide(Wanted.DELETING, None, NOW).step is Step.START
    assert decide(Wanted.DELETING, newest(7), NOW).step is Step.START
    assert decide(Wanted.DELETING, newest(0, command="delete"), NOW).step is Step.REMOVE
    never_ran = newest(3, command="delete", error='{"code": "RPL-1242"}')
    assert decide(Wanted.DELETING, never_ran, NOW).step is Step.REMOVE
    refused = newest(3, command="delete")
    assert decide(Wanted.DELETING, refused, NOW).step is Step.NOTHING
    assert state_of(Wanted.DELETING, refused, NOW) is State.FAILED
    assert decide(Wanted.DELETING, newest(4, command="delete"), NOW).again_at is not None


def test_the_wait_is_doubled_up_to_five_minutes_and_begins_again_after_a_long_run() -> None:
    waits = [backoff_seconds(count, "1") for count in range(1, 20)]
    assert 1 <= waits[0] <= 1.2
    assert all(two == pytest.approx(2 * one) for one, two in pairwise(waits[:9]))
    assert 300 <= waits[-1] <= 360
    assert newest(4, restarts=7).failed_starts == 8
    assert newest(4, restarts=7, lived=601).failed_starts == 1


def test_pipelines_that_fail_for_one_reason_do_not_start_at_one_moment() -> None:
    assert len({backoff_seconds(5, str(ULID())) for _ in range(50)}) > 10


def test_the_newest_process_is_the_one_started_last_also_where_the_clock_was_set_back() -> None:
    before = newest(4)
    tomorrow = ULID.from_timestamp((datetime.now(UTC) + timedelta(days=1)).timestamp())
    later = Newest(**{name: getattr(before, name) for name in before.__slots__} | {"instance_id": str(tomorrow)})
    assert next_id(later) > later.instance_id


def test_a_run_that_is_asked_to_end_is_stopping_until_it_has() -> None:
    living = newest(ended=False)
    assert state_of(Wanted.STARTED, living, NOW) is State.RUNNING
    assert state_of(Wanted.STOPPED, living, NOW) is State.STOPPING
    assert state_of(Wanted.DELETING, living, NOW) is State.DELETING
