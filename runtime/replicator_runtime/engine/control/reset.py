"""Begins another generation of a replicator: every table is copied or read again, in place."""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from replicator_runtime.engine.run_state.open_run import (
    begin_generation,
    check_user,
    directory_of,
    has_run,
    keeping_lease,
    open_run,
)
from replicator_sdk.errors import NeedsUserError
from replicator_sdk.failpoint import failpoint, register

if TYPE_CHECKING:
    from replicator_runtime.config import Pipeline

register("engine.generation.before", "engine.generation.begun")
log = structlog.get_logger()


def reset(pipeline: Pipeline, *, state_was_lost: bool = False) -> int:
    """Begin another generation, without an offset; connects to neither source nor target. One file decides: it is begun or not.

    The next run begins at the source as a first start does, and replaces the rows of every table at the target: by a copy or,
    where the source takes no snapshots, by what its log has from the start of reading on. The epochs of the new generation
    are above those of the former, so targets refuse whatever a former run still writes.

    Args:
        pipeline: Which.
        state_was_lost: Whether the state is an old copy, or missing, so that the target knows newer runs than the state does: the
            new generation is above those, too.

    Returns:
        Its number.

    Raises:
        NeedsUserError: RPL-1231 when it never ran and its state was not lost; RPL-7130 when a run goes on;
            RPL-7106 for root where the state is another user's.
        ReplicatorError: As the state's store fails (RPL-7103 to RPL-7105).
    """
    check_reset(pipeline, state_was_lost=state_was_lost)
    with open_run(pipeline) as run, keeping_lease(run):
        failpoint("engine.generation.before")
        number = begin_generation(pipeline, run, state_was_lost=state_was_lost)
        failpoint("engine.generation.begun")
        log.warning("generation.begun", generation=number)
    return number


def check_reset(pipeline: Pipeline, *, state_was_lost: bool = False) -> None:
    """Refuse a reset that cannot be done, before anything is asked or changed. Reads only.

    Raises:
        ReplicatorError: As `reset`.
    """
    if not (has_run(pipeline) or state_was_lost):
        raise NeedsUserError(
            "nothing is stored of it: it never ran there, or its state was lost",
            code="RPL-1231",
            hint="start it with `replicator run`; after a lost state `replicator reset PIPELINE --lost-state`",
        )
    check_user(pipeline)
    directory_of(pipeline).check_free()
