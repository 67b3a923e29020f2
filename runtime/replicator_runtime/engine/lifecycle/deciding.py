"""The part of a table's life in which an operator decides on changes of its structure."""

from __future__ import annotations

import time
import uuid
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Protocol

import structlog

from replicator_runtime.engine.lifecycle.transitions import Cause
from replicator_runtime.engine.tables.pause import Decision, Pause
from replicator_runtime.engine.tables.table_state import TableState
from replicator_sdk import DDLOperation
from replicator_sdk.failpoint import failpoint, register

if TYPE_CHECKING:
    from replicator_runtime.engine.run_state.progress import Progress
    from replicator_runtime.engine.tables.pause import HeldChange
    from replicator_runtime.engine.tables.table_store import TableRecord
    from replicator_sdk import Offset, TableId

register("engine.hold.before_save", "engine.hold.after_save")
log = structlog.get_logger()


class _Run(Protocol):
    """What is used of the run here."""

    progress: Progress

    def oldest_offset(self) -> Offset | None:
        """The oldest offset that is kept."""


class _Tries(Protocol):
    """What is used of `LaneTries` here."""

    def again_at(self, table: TableId) -> float | None:
        """When the lane of a failing table is tried again."""


class Deciding(ABC):
    """What `TableLifecycle` does for changes of structure that are held, or that the target does not get. Used by the engine's main thread.

    A table of which a change is held is paused; its changes go to its lane. A decision holds for one change, by its position.
    """

    run: _Run
    _tries: _Tries

    @abstractmethod
    def save(self, record: TableRecord | None = None) -> None:
        """As `TableLifecycle.save`."""

    @abstractmethod
    def _show(self, record: TableRecord, cause: Cause, after: TableState) -> None: ...

    @abstractmethod
    def _drop_copy(self, record: TableRecord) -> None: ...

    def hold(self, record: TableRecord, change: HeldChange, *, has_lane: bool) -> None:
        """Have an operator asked about `change`, and the table paused until then; durable when this returns.

        Args:
            record: The table; it takes changes, and the target has all that is before `change`.
            change: The change. Of several that are held each is asked about.
            has_lane: Whether what follows can be given to the target later; otherwise the table is copied again then.
        """
        self._ask(record, change)
        if not has_lane:
            self._drop_copy(record)
        self._show(record, Cause.HOLD, TableState.PAUSED)
        self.show_pause(record)
        self._save_hold(record, change)

    def hold_in_lane(self, record: TableRecord, change: HeldChange) -> None:
        """The same of a table that is paused already, or resumed: it is resumed when this is decided, too; durable when this returns."""
        if all(known.position != change.position for known in record.undecided):
            self._ask(record, change)
            self.show_pause(record)
            self._save_hold(record, change)

    def _ask(self, record: TableRecord, change: HeldChange) -> None:
        if record.pause is None:
            record.pause = Pause(uuid.uuid4().hex, "", time.time())
        if record.pause.resuming:
            record.pause.request = ""  # its operator has asked for its end already
        if change.operation is DDLOperation.DROP_TABLE:
            record.pause.changes = []  # of a table that is gone nothing else is to be decided
        record.pause.changes.append(change)

    def _save_hold(self, record: TableRecord, change: HeldChange) -> None:
        log.warning(
            "ddl.held",
            table=str(record.table),
            change=change.change_id,
            what=change.text,
            position=str(change.position),
        )
        failpoint("engine.hold.before_save")
        self.save()
        failpoint("engine.hold.after_save")

    def stop_resuming(self, record: TableRecord) -> None:
        """Its lane has a change that is not decided: the target gets the rest when it is; durable when this returns."""
        assert record.pause is not None
        record.pause.resuming, record.pause.failed, record.pause.base = False, False, None
        record.failing_since = None
        self._show(record, Cause.STOP_RESUMING, TableState.PAUSED)
        self.show_pause(record)
        self.save()

    def decide(self, record: TableRecord, change: HeldChange, *, approved: bool, request_id: str) -> bool:
        """Note what follows from `change`; the caller saves.

        Args:
            record: The table.
            change: The change; it has no decision yet.
            approved: Whether the target gets it.
            request_id: The operator's request; empty where the pipeline decides.

        Returns:
            Whether the table is to be resumed: it is paused, and only waited for this.
        """
        kept = self._read_again(record)
        columns = () if approved else tuple(column.name for column in change.columns)
        record.decisions = [*kept, Decision(change.change_id, change.position, approved, request_id, columns)]
        if not approved:
            names = {column.name for column in change.columns}
            others = (column for column in record.kept_columns if column.name not in names)
            record.kept_columns = (*others, *change.columns)
            record.keeps_rows |= change.operation is DDLOperation.TRUNCATE_TABLE
        only_waited = record.pause is not None and not record.undecided and not record.pause.request
        return only_waited and change.operation is not DDLOperation.DROP_TABLE

    def _read_again(self, record: TableRecord) -> list[Decision]:
        """The decisions on changes that may be read again: after the oldest offset that is kept, or in the table's lane, which may be older."""
        oldest, pause = self.run.oldest_offset(), record.pause
        base = None if pause is None else pause.base
        if oldest is None or (pause is not None and base is None):
            return list(record.decisions)
        return [
            decision
            for decision in record.decisions
            if not decision.position.offset < oldest or (base is not None and not decision.position <= base)
        ]

    def show_pause(self, record: TableRecord) -> None:
        """Show since when it is paused, if it is, and what it waits for a decision of."""
        if (pause := record.pause) is not None:
            shown, again, asks = self.run.progress, record.awaits_copy, record.asks
            shown.set_pause(record.table, pause.since, resuming=pause.resuming, copied_again=again, asks=asks)
            if pause.failed:
                shown.set_failed_lane(record.table, self._tries.again_at(record.table))
