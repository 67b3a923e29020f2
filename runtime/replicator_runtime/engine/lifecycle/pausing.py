"""The part of a table's life that operators pause and resume."""

from __future__ import annotations

import time
import uuid
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import structlog

from replicator_runtime.engine.lifecycle.transitions import Cause
from replicator_runtime.engine.tables.pause import Pause
from replicator_runtime.engine.tables.table_state import TableState

if TYPE_CHECKING:
    from replicator_runtime.engine.tables.table_store import TableRecord
    from replicator_sdk import Position, TableId

log = structlog.get_logger()
LANE_DROPPED = "RPL-4130"


class Pausing(ABC):
    """What `TableLifecycle` does for tables that are paused, or are to be resumed. Used by the engine's main thread.

    A paused table with a whole copy has a lane. One without holds nothing of the log, and is copied when it is resumed.
    """

    @abstractmethod
    def save(self, record: TableRecord | None = None) -> None:
        """As `TableLifecycle.save`."""

    @abstractmethod
    def _forget_failure(self, record: TableRecord) -> None: ...

    @abstractmethod
    def show_pause(self, record: TableRecord) -> None:
        """As `Deciding.show_pause`."""

    @abstractmethod
    def drop_failed_lane(self, record: TableRecord) -> None:
        """As `LongFailures.drop_failed_lane`."""

    @abstractmethod
    def copy_again(self, record: TableRecord) -> None:
        """As `TableLifecycle.copy_again`."""

    @abstractmethod
    def _show(self, record: TableRecord, cause: Cause, after: TableState) -> None: ...

    @abstractmethod
    def _drop_copy(self, record: TableRecord) -> None: ...

    def pause(self, record: TableRecord, request_id: str) -> None:
        """Let its changes go to a lane; a copy that runs ends, and is made again when it is resumed. The caller saves."""
        if record.awaits_copy:
            self._drop_copy(record)
        self._forget_failure(record)
        record.failing_since, record.released = None, False
        if record.pause is not None:
            base = record.pause.base if record.pause.failed or record.is_in_log else None
            record.pause.resuming, record.pause.base, record.pause.request = False, base, request_id
            record.pause.failed = False
        else:
            record.pause = Pause(uuid.uuid4().hex, request_id, time.time())
        self._show(record, Cause.PAUSE, TableState.PAUSED)
        self.show_pause(record)

    def resume(self, record: TableRecord, request_id: str) -> None:
        """Let the target take its lane; one that has none is described and copied again. The caller saves."""
        assert record.pause is not None
        record.resumed = request_id
        self._forget_failure(record)
        if record.awaits_copy:
            record.pause, record.wants_copy = None, True
            self._show(record, Cause.RESUME, TableState.PENDING)
        else:
            record.pause.resuming = True
            self._show(record, Cause.RESUME, TableState.PAUSED)
            self.show_pause(record)

    def begin_lane(self, record: TableRecord, base: Position) -> None:
        """Its lane begins after `base`, how far the target's table is; durable when this returns."""
        assert record.pause is not None
        record.pause.base = base
        self.save()

    def leave_in_log(self, record: TableRecord, base: Position) -> None:
        """The source's log keeps what follows `base`, up to which the table has everything; durable when this returns."""
        assert record.pause is not None
        record.pause.in_log = True
        self.begin_lane(record, base)

    def end_lane(self, record: TableRecord) -> None:
        """The target has taken its lane: it joins like a table that was copied; durable when this returns.

        For how long it fails goes on where the lane was empty: it may meet its error again in the next change.
        """
        record.pause = None
        self._forget_failure(record)
        self._show(record, Cause.END_LANE, TableState.REPLICATING)
        self.save()

    def drop_lane(self, record: TableRecord, why: str) -> None:
        """Have it copied again when it is resumed, or now if it was to be resumed; durable when this returns.

        One that has failed for long is copied by itself, unless an operator is asked about a change of it: then it is paused until that is decided.
        """
        if record.fails_in_lane and not record.undecided:
            log.warning("table.lane_dropped", table=str(record.table), code=LANE_DROPPED, why=why)
            self.drop_failed_lane(record)
            return
        if record.fails_in_lane:
            self._forget_failure(record)
            record.failing_since = None
        log.warning(
            "the lane of a paused table is dropped: the table is copied again when it is resumed",
            table=str(record.table),
            code=LANE_DROPPED,
            why=why,
        )
        self.copy_again(record)
        self.show_pause(record)

    def pass_pause_on(self, pause: Pause, table: TableId) -> None:
        """A paused table is called `table` now: it is copied under that name when it is resumed; durable when this returns."""
        record = self.take_in(table)
        if record.pause is None:
            record.pause = Pause(uuid.uuid4().hex, pause.request, pause.since)
            self.save()

    @abstractmethod
    def take_in(self, table: TableId) -> TableRecord:
        """As `TableLifecycle.take_in`."""
