"""Ends a pipeline with `snapshot.mode` "only": its tables are at the target, and the source is released for good."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Final

import structlog

from replicator_runtime.engine.control.delete import release_source
from replicator_runtime.stored_forms import ONLY_COPIED, head, parsed
from replicator_sdk.errors import NeedsUserError, RetryableError
from replicator_sdk.failpoint import failpoint, register

if TYPE_CHECKING:
    from replicator_runtime.engine.run_state.run import Run

register("engine.only.copied", "engine.only.released")
log = structlog.get_logger()
_COMPLETE: Final = frozenset({"table.drop", "table.repair"})
_TRIES: Final = 10
_TRY_SECONDS: Final = 1.0


def refuse_after_copy(run: Run) -> None:
    """Let no run begin where an earlier one has copied all and released the source, or was about to.

    An earlier run that was cut off between the two has its source released first.

    Raises:
        NeedsUserError: RPL-2064, if there was such a run.
        ReplicatorError: When the source cannot be released; the next run tries again.
    """
    content = run.store.get(ONLY_COPIED)
    if not content:
        return
    note = parsed(ONLY_COPIED, content)
    if not note["released"]:
        _release(run, note["offset"])
    raise _ended(note["offset"])


def refuse_command_after_copy(run: Run, command: str) -> None:
    """Let no command wait for a run where none follows; those that are complete by themselves are carried out.

    Raises:
        NeedsUserError: RPL-2064, as `refuse_after_copy`.
    """
    content = run.store.get(ONLY_COPIED) if command not in _COMPLETE else None
    if content:
        raise _ended(parsed(ONLY_COPIED, content)["offset"])


def end_after_copy(run: Run) -> None:
    """All tables are at the target: note that, and release the source. Durable when this returns.

    The note comes first: a source whose log is gone, and no note, would be a lost log.

    Raises:
        NeedsUserError: RPL-2066 when a table is paused: no later run could give the target its lane.
        ReplicatorError: When the source cannot be released; the next run does it.
    """
    paused = next((r for r in run.table_store.records.values() if r.pause is not None), None)
    if paused is not None:
        raise NeedsUserError(
            f"{paused.table} is paused, so the target does not have all of it: the source's log is not released",
            code="RPL-2066",
            hint="`replicator table resume NAME TABLE`, or `replicator ddl approve NAME ID` where it waits for a decision; then run again",
            table=str(paused.table),
        )
    offset = str(run.saved_offset or "")
    _put(run, offset, released=False)
    failpoint("engine.only.copied")
    _release(run, offset)


def _ended(offset: str) -> NeedsUserError:
    return NeedsUserError(
        f'the tables were copied as of {offset} by a run with `snapshot.mode` "only", which released the source\'s log:'
        " no run follows it",
        code="RPL-2064",
        hint="nothing, if that is what was wanted; `replicator reset PIPELINE` copies all tables again",
        position=offset,
    )


def _release(run: Run, offset: str) -> None:
    for left in reversed(range(_TRIES)):
        run.lease.check()
        try:
            release_source(run.pipeline)
            break
        except RetryableError:
            if not left:
                raise
            time.sleep(_TRY_SECONDS)  # the server may not have noticed yet that its reader has gone
    failpoint("engine.only.released")
    _put(run, offset, released=True)
    log.info("source.released", position=offset)


def _put(run: Run, offset: str, *, released: bool) -> None:
    run.store.put(ONLY_COPIED, json.dumps({**head(ONLY_COPIED), "offset": offset, "released": released}).encode())
