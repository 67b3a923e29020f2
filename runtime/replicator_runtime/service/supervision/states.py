"""What follows from what is wanted of a pipeline and from its newest process: a table of rules, without any effect."""

from __future__ import annotations

import enum
import json
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import blake2b
from typing import TYPE_CHECKING

from replicator_state import LEASE_HELD

if TYPE_CHECKING:
    from collections.abc import Mapping

DONE = 0
ENDED_AS_ASKED = frozenset({DONE, 130, 143})
"""Exit codes of a run that has ended in order, by itself or by SIGINT or SIGTERM."""
CONFIG_IS_WRONG = 2
"""Exit code of a run that has stored nothing."""
NOT_RESTARTED = frozenset({2, 3, 5, 6, 7, 8})
"""Exit codes after which the same start would fail in the same way (`docs/cli.md`), unless the reason is `LEASE_HELD`: that ends."""
NOTHING_STORED = "RPL-1242"
"""What `replicator delete` says of a pipeline that never ran, or that it has deleted already."""
RUN_ELSEWHERE = "RPL-1522"
RUN_ON_FORMER_HOST = "RPL-1530"
"""A process may live on another host: it is waited for."""
LIVED_LONG = timedelta(minutes=10)
"""A run that has lived so long was no failed start."""
_FIRST_SECONDS, _MOST_SECONDS, _DOUBLINGS = 1.0, 300.0, 10
_LONGEST_WAIT = timedelta(seconds=1.2 * _MOST_SECONDS)
RUN, DELETE = "run", "delete"


class Wanted(enum.StrEnum):
    """What is wanted of a pipeline."""

    STARTED = "started"
    STOPPED = "stopped"
    DELETING = "deleting"


class State(enum.StrEnum):
    """What is shown of a pipeline's process."""

    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    """It is asked to end, and has not yet."""
    WAITING = "waiting"
    BACKOFF = "backoff"
    STOPPED = "stopped"
    FAILED = "failed"
    DELETING = "deleting"


class Step(enum.Enum):
    """What the supervisor does with a pipeline."""

    NOTHING = "nothing"
    START = "start"
    STOP = "stop"
    REMOVE = "remove"


@dataclass(frozen=True, slots=True)
class Newest:
    """A pipeline's newest process, as the database has it.

    Attributes:
        instance_id: A ULID.
        launcher: By which it was started.
        place: Where the launcher finds it.
        command: `run` or `delete`.
        config_version: With which version of the pipeline it was started.
        started: When.
        ended: None while it may live.
        exit_code: None also where no one has seen its end.
        restarts: How many starts in a row had failed before it.
        dismissed: Whether someone asked that it end, or that another follow it.
        error: What it ended with.
    """

    instance_id: str
    launcher: str
    place: str
    command: str
    config_version: int
    started: datetime
    ended: datetime | None
    exit_code: int | None
    restarts: int
    dismissed: bool
    error: str

    @property
    def failed_starts(self) -> int:
        """How many starts in a row have failed, this one counted."""
        lived = (self.ended or self.started) - self.started
        return 1 if lived >= LIVED_LONG else self.restarts + 1

    def again_at(self) -> datetime:
        """When another one follows it, once it has ended by itself."""
        assert self.ended is not None
        return self.ended + timedelta(seconds=backoff_seconds(self.failed_starts, self.instance_id))


@dataclass(frozen=True, slots=True)
class Decision:
    """What the supervisor does now, and when it has to look again.

    Attributes:
        step: What it does.
        again_at: When that may be another step, if nothing else happens.
    """

    step: Step
    again_at: datetime | None = None


def backoff_seconds(failed_starts: int, instance_id: str) -> float:
    """How long a start waits after so many that failed: doubled each time, up to five minutes.

    Up to a fifth is added, by the instance, so that those that failed for one reason do not start at one moment.
    """
    seconds = min(_MOST_SECONDS, _FIRST_SECONDS * 2 ** min(failed_starts - 1, _DOUBLINGS))
    part = blake2b(instance_id.encode(), digest_size=1).digest()[0] / 255
    return float(seconds * (1 + part / 5))


def decide(wanted: Wanted, newest: Newest | None, now: datetime) -> Decision:
    """What the supervisor does with a pipeline."""
    if newest is not None and newest.ended is None:
        to_end = newest.dismissed or wanted is Wanted.STOPPED
        to_end = to_end or (wanted is Wanted.DELETING and newest.command == RUN)
        return Decision(Step.STOP if to_end else Step.NOTHING)
    if wanted is Wanted.STOPPED:
        return Decision(Step.NOTHING)
    command = DELETE if wanted is Wanted.DELETING else RUN
    if newest is None or newest.dismissed or newest.command != command:
        return Decision(Step.START)
    if command == DELETE and (newest.exit_code == DONE or code_of(newest.error) == NOTHING_STORED):
        return Decision(Step.REMOVE)
    if newest.exit_code == DONE or (newest.exit_code in NOT_RESTARTED and code_of(newest.error) != LEASE_HELD):
        return Decision(Step.NOTHING)
    # A clock that was ahead when it ended is not waited for.
    again_at = min(newest.again_at(), now + _LONGEST_WAIT)
    return Decision(Step.START) if again_at <= now else Decision(Step.NOTHING, again_at)


def state_of(wanted: Wanted, newest: Newest | None, now: datetime) -> State:
    """What is shown of a pipeline's process."""
    if newest is not None and newest.ended is None:
        return _state_of_living(wanted, newest)
    if wanted is Wanted.STOPPED:
        return State.STOPPED
    found = decide(wanted, newest, now)
    if found.step is Step.NOTHING and found.again_at is None:
        assert newest is not None
        return State.STOPPED if newest.exit_code == DONE else State.FAILED
    if wanted is Wanted.DELETING:
        return State.DELETING
    return State.BACKOFF if found.again_at is not None else State.WAITING


def _state_of_living(wanted: Wanted, newest: Newest) -> State:
    code = code_of(newest.error)
    if code == RUN_ELSEWHERE:
        return State.FAILED
    if wanted is Wanted.DELETING:
        return State.DELETING
    if code == RUN_ON_FORMER_HOST:
        return State.WAITING
    return State.STOPPING if wanted is Wanted.STOPPED else State.RUNNING


def code_of(error: str) -> str:
    """The code in a stored error; empty when there is none."""
    return str(error_of(error).get("code", ""))


def error_of(error: str) -> Mapping[str, str]:
    """A stored error; empty when there is none."""
    found: Mapping[str, str] = json.loads(error) if error else {}
    return found
