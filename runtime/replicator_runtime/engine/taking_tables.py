"""The tables that take changes: what becomes of one whose changes are applied, that fails, that goes or is copied anew."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import structlog

from replicator_runtime.engine.failing import stop_alone
from replicator_runtime.engine.progress import TableState
from replicator_sdk.errors import NeedsUserError, SnapshotNeededError

if TYPE_CHECKING:
    from replicator_runtime.engine.gather import Applied, Gathering, TableFloor
    from replicator_runtime.engine.run import Run
    from replicator_runtime.engine.tables import TableRecord
    from replicator_sdk import TableId

log = structlog.get_logger()


class Rejoin(Exception):  # noqa: N818 - a signal, not an error
    """Tables are to join or come back: read again from the saved offset, which was held for them."""


class TakingTables:
    """Used by the engine's main thread.

    Args:
        run: The run.
        floors: From where on each table takes changes; those not in it take none.
        gathering: What waits for them.

    Attributes:
        floors: The same; a floor rises once changes are durable, and a table that takes no more is gone from it.
        gathering: The same.
    """

    def __init__(self, run: Run, floors: dict[TableId, TableFloor], gathering: Gathering) -> None:
        self._run = run
        self.floors = floors
        self.gathering = gathering
        self._doubtful: set[TableId] = set()

    @property
    def retry_at(self) -> float:
        """When a table whose changes failed comes back by a replay, on this process's clock; infinite while none does."""
        run = self._run
        return min((at for table, at in run.retries.items() if self._comes_by_replay(table)), default=math.inf)

    def _comes_by_replay(self, table: TableId) -> bool:
        record = self._run.book.records.get(table)
        copied_first = record is not None and self._run.takes_snapshots and record.needs_snapshot
        return record is not None and table not in self.floors and not copied_first

    @property
    def hold_the_offset(self) -> bool:
        """Whether some table stands behind, so that the saved offset must not move."""
        records = self._run.book.records.values()
        return any(
            record.table not in self.floors and not self._starts_over(record)
            for record in records
            if record.selected or record.gone
        )

    def _starts_over(self, record: TableRecord) -> bool:
        """Whether the table has stopped before any of its rows was copied: nothing of today's log is needed for it."""
        return self._run.takes_snapshots and record.snapshot is None and record.table in self._run.failing

    def doubt(self, tables: Iterable[TableId]) -> None:
        """Perhaps these are further than their floors say: the target is to be asked before they are believed."""
        self._doubtful.update(tables)

    @property
    def settled(self) -> dict[TableId, TableFloor]:
        """The floors that are sure to be the target's; not those of tables whose changes failed, perhaps after a commit."""
        return {table: floor for table, floor in self.floors.items() if table not in self._doubtful}

    def landed(self, items: Sequence[Applied], failures: Mapping[TableId, Exception]) -> None:
        """These changes are applied and durable, but for the tables that failed.

        Raises:
            Rejoin: When a table is to be copied anew.
            Exception: A failure that concerns more than its table.
        """
        self._doubtful.update(failures)
        for item in items:
            if item.table not in failures:
                self._applied(item)
        for table, error in failures.items():
            self.failed(table, error)

    def _applied(self, item: Applied) -> None:
        """The table has these changes, durable."""
        table, tally, metrics = item.table, item.tally, self._run.metrics
        if table in self.floors:
            self.floors[table].position = item.position
            self._run.positions.reached(table, self._run.book.records[table].copy_id, item.position)
        for name, count in (("insert", tally.inserts), ("update", tally.updates), ("delete", tally.deletes)):
            metrics.count(f"dml.{name}", count, table=table)
        self._run.progress.applied(table, tally.rows, tally.source_timestamp)
        self._run.table_patience.succeeded(table)

    def failed(self, table: TableId, error: Exception) -> None:
        """One table failed: it stands still alone, for a while or until the next start, or all is replayed.

        Raises:
            Rejoin: When the table is to be copied anew.
            Exception: `error`, when it concerns more than the table.
        """
        record = self._run.book.records[table]
        if isinstance(error, SnapshotNeededError):
            if self._run.takes_snapshots:
                log.warning("table.copied_again", table=str(table), code=error.code, error=str(error))
                self.copy_anew(record)
                raise Rejoin
            error = _no_copy(table, error)
        stop_alone(self._run, record, error)
        self._stop_taking(table)

    def copy_anew(self, record: TableRecord) -> None:
        """Forget the table's snapshot; it joins again once it is copied.

        Raises:
            NeedsUserError: When the source takes no snapshots.
        """
        if not self._run.takes_snapshots:
            raise _no_copy(record.table, None)
        record.snapshot, record.state = None, TableState.PENDING
        self._run.book.save()
        self._stop_taking(record.table)

    def forget(self, table: TableId) -> None:
        """The table is gone at the source: it is replicated no more, and its target stays as it is."""
        self._stop_taking(table)
        self._run.book.records.pop(table, None)
        self._run.book.save()
        self._run.progress.forget_table(table)

    def _stop_taking(self, table: TableId) -> None:
        self.floors.pop(table, None)
        self.gathering.drop(table)


def _no_copy(table: TableId, error: SnapshotNeededError | None) -> NeedsUserError:
    return NeedsUserError(
        "only a new copy makes the table whole, and this source takes no snapshots"
        + (f": {error.message}" if error is not None else ""),
        code="RPL-3490",
        table=str(table),
        position=error.position if error is not None else None,
        hint="have the source's connector copy the table again into the log, then start again",
    )
