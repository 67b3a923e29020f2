"""Waits until the target has every change up to a position of the source, and then takes one version of its table."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from replicator_sdk import Position
from replicator_sdk.errors import RetryableError

if TYPE_CHECKING:
    from collections.abc import Callable

    from replicator_runtime.engine.verification.reading import Reading
    from replicator_sdk import Offset, TableProgress, TableReader, TableSchema, TableVersion

_LOOK_SECONDS = 0.5
STOPPED = "RPL-1366"


@dataclass(frozen=True, slots=True)
class Pinned:
    """A version of a table at the target.

    Attributes:
        version: The version.
        reached: Whether it has every change up to the position; when not, no run brings them.
        holds_no_more: Whether it has no later change.
    """

    version: TableVersion
    reached: bool
    holds_no_more: bool


def pin(
    reading: Reading,
    target: TableReader,
    schema: TableSchema,
    until: Offset,
    timeout: float,
    check_same: Callable[[], None],
) -> Pinned:
    """The newest version of the table once it has every change up to `until`; the newest there is where no run goes on.

    Args:
        reading: The replicator.
        target: Reads the target.
        schema: The table's schema.
        until: The position.
        timeout: For how many seconds to wait at most while a run goes on.
        check_same: Checks that the table has every change up to the saved offset: it is not paused, nor rewound. Called after
            the offset is looked at and before the version is taken, since a table of which it is so has everything up to that offset
            from then on; and called again once the version is taken, since a rewind may take changes away.

    Raises:
        RetryableError: RPL-1363 when a run goes on and has not come there in time, or when it was rewound meanwhile; RPL-1366 when
            the comparison is to end.
        ReplicatorError: As `check_same`, state and target fail.
    """
    while True:
        reached = _wait(reading, target, schema, until, timeout)
        check_same()
        version = target.open(schema)
        check_same()
        if not reached or _has_all(reading, version.progress, until):
            break
    return Pinned(version, reached, reached and version.progress.position <= Position(until))


def _wait(reading: Reading, target: TableReader, schema: TableSchema, until: Offset, timeout: float) -> bool:
    deadline = time.monotonic() + timeout
    while True:
        ended = reading.has_ended()  # asked first: what a run saved before it ended is found then
        if _is_saved(reading, until) or _has(target.progress(schema.table), until):
            return True
        if ended:
            return False
        if time.monotonic() >= deadline:
            raise RetryableError(
                f"the target has not come to the source's position within {timeout:g} s: the saved offset is {reading.saved_offset()}",
                code="RPL-1363",
                hint="`replicator status` shows whether a run goes on and how late it is: wait for longer with --timeout, or start"
                " `replicator run` and give the command beside it",
                table=str(schema.table),
                position=str(until),
            )
        check_stop(reading)
        reading.pause(_LOOK_SECONDS)


def _has_all(reading: Reading, progress: TableProgress, until: Offset) -> bool:
    """Whether a version with this progress has every change up to `until`, unless the run was rewound before it was taken."""
    return _has(progress, until) or _is_saved(reading, until)


def _has(progress: TableProgress | None, until: Offset) -> bool:
    return progress is not None and not progress.position.offset < until


def _is_saved(reading: Reading, until: Offset) -> bool:
    saved = reading.saved_offset()
    return saved is not None and not saved < until


def check_stop(reading: Reading) -> None:
    """End the comparison when it is to end.

    Raises:
        RetryableError: RPL-1366.
    """
    if reading.stop.is_set():
        raise RetryableError("the comparison was stopped", code=STOPPED, hint="give the command again")
