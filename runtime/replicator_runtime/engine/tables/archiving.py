"""What the parts of a run know of the change archive, which `archive/` writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from replicator_sdk import DDLEvent, EventConsumer, Position, TableId


class Archiving(Protocol):
    """The change archive of a run. Safe from any thread."""

    def begin_attempt(self, consumer: EventConsumer) -> None:
        """An attempt begins: nothing is being applied, and `consumer`, the target's own, is started.

        Raises:
            NeedsUserError: RPL-1250 or RPL-1251 when the pipeline cannot write this archive.
            ReplicatorError: As archive, state or target fail.
        """

    def wrapped(self, consumer: EventConsumer) -> EventConsumer:
        """A consumer that archives what it is given, durable before the target has it."""

    def renamed(self, events: Sequence[DDLEvent], consumer: EventConsumer) -> None:
        """The target is about to rename tables by these events, perhaps again: the archive has them under their last names before; durable on return.

        Args:
            events: In order. Tables that exchange their names are put aside in between, which the archive does not show.
            consumer: Says how far the tables of the former names are.

        Raises:
            ReplicatorError: As archive, state or target fail.
        """

    def confirm(self, table: TableId, position: Position) -> None:
        """The target has the table up to `position`, durable."""

    def flush(self, *, only_when_due: bool = False) -> None:
        """Write what the target has into the archive's files; durable when this returns.

        Raises:
            ReplicatorError: As archive or state fail.
        """


class NoArchive:
    """For pipelines without one."""

    def begin_attempt(self, consumer: EventConsumer) -> None:
        """Nothing."""

    def wrapped(self, consumer: EventConsumer) -> EventConsumer:
        """The consumer itself."""
        return consumer

    def renamed(self, events: Sequence[DDLEvent], consumer: EventConsumer) -> None:
        """Nothing."""

    def confirm(self, table: TableId, position: Position) -> None:
        """Nothing."""

    def flush(self, *, only_when_due: bool = False) -> None:
        """Nothing."""
