"""Has the target delete what copies that no run finishes, and renames that it refused, have left there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from replicator_runtime.engine.run_state.unknown_errors import summary
from replicator_sdk import BatchConsumer, SnapshotLoader
from replicator_sdk.errors import FencedError, RetryableError
from replicator_sdk.failpoint import failpoint, register

if TYPE_CHECKING:
    from replicator_runtime.engine.lifecycle.table_lifecycle import TableLifecycle
    from replicator_runtime.engine.tables.remains import Remains
    from replicator_sdk import EventConsumer

register("engine.remains.discarded")
log = structlog.get_logger()


def discard_remains(lifecycle: TableLifecycle, consumer: EventConsumer) -> None:
    """Have the target delete what is noted, and forget the notes of what it has deleted.

    An error is logged, and the next attempt tries again: nothing reads what is left, so the tables go on. A target that does
    not answer is asked only once, since each request may wait for minutes.

    Raises:
        FencedError: When a newer run has taken over.
    """
    discarded = []
    for remains in filter(lifecycle.may_discard, lifecycle.run.table_store.remains.noted()):
        try:
            if _discard(lifecycle, consumer, remains):
                discarded.append(remains)
        except RetryableError:
            break
    if discarded:
        failpoint("engine.remains.discarded")
        lifecycle.forget_remains(discarded)


def _count(lifecycle: TableLifecycle, consumer: EventConsumer, remains: Remains) -> None:
    """Count the rows that a killed run wrote last of a copy that is not gone on with: after the next copy's first commit the target says them no more."""
    progress = consumer.progress(remains.table) if isinstance(consumer, BatchConsumer) else None
    lifecycle.run.totals.recover_copy(remains.table, remains.snapshot_id, progress)
    lifecycle.run.totals.save_soon(at_once=True)


def _discard(lifecycle: TableLifecycle, consumer: EventConsumer, remains: Remains) -> bool:
    """Whether the target has nothing of it any more.

    Raises:
        FencedError: When a newer run has taken over.
        RetryableError: When the target does not answer.
    """
    table = str(remains.table)
    try:
        if not remains.snapshot_id:
            consumer.discard_table(remains.table)
        elif isinstance(consumer, SnapshotLoader):
            _count(lifecycle, consumer, remains)
            consumer.discard_snapshot(remains.table, remains.snapshot_id)
    except FencedError:
        raise
    except Exception as error:
        log.warning("remains.kept", table=table, code=getattr(error, "code", ""), error=summary(error))
        if isinstance(error, RetryableError):
            raise
        return False
    log.info("remains.discarded", table=table, snapshot=remains.snapshot_id)
    return True
