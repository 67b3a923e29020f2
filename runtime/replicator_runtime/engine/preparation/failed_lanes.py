"""Where the lanes of failing tables begin, also when the target does not say how far its tables are."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from replicator_runtime.engine.tables.table_watermark import TableWatermark
from replicator_sdk import Position

if TYPE_CHECKING:
    from replicator_runtime.engine.lifecycle.table_lifecycle import TableLifecycle
    from replicator_runtime.engine.tables.table_store import TableRecord


def watermark_of_failing(lifecycle: TableLifecycle, record: TableRecord, error: Exception) -> TableWatermark | None:
    """The watermark of a failing table whose target could not be asked; None when it takes no changes.

    A lane that has begun goes on. A new one begins at the table's last position that is known here. It may be older than the
    target's, when a commit of which nothing was heard was made. Then the lane will not fit, and the table is copied again.

    Raises:
        Exception: `error`, when it concerns more than the table.
    """
    assert record.pause is not None
    plan = record.snapshot
    lifecycle.fail_lane(record, error)
    base = record.pause.base or lifecycle.positions.last(record.table, record.copy_id)
    if base is None or plan is None:
        lifecycle.cannot_begin_lane(record, error)
        lifecycle.fail(record, error)
        return None
    lifecycle.join(record)
    overlap = plan.last if plan.first < plan.last else None
    return replace(TableWatermark(Position(plan.first), overlap), position=base)
