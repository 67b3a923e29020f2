"""The tables that take changes in one stream: how far each is, and which takes no more."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import structlog

from replicator_runtime.engine.run_state.attempt_end import Rejoin
from replicator_sdk.errors import NeedsUserError, SnapshotNeededError

if TYPE_CHECKING:
    from replicator_runtime.engine.batching.batching import AppliedBatch, Batcher
    from replicator_runtime.engine.lanes.lanes import Lanes
    from replicator_runtime.engine.lifecycle.table_lifecycle import TableLifecycle
    from replicator_runtime.engine.tables.table_store import TableRecord
    from replicator_runtime.engine.tables.table_watermark import TableWatermark
    from replicator_sdk import Offset, Position, TableId, TableSchema

log = structlog.get_logger()


class ActiveTables:
    """Used by the engine's main thread.

    Args:
        lifecycle: Of all tables; it decides what follows for a table.
        watermarks: Of the tables that take changes; a table without one takes none.
        batcher: Holds their changes until they are applied.
        lanes: Of the paused ones.

    Attributes:
        watermarks: The same; a watermark rises once changes are durable, and a table that takes no more is gone from it.
        batcher: The same.
        lanes: The same.
    """

    def __init__(
        self,
        lifecycle: TableLifecycle,
        watermarks: dict[TableId, TableWatermark],
        batcher: Batcher,
        lanes: Lanes,
    ) -> None:
        self._lifecycle = lifecycle
        self.watermarks = watermarks
        self.batcher = batcher
        self.lanes = lanes
        self._doubtful: set[TableId] = set()

    @property
    def retry_at(self) -> float:
        """When a table that failed is tried again by a replay, on this process's clock; infinite when none is."""
        return self._lifecycle.next_retry(self.watermarks)

    @property
    def rejoin_at(self) -> float:
        """The same, and when one that gave the log up is to be copied by another attempt."""
        return min(self.retry_at, self._lifecycle.next_copy)

    @property
    def holds_offset(self) -> bool:
        """Whether some table needs changes after the saved offset, which therefore must not move."""
        return self._lifecycle.holds_offset(self.watermarks)

    def doubt(self, tables: Iterable[TableId]) -> None:
        """These may be further than their watermarks say: the target is asked before they are used again."""
        self._doubtful.update(tables)

    @property
    def settled(self) -> dict[TableId, TableWatermark]:
        """The watermarks that are certain to be the target's; not those of tables that failed, perhaps after a commit, or are paused."""
        return {t: mark for t, mark in self.watermarks.items() if t not in self._doubtful and t not in self.lanes}

    def record_applied(self, items: Sequence[AppliedBatch], failures: Mapping[TableId, Exception]) -> None:
        """These changes are applied and durable, but for the tables that failed.

        Raises:
            Rejoin: When a table is to be copied again.
            Exception: A failure that concerns more than its table.
        """
        self._doubtful.update(failures)
        for item in items:
            if item.table not in failures:
                self._applied(item)
        for table, error in failures.items():
            self.failed(table, error)

    def _applied(self, item: AppliedBatch) -> None:
        """The table has these changes, durable."""
        table, tally = item.table, item.tally
        if table in self.lanes:
            self._kept(item)
            return
        self._lifecycle.run.archive.confirm(table, item.position)
        if table in self.watermarks:
            self.watermarks[table].position = item.position
            self._lifecycle.positions.reached(table, self._lifecycle.records[table].copy_id, item.position)
        record = self._lifecycle.records.get(table)
        copy = "" if record is None else record.copy_id
        self._lifecycle.run.totals.add(table, copy, item.position, tally.counts)
        self._lifecycle.run.progress.applied(table, tally.rows, tally.source_timestamp)
        self._lifecycle.progressed(table)

    def _kept(self, item: AppliedBatch) -> None:
        """The table's lane has these changes, durable."""
        if item.table in self.watermarks:
            self.watermarks[item.table].position = item.position
        self.lanes.show(self._lifecycle.records[item.table])

    def drop_full_lanes(self) -> None:
        """Drop lanes that are past their bounds.

        Raises:
            Rejoin: When a table that was to be resumed is to be copied again therefore.
        """
        paused = [self._lifecycle.records[table] for table in self.watermarks if table in self.lanes]
        for record in paused:
            if why := self.lanes.why_full(record):
                self.lose_lane(record, why)
                if record.pause is None:
                    raise Rejoin

    def let_failing_go(self) -> None:
        """Let tables that have failed for long begin lanes.

        Raises:
            Rejoin: When there are any.
        """
        if self._lifecycle.let_failing_go(self.watermarks):
            raise Rejoin

    def lose_lane(self, record: TableRecord, why: str) -> None:
        """Drop the table's lane: it takes no more changes, and is copied again; durable when this returns."""
        self._lifecycle.drop_lane(record, why)
        self._stop_taking(record.table)

    def failed(self, table: TableId, error: Exception, *, read_to: Offset | None = None) -> None:
        """One table failed: it stops alone, for a while or until the next start, or all is replayed.

        Args:
            table: The table.
            error: Its error.
            read_to: As for `TableLifecycle.fail`.

        Raises:
            Rejoin: When the table is to be copied again.
            Exception: `error`, when it concerns more than the table.
        """
        record = self._lifecycle.records[table]
        if isinstance(error, SnapshotNeededError):
            if self._lifecycle.takes_snapshots and self._keeps(record):
                error = _would_be_lost(table, error)
            elif self._lifecycle.takes_snapshots:
                log.warning("table.copied_again", table=str(table), code=error.code, error=str(error))
                self.copy_again(record)
                raise Rejoin
            else:
                error = _no_copy(table, error)
        self._lifecycle.fail(record, error, read_to=read_to)
        self._stop_taking(table)

    def _keeps(self, record: TableRecord) -> bool:
        """Whether the target has what an operator has kept, which no copy may remove unasked."""
        return (record.keeps_rows or bool(record.kept_columns)) and record.table not in self.lanes

    def copied_before(self, table: TableId, position: Position) -> TableSchema | None:
        """As `TableRecord.copied_before`; None as well for a table that is not known."""
        record = self._lifecycle.records.get(table)
        return None if record is None else record.copied_before(position)

    def copy_again(self, record: TableRecord) -> None:
        """Forget the table's snapshot; it joins again once it is copied.

        Raises:
            NeedsUserError: When the source takes no snapshots.
        """
        if not self._lifecycle.takes_snapshots:
            raise _no_copy(record.table, None)
        if record.table in self.lanes:
            self.lose_lane(record, "only a new copy makes the table whole")
            return
        self._lifecycle.copy_again(record)
        self._stop_taking(record.table)

    def forget(self, table: TableId) -> None:
        """The table no longer exists at the source: it is replicated no more, and its target stays as it is."""
        self._stop_taking(table)
        self._lifecycle.forget(table)

    def release(self, table: TableId) -> None:
        """The table takes no more changes in this stream; what was applied is durable."""
        self._stop_taking(table)

    def _stop_taking(self, table: TableId) -> None:
        self.watermarks.pop(table, None)
        self.batcher.drop(table)


def _would_be_lost(table: TableId, error: SnapshotNeededError) -> NeedsUserError:
    return NeedsUserError(
        f"only a new copy makes the table whole, and it would remove what the target has kept: {error.message}",
        code="RPL-6005",
        table=str(table),
        position=error.position,
        hint="copy what is to be kept elsewhere, then `replicator table resync NAME TABLE --in-place`",
    )


def _no_copy(table: TableId, error: SnapshotNeededError | None) -> NeedsUserError:
    return NeedsUserError(
        "only a new copy makes the table whole, and this source takes no snapshots"
        + (f": {error.message}" if error is not None else ""),
        code="RPL-3490",
        table=str(table),
        position=error.position if error is not None else None,
        hint="have the source's connector copy the table again into the log, then start again",
    )
