"""The lanes of an attempt: those of the tables whose changes the target does not take."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from replicator_runtime.engine.lanes.lane import Lane
from replicator_runtime.engine.lanes.lane_ends import LaneEnds
from replicator_sdk import Position
from replicator_sdk.failpoint import failpoint, register

if TYPE_CHECKING:
    from collections.abc import Collection

    from replicator_runtime.engine.run_state.run import Run
    from replicator_runtime.engine.tables.table_store import TableRecord
    from replicator_sdk import TableId

register("engine.lane.tidied")


class Lanes:
    """One instance per attempt. Opened by the engine's main thread before any changes are applied, and for the whole attempt.

    Args:
        run: The run; its folder of lanes is used.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self._lanes: dict[TableId, Lane] = {}
        self._names: list[str] | None = None
        self._drained: list[str] = []
        self._ends = LaneEnds(run.store, run.read_offset)

    def __contains__(self, table: TableId | None) -> bool:
        """Whether changes of the table go to its lane."""
        return table in self._lanes

    def __getitem__(self, table: TableId) -> Lane:
        return self._lanes[table]

    def open(self, record: TableRecord, base: Position) -> str:
        """Let changes of a paused table go to its lane.

        Args:
            record: The table's.
            base: The table's position.

        Returns:
            Why its lane is of no use; empty when changes go to it from now on.

        Raises:
            FencedError: When a newer run took over.
            ReplicatorError: As the store fails.
        """
        assert record.pause is not None
        lane = Lane(self._run.lanes, record.pause.lane, self._run.read_offset, base, self._listed())
        if not lane.is_joined:
            return f"it does not continue {base}, where the target's table is"
        reached = self._ends.get(record.pause.lane)
        if reached is not None and lane.end < reached:
            return (
                f"it ends at {lane.end}, although changes up to {reached} were put into it: some of its files are gone"
            )
        self._count_drained(record, lane, base)
        if record.pause.base == base:  # as it is stored: no attempt opens the lane before it
            self._drained += lane.drained
        self._lanes[record.table] = lane
        self.show(record)
        return ""

    def _count_drained(self, record: TableRecord, lane: Lane, base: Position) -> None:
        """Count what the target has of the lane and no count has, since a run was killed between the two; durable when this returns."""
        totals, copy = self._run.totals, record.snapshot
        first = None if copy is None else Position(copy.first)
        after = totals.begin(record.table, record.copy_id, first, base, None, has_lane=True)
        if after is not None and any((counts := lane.drained_counts(after)).values()):
            totals.add(record.table, record.copy_id, base, counts)
            totals.save()

    def save_ends(self) -> None:
        """Store where the lanes end, durable when this returns; called before an offset is saved that is after these ends.

        Raises:
            FencedError: When a newer run took over.
            ReplicatorError: As the store fails.
        """
        if self._lanes:
            self._ends.save({lane.name: lane.end for lane in self._lanes.values()})

    def show(self, record: TableRecord) -> None:
        """Show how much is in the table's lane."""
        lane = self._lanes[record.table]
        self._run.progress.set_lane(record.table, lane.rows, lane.nbytes, lane.oldest_at)

    def why_full(self, record: TableRecord) -> str:
        """Why the table's lane is to be dropped; empty while it keeps within its bounds."""
        assert record.pause is not None
        lane, bounds = self._lanes[record.table], self._run.config.lanes
        if lane.nbytes > bounds.max_bytes:
            return f"it holds more than {bounds.max_bytes:,} bytes (lanes.maxBytes)"
        oldest = lane.oldest_at
        if oldest is not None and not record.pause.resuming and time.time() - oldest > bounds.max_hours * 3600:
            return f"its oldest change is older than {bounds.max_hours:g} hours (lanes.maxHours)"
        return ""

    def tidy(self, needed: Collection[str]) -> None:
        """Delete the files of all lanes but those of these names, and of these what their tables have already.

        Raises:
            FencedError: When a newer run took over.
            ReplicatorError: As the store fails.
        """
        unused = [name for name in self._listed() if name.partition(".")[0] not in needed]
        unused += [name for name in self._drained if name.partition(".")[0] in needed]
        if unused:
            self._run.lease.check()
        self._run.lanes.remove(unused)
        if unused:
            failpoint("engine.lane.tidied")
        self._ends.keep(needed)

    def _listed(self) -> list[str]:
        if self._names is None:
            self._names = self._run.lanes.names()
        return self._names
