"""Gives every event its sequence number, before any filter, and puts it into the queue.

The number of an event is the number saved with the offset the reader started from, plus the event's rank since. It
does not depend on how the reader cuts windows, so a replay from the same offset gives the same numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from replicator_runtime.engine.batching.row_batches import RowBatches
from replicator_sdk import ChangeBatch, Commits, DDLEvent, DMLEvent, DMLOperation, EventEmitter, single_commit
from replicator_sdk.errors import BugError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from replicator_runtime.engine.batching.event_queue import EventQueue
    from replicator_sdk import Offset, TableId, TableSchema


@dataclass(frozen=True, slots=True)
class CommitMark:
    """The end of a window.

    Attributes:
        commits: The commits in it.
        start: The offset the window started after.
        sequence_number: The number of its last event.
    """

    commits: Commits
    start: Offset
    sequence_number: int


Item = ChangeBatch | DDLEvent | CommitMark


class SequencingEmitter(EventEmitter):
    """The emitter every reader gets; see `EventEmitter` for what readers promise it.

    Args:
        queue: Where numbered events go.
        schemas: The tables the reader was given, for rows that are emitted one by one.
    """

    _offset: Offset

    def __init__(self, queue: EventQueue[Item], schemas: Mapping[TableId, TableSchema]) -> None:
        self._queue = queue
        self._base = 0
        self._rows = RowBatches(schemas)

    def start(self, offset: Offset, sequence_number: int) -> None:
        """The reader begins after `offset`, whose last event had `sequence_number`; called once, first."""
        self._offset, self._base = offset, sequence_number

    def emit(self, event: DDLEvent | DMLEvent) -> None:
        """Number one event; rows are collected into batches."""
        if isinstance(event, DDLEvent):
            self._emit_ddl(event)
        elif event.operation is DMLOperation.COMMIT:
            self._emit_rows()
            timestamp = -1 if event.source_timestamp is None else int(event.source_timestamp.timestamp() * 1_000_000)
            self.emit_commits(single_commit(self._rows.events, event.offset, timestamp))
        else:
            self._rows.add(event)
            if self._rows.full:
                self._emit_rows()

    def emit_batch(self, batch: ChangeBatch) -> None:
        """Number a batch."""
        if len(batch) == 0:
            return
        if batch.ordinals[0] < 0 or (len(batch) > 1 and bool(np.any(np.diff(batch.ordinals) <= 0))):
            raise BugError(
                "the source emitted ordinals that do not ascend",
                code="RPL-9003",
                table=str(batch.table),
                position=str(self._offset),
            )
        self._queue.put(replace(batch, sequence_numbers=self._base + 1 + batch.ordinals), batch.nbytes)

    def emit_commits(self, commits: Commits) -> None:
        """End the window."""
        if len(commits) == 0:
            return
        last = commits.last
        if last < self._offset:
            raise BugError(
                f"the source's offsets went back from {self._offset} to {last}",
                code="RPL-9004",
                position=str(self._offset),
            )
        mark = CommitMark(commits, self._offset, self._base + commits.events)
        self._queue.put(mark, 64 * len(commits))
        self._offset = last
        self._base += commits.events
        self._rows.restart()

    def _emit_rows(self) -> None:
        for batch in self._rows.take():
            self.emit_batch(batch)

    def _emit_ddl(self, event: DDLEvent) -> None:
        self._emit_rows()
        ordinal = self._rows.next_ordinal(event.ordinal)
        if event.schema is not None:
            self._rows.learn(event.schema)
        numbered = replace(event, offset=self._offset, ordinal=ordinal, sequence_number=self._base + 1 + ordinal)
        self._queue.put(numbered, 1024)
