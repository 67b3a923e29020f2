"""Keeps the position of a reader in its log, and emits commits and changes of structure there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar, cast

from replicator_sdk.batch import Commits, single_commit
from replicator_sdk.event import Alter, DDLEvent, DDLOperation
from replicator_sdk.offset import Offset
from replicator_sdk.schema import TableId, TableSchema
from replicator_sdk.source import EventEmitter

OffsetT = TypeVar("OffsetT", bound=Offset)


@dataclass(frozen=True, slots=True)
class StructureChange:
    """A change of structure of a captured table, without its position: the other fields of a `DDLEvent`.

    Attributes:
        operation: What happened.
        table: The table, by its name after the change.
        schema: Its schema after the change; None where the operation has none.
        previous: Its name before a RENAME_TABLE.
        alters: The steps of an ALTER_TABLE or RENAME_TABLE.
        needs_snapshot: Whether the change altered rows in ways that the log does not contain.
    """

    operation: DDLOperation
    table: TableId
    schema: TableSchema | None = None
    previous: TableId | None = None
    alters: tuple[Alter, ...] = ()
    needs_snapshot: bool = False


class LogPosition(Generic[OffsetT]):
    """Where a reader is: the offset that was emitted last, and how many events were emitted after it.

    Used by the reader's thread only. The two together are the position of the next event, so a reader that emits all its
    commits and changes of structure through one `LogPosition` gives every DDL event the ordinal that `EventEmitter` asks
    for. Changes of rows are emitted by the reader itself, which adds their number to `ordinal`.

    Attributes:
        emitter: Takes the events.
        offset: The offset of the last commit that was emitted; at first, the offset that the reader started after.
        ordinal: How many events were emitted after it.
    """

    def __init__(self, emitter: EventEmitter, offset: OffsetT) -> None:
        self.emitter = emitter
        self.offset = offset
        self.ordinal = 0

    def commit(self, commits: Commits) -> None:
        """Emits commits; the position is after the last of them then.

        Raises:
            ReaderClosed: When the reader is to stop.
        """
        self.emitter.emit_commits(commits)
        self.offset, self.ordinal = cast("OffsetT", commits.last), 0

    def commit_at(self, offset: OffsetT, timestamp: int = -1) -> None:
        """Emits the commit of the events since the last one, or an empty commit when there are none.

        Args:
            offset: The offset after the commit.
            timestamp: When the source committed it, microseconds since 1970 UTC; -1 unknown.

        Raises:
            ReaderClosed: When the reader is to stop.
        """
        self.commit(single_commit(self.ordinal, offset, timestamp))

    def emit_structure(self, change: StructureChange, ordinal: int | None = None) -> None:
        """Emits a change of structure as the next event.

        Args:
            change: What changed.
            ordinal: The event's ordinal in a window that the reader counts itself; `self.ordinal` is left as it is then.

        Raises:
            ReaderClosed: When the reader is to stop.
        """
        self.emitter.emit(
            DDLEvent(
                offset=self.offset,
                operation=change.operation,
                table=change.table,
                schema=change.schema,
                prev_table=change.previous,
                alters=change.alters,
                ordinal=self.ordinal if ordinal is None else ordinal,
                needs_snapshot=change.needs_snapshot,
            )
        )
        if ordinal is None:
            self.ordinal += 1
