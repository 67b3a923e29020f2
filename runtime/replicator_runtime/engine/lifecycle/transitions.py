"""The states of a table, and every way from one to another, as data.

`TRANSITIONS` is complete: `TableLifecycle` refuses any other change of state, a test compares the callers of its methods
with `Transition.callers`, and the diagram in ARCHITECTURE.md is drawn from it.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from itertools import product

from replicator_runtime.engine.tables.table_state import TableState
from replicator_sdk.errors import BugError

State = TableState | None
"""A table's state; None while the run does not know the table."""

_PENDING, _SNAPSHOTTING = TableState.PENDING, TableState.SNAPSHOTTING
_REPLICATING, _FAILING, _PAUSED = TableState.REPLICATING, TableState.FAILING, TableState.PAUSED
_WORKING: tuple[State, ...] = (_PENDING, _SNAPSHOTTING, _REPLICATING, _FAILING)
_KNOWN: tuple[State, ...] = (*_WORKING, _PAUSED)


class Cause(enum.StrEnum):
    """Why a table changes its state; the name of each is that of the method of `TableLifecycle`, in upper case."""

    TAKE_IN = "taken in"
    BEGIN_ATTEMPT = "an attempt begins"
    BEGIN_COPY = "its copy begins"
    END_COPY = "its copy ends"
    FIND_COPIED = "the target has the whole copy"
    JOIN = "joins"
    CREATE = "created at the target"
    FAIL = "fails"
    STOP = "stops until the next start"
    RELEASE_FAILING = "has failed for too long"
    RECORD_LOST_HISTORY = "the log misses changes of it"
    COPY_AGAIN = "is to be copied again"
    START_OVER = "is to be described and copied again"
    RENAME = "is renamed"
    PAUSE = "is paused"
    HOLD = "waits for a decision"
    STOP_RESUMING = "its lane has a change that is not decided"
    RESUME = "is resumed"
    FAIL_LANE = "its lane is refused"
    END_LANE = "the target has its lane"
    FORGET = "gone, or forgotten"


@dataclass(frozen=True, slots=True)
class Transition:
    """One allowed change of a table's state; also one that keeps the state.

    Attributes:
        before: The state until then; None for a table that is not known.
        cause: Why it changes.
        after: The state from then on; None for a table that is forgotten.
        callers: The folders and modules of `engine/` that may cause it.
    """

    before: State
    cause: Cause
    after: State
    callers: frozenset[str]


def _transitions(
    cause: Cause, before: tuple[State, ...], after: tuple[State, ...], callers: str
) -> tuple[Transition, ...]:
    by = frozenset(callers.split())
    return tuple(Transition(old, cause, new, by) for old, new in product(before, after))


# What an earlier run stored may be any state, and errors come in any state: most causes are allowed in all of them.
_PARTS: tuple[tuple[Transition, ...], ...] = (
    _transitions(Cause.TAKE_IN, (None,), (_PENDING,), "preparation stream slices"),
    _transitions(Cause.BEGIN_ATTEMPT, _KNOWN, (_PENDING, _REPLICATING, _FAILING, _PAUSED), "attempt preparation"),
    _transitions(Cause.BEGIN_COPY, (_PENDING, _FAILING), (_SNAPSHOTTING,), "snapshot"),
    _transitions(Cause.END_COPY, (_SNAPSHOTTING,), (_REPLICATING,), "snapshot"),
    _transitions(Cause.FIND_COPIED, (_PENDING, _FAILING), (_REPLICATING,), "preparation"),
    _transitions(Cause.JOIN, _WORKING, (_REPLICATING,), "preparation"),
    _transitions(Cause.JOIN, _KNOWN, (_PAUSED, _FAILING), "preparation slices"),
    _transitions(Cause.CREATE, (_PENDING, _REPLICATING, _FAILING), (_REPLICATING,), "preparation stream slices"),
    _transitions(Cause.FAIL, _KNOWN, (_FAILING,), "preparation apply snapshot slices"),
    _transitions(Cause.STOP, _KNOWN, (_FAILING,), "preparation structure worker"),
    _transitions(Cause.RELEASE_FAILING, (_FAILING,), (_FAILING,), "apply attempt"),
    _transitions(Cause.RECORD_LOST_HISTORY, _KNOWN, (_FAILING,), "worker"),
    _transitions(Cause.COPY_AGAIN, _KNOWN, (_PENDING, _PAUSED), "preparation apply"),
    _transitions(Cause.START_OVER, _KNOWN, (_PENDING, _PAUSED), "preparation control"),
    _transitions(Cause.RENAME, (_REPLICATING,), (_REPLICATING,), "stream"),
    _transitions(Cause.PAUSE, _KNOWN, (_PAUSED,), "control"),
    _transitions(Cause.HOLD, _KNOWN, (_PAUSED,), "stream"),
    _transitions(Cause.STOP_RESUMING, (_PAUSED, _FAILING), (_PAUSED,), "apply"),
    _transitions(Cause.RESUME, _KNOWN, (_PENDING, _PAUSED), "control"),
    _transitions(Cause.FAIL_LANE, (_FAILING,), (_FAILING,), "preparation apply slices"),
    _transitions(Cause.END_LANE, (_PAUSED, _FAILING), (_REPLICATING,), "apply slices"),
    _transitions(Cause.FORGET, _KNOWN, (None,), "preparation structure apply repair"),
)
TRANSITIONS: tuple[Transition, ...] = tuple(transition for part in _PARTS for transition in part)

_ALLOWED = frozenset((t.before, t.cause, t.after) for t in TRANSITIONS)


def check(before: State, cause: Cause, after: State, table: str) -> None:
    """Check that a table may go from `before` to `after`.

    Raises:
        BugError: When no transition allows it.
    """
    if (before, cause, after) not in _ALLOWED:
        raise BugError(
            f"a table in state {before or 'unknown'} cannot become {after or 'unknown'}: {cause}",
            code="RPL-9014",
            hint="report it with the log; nothing was changed or saved",
            table=table,
        )
