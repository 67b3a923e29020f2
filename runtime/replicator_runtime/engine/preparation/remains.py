"""Has the target delete what copies that no run finishes, and renames that it refused, have left there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from replicator_runtime.engine.run_state.unknown_errors import summary
from replicator_sdk import SnapshotLoader
from replicator_sdk.errors import FencedError
from replicator_sdk.failpoint import failpoint, register

if TYPE_CHECKING:
    from replicator_runtime.engine.lifecycle.table_lifecycle import TableLifecycle
    from replicator_runtime.engine.tables.remains import Remains
    from replicator_sdk import EventConsumer

register("engine.remains.discarded")
log = structlog.get_logger()


def discard_remains(lifecycle: TableLifecycle, consumer: EventConsumer) -> None:
    """Have the target delete what is noted, and forget the notes of what it has deleted.

    An error is logged, and the next attempt tries again: nothing reads what is left, so the tables go on.

    Raises:
        FencedError: When a newer run has taken over.
    """
    noted = filter(lifecycle.may_discard, lifecycle.run.table_store.remains.noted())
    discarded = [remains for remains in noted if _discard(consumer, remains)]
    if discarded:
        failpoint("engine.remains.discarded")
        lifecycle.forget_remains(discarded)


def _discard(consumer: EventConsumer, remains: Remains) -> bool:
    """Whether the target has nothing of it any more."""
    table = str(remains.table)
    try:
        if not remains.snapshot_id:
            consumer.discard_table(remains.table)
        elif isinstance(consumer, SnapshotLoader):
            consumer.discard_snapshot(remains.table, remains.snapshot_id)
    except FencedError:
        raise
    except Exception as error:  # noqa: BLE001 - nothing depends on it
        log.warning("remains.kept", table=table, code=getattr(error, "code", ""), error=summary(error))
        return False
    log.info("remains.discarded", table=table, snapshot=remains.snapshot_id)
    return True
