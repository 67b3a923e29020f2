"""Opens the lanes of paused tables when an attempt begins, and deletes those that are needed no more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from replicator_sdk import BatchConsumer

if TYPE_CHECKING:
    from replicator_runtime.engine.lanes.lanes import Lanes
    from replicator_runtime.engine.lifecycle.table_lifecycle import TableLifecycle
    from replicator_runtime.engine.tables.table_watermark import TableWatermark
    from replicator_sdk import EventConsumer, TableId


def open_lanes(
    lifecycle: TableLifecycle, consumer: EventConsumer, lanes: Lanes, watermarks: dict[TableId, TableWatermark]
) -> None:
    """Let the changes of paused tables go to their lanes, and delete the files of other lanes.

    Args:
        lifecycle: Of all tables.
        consumer: The attempt's.
        lanes: Filled here.
        watermarks: Of paused tables they are raised to the ends of their lanes; a table whose lane is of no use is left out.

    Raises:
        FencedError: When a newer run took over.
        ReplicatorError: As the state's store fails.
    """
    for record in lifecycle.records.values():
        watermark = watermarks.get(record.table)
        if record.pause is None or watermark is None:
            continue
        if not isinstance(consumer, BatchConsumer):
            lifecycle.drop_lane(record, "the target takes rows one by one, so nothing says how far its table is")
            del watermarks[record.table]
            continue
        if record.pause.base is None or (record.fails_in_lane and record.pause.base < watermark.position):
            lifecycle.begin_lane(record, watermark.position)
        why_not = lanes.open(record, watermark.position)
        if why_not:
            lifecycle.drop_lane(record, why_not)
            del watermarks[record.table]
        else:
            watermark.position = lanes[record.table].end
    paused = (record for record in lifecycle.records.values() if record.pause is not None)
    lanes.tidy({record.pause.lane for record in paused if record.pause is not None and not record.needs_snapshot})
