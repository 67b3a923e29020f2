"""Decides how long a failing table holds the source's log, and when one that gave it up is copied again."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

import structlog

from replicator_runtime.engine.run_state.retry_budget import growing_wait

if TYPE_CHECKING:
    from replicator_runtime.config.model import FailingTablesConfig, PipelineConfig
    from replicator_runtime.engine.tables.table_store import TableRecord
    from replicator_sdk import Offset, TableId

log = structlog.get_logger()
_LATER = "it is copied again, and the source's log may go on without it until then"
_NO_COPY = (
    "it has failed for too long and holds the offset; it is not copied again, since the source takes no snapshots or the"
    " target keeps rows that the source has deleted: repair it before the log is cut off"
)


class LogRelease:
    """Times of failing tables. Used under the lock of the lifecycle.

    How long a table fails, and holds the log, is kept in its record, by the clock of the machine, so that it goes on over restarts. One that
    fails holds the log from its beginning on; one with a lane only from when its lane takes no changes either. When a copy
    is tried again is kept here, by the process's clock: a start tries at once.

    Args:
        config: The pipeline's.
    """

    def __init__(self, config: FailingTablesConfig) -> None:
        self._config = config
        self._held_seconds = config.hold_log_hours * 3600.0
        self._offsets: dict[TableId, Offset | None] = {}
        self._tries: dict[TableId, int] = {}
        self._copy_at: dict[TableId, float] = {}
        self._warned: set[TableId] = set()

    def began(self, record: TableRecord) -> bool:
        """The table fails; returns whether that is new."""
        self._offsets.pop(record.table, None)
        is_new = record.failing_since is None
        if is_new:
            record.failing_since = time.time()
        return is_new

    def holds(self, record: TableRecord) -> bool:
        """The table takes no changes, not even to a lane; returns whether that is new."""
        is_new = self.began(record)
        if record.fails_in_lane and record.pause is not None and record.pause.holds_since is None:
            record.pause.holds_since, is_new = time.time(), True
        return is_new

    def ended(self, record: TableRecord) -> bool:
        """The table works; returns whether it failed before."""
        self._offsets.pop(record.table, None)
        failed, record.failing_since = record.failing_since is not None, None
        return failed

    def is_passed(self, record: TableRecord, saved: Offset | None) -> bool:
        """Whether the saved offset has moved since this was first asked of the table, which takes changes: its failure has passed."""
        return self._offsets.setdefault(record.table, saved) != saved

    def is_due(self, record: TableRecord) -> bool:
        """Whether the table has held the log for too long."""
        since = _holds_since(record)
        return since is not None and time.time() >= since + self._held_seconds

    def needs_no_log(self, record: TableRecord, read_to: Offset | None) -> bool:
        """Whether the table, which has stopped, is copied again without holding the log.

        So it is when it gave the log up before, or has held it for too long, or has what cannot be read.
        """
        return record.released or self.is_due(record) or has_what_follows(record, read_to)

    def copy_again_at(self, record: TableRecord) -> float | None:
        """When the table is copied again unless it works before, in seconds since 1970; None when it does not fail."""
        waiting = self._copy_at.get(record.table)
        if waiting is not None:
            return time.time() + waiting - time.monotonic()
        since = _holds_since(record)
        return None if since is None else since + self._held_seconds

    def warn_once(self, record: TableRecord) -> None:
        """Log that the table fails for too long and cannot be copied again."""
        if record.table not in self._warned:
            self._warned.add(record.table)
            log.error("table.holds_log", table=str(record.table), why=_NO_COPY)

    # --- copies of tables that gave the log up

    @property
    def next_copy(self) -> float:
        """When the first of them is copied again, on this process's clock; infinite when there is none."""
        return min(self._copy_at.values(), default=math.inf)

    def delay_copy(self, record: TableRecord) -> None:
        """Let a table that gives the log up wait, longer than the last time."""
        tries = self._tries[record.table] = self._tries.get(record.table, 0) + 1
        delay = growing_wait(tries, self._config.max_copy_delay_seconds)
        self._copy_at[record.table] = time.monotonic() + delay
        log.error("table.log_released", table=str(record.table), later=_LATER, seconds=round(delay, 1))

    def take_due(self) -> list[TableId]:
        """The tables whose wait is over; each is returned once."""
        now = time.monotonic()
        due = [table for table, at in self._copy_at.items() if at <= now]
        for table in due:
            del self._copy_at[table]
        return due

    def forget(self, table: TableId) -> None:
        """The table is whole, or replicated no more."""
        self._copy_at.pop(table, None)
        self._tries.pop(table, None)
        self._offsets.pop(table, None)


def has_what_follows(record: TableRecord, read_to: Offset | None) -> bool:
    """Whether the log cannot be read for the table further than `read_to`, and its copy began later: it has what cannot be read, which would end each run."""
    return read_to is not None and record.snapshot is not None and read_to < record.snapshot.first


def isolates(config: PipelineConfig, record: TableRecord, read_to: Offset | None) -> bool:
    """Whether an error of the table's is not the run's: as the pipeline has it, and where the table was copied past what cannot be read.

    Otherwise `onTableError: stop` would end every run after a copy that was to go past that place. One that is never copied again by
    itself does not go past it: it would stay there while the others go on.
    """
    return config.on_table_error == "isolate" or (has_what_follows(record, read_to) and not keeps_deleted_rows(record))


def keeps_deleted_rows(record: TableRecord) -> bool:
    """Whether the target may hold rows of the table on purpose that a new copy would remove."""
    return record.keeps_rows or (record.scope is not None and record.scope.keeps_deleted_rows)


def _holds_since(record: TableRecord) -> float | None:
    if record.fails_in_lane and record.pause is not None:
        return record.pause.holds_since
    return record.failing_since
