"""Advances, stops, drops or copies again the tables that take changes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import structlog

from replicator_runtime.engine.run_state.attempt_end import Rejoin
from replicator_runtime.engine.run_state.table_failures import stop_table
from replicator_runtime.engine.tables.table_state import TableState
from replicator_sdk.errors import NeedsUserError, SnapshotNeededError

if TYPE_CHECKING:
    from replicator_runtime.engine.batching.batching import AppliedBatch, Batcher
    from replicator_runtime.engine.run_state.run import Run
    from replicator_runtime.engine.tables.table_store import TableRecord
    from replicator_runtime.engine.tables.table_watermark import TableWatermark
    from replicator_sdk import TableId

log = structlog.get_logger()


class ActiveTables:
    """Used by the engine's main thread.

    Args:
        run: The run.
        watermarks: Of the tables that take changes; a table without one takes none.
        batcher: Holds their changes until they are applied.

    Attributes:
        watermarks: The same; a watermark rises once changes are durable, and a table that takes no more is gone from it.
        batcher: The same.
    """

    def __init__(self, run: Run, watermarks: dict[TableId, TableWatermark], batcher: Batcher) -> None:
        self._run = run
        self.watermarks = watermarks
        self.batcher = batcher
        self._doubtful: set[TableId] = set()

    @property
    def retry_at(self) -> float:
        """When a table that failed is tried again by a replay, on this process's clock; infinite when none is."""
        run = self._run
        return min((at for table, at in run.retries.items() if self._is_replayed(table)), default=math.inf)

    def _is_replayed(self, table: TableId) -> bool:
        record = self._run.table_store.records.get(table)
        copied_first = record is not None and self._run.takes_snapshots and record.needs_snapshot
        return record is not None and table not in self.watermarks and not copied_first

    @property
    def holds_offset(self) -> bool:
        """Whether some table needs changes after the saved offset, which therefore must not move."""
        records = self._run.table_store.records.values()
        return any(
            record.table not in self.watermarks and not self._starts_over(record)
            for record in records
            if record.selected or record.gone
        )

    def _starts_over(self, record: TableRecord) -> bool:
        """Whether the table stopped before any of its rows was copied: it needs nothing of the log so far."""
        return self._run.takes_snapshots and record.snapshot is None and record.table in self._run.failing

    def doubt(self, tables: Iterable[TableId]) -> None:
        """These may be further than their watermarks say: the target is asked before they are used again."""
        self._doubtful.update(tables)

    @property
    def settled(self) -> dict[TableId, TableWatermark]:
        """The watermarks that are certain to be the target's; not those of tables that failed, perhaps after a commit."""
        return {table: watermark for table, watermark in self.watermarks.items() if table not in self._doubtful}

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
        table, tally, metrics = item.table, item.tally, self._run.metrics
        if table in self.watermarks:
            self.watermarks[table].position = item.position
            self._run.positions.reached(table, self._run.table_store.records[table].copy_id, item.position)
        for name, count in (("insert", tally.inserts), ("update", tally.updates), ("delete", tally.deletes)):
            metrics.count(f"dml.{name}", count, table=table)
        self._run.progress.applied(table, tally.rows, tally.source_timestamp)
        self._run.table_retry_budgets.succeeded(table)

    def failed(self, table: TableId, error: Exception) -> None:
        """One table failed: it stops alone, for a while or until the next start, or all is replayed.

        Raises:
            Rejoin: When the table is to be copied again.
            Exception: `error`, when it concerns more than the table.
        """
        record = self._run.table_store.records[table]
        if isinstance(error, SnapshotNeededError):
            if self._run.takes_snapshots:
                log.warning("table.copied_again", table=str(table), code=error.code, error=str(error))
                self.copy_again(record)
                raise Rejoin
            error = _no_copy(table, error)
        stop_table(self._run, record, error)
        self._stop_taking(table)

    def copy_again(self, record: TableRecord) -> None:
        """Forget the table's snapshot; it joins again once it is copied.

        Raises:
            NeedsUserError: When the source takes no snapshots.
        """
        if not self._run.takes_snapshots:
            raise _no_copy(record.table, None)
        record.snapshot, record.state = None, TableState.PENDING
        self._run.table_store.save()
        self._stop_taking(record.table)

    def forget(self, table: TableId) -> None:
        """The table no longer exists at the source: it is replicated no more, and its target stays as it is."""
        self._stop_taking(table)
        self._run.table_store.records.pop(table, None)
        self._run.table_store.save()
        self._run.progress.forget_table(table)

    def _stop_taking(self, table: TableId) -> None:
        self.watermarks.pop(table, None)
        self.batcher.drop(table)


def _no_copy(table: TableId, error: SnapshotNeededError | None) -> NeedsUserError:
    return NeedsUserError(
        "only a new copy makes the table whole, and this source takes no snapshots"
        + (f": {error.message}" if error is not None else ""),
        code="RPL-3490",
        table=str(table),
        position=error.position if error is not None else None,
        hint="have the source's connector copy the table again into the log, then start again",
    )
