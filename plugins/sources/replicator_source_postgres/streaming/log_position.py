"""The reader's position in the log, and the events that are emitted at it."""

from __future__ import annotations

from dataclasses import replace

import structlog

from replicator_sdk.authoring.log_position import LogPosition, StructureChange
from replicator_sdk.batch import Commits
from replicator_sdk.source import EventEmitter
from replicator_source_postgres.offset import BEGIN, SETTLED, CommitRecord, PostgresOffset
from replicator_source_postgres.replication.timelines import Timelines

log = structlog.get_logger(__name__)


class WalPosition(LogPosition[PostgresOffset]):
    """The reader's position in the log; used by the reader's thread.

    Attributes:
        timelines: Which timeline holds which part of the log.
        is_settled: Whether everything is emitted that was committed before the reader began.
    """

    def __init__(self, emitter: EventEmitter) -> None:
        super().__init__(emitter, PostgresOffset(0))
        self.timelines = Timelines()
        self.is_settled = False

    def offset_at(self, lsn: int, commit: CommitRecord | None, step: int = 0) -> PostgresOffset:
        """The offset at a position of the log, with what is known of the log up to there."""
        return PostgresOffset(lsn, step, self.timelines.at(lsn), commit)

    def commit(self, commits: Commits) -> None:
        """Emit commits; until the catalogue was compared, more may follow that was committed before them."""
        super().commit(commits if self.is_settled else replace(commits, more=True))

    def advance(self, lsn: int) -> None:
        """Emit that no transaction ends between the last commit and `lsn`."""
        self.commit_at(self.offset_at(lsn, self.offset.commit))

    def settle(self, lsn: int) -> None:
        """Emit that everything is emitted that was committed before the reader began, also what only the catalogue shows."""
        self.is_settled = True
        self.commit_at(max(self.offset, self.offset_at(lsn, self.offset.commit, SETTLED)))

    def begin(self, commit: CommitRecord) -> None:
        """Emit where the transaction with this commit record begins, for events whose position counts from there.

        The log alone determines this position, so every replay emits it. No commit, heartbeat or snapshot before the
        transaction is after it: they are at ends of records, and the commit record starts at or after all of them.
        """
        offset = self.offset_at(commit.lsn, commit, BEGIN)
        if self.offset != offset:
            self.commit_at(offset)

    def synthetic_offsets(self, read_up_to: int) -> tuple[PostgresOffset, PostgresOffset]:
        """The offsets before and after changes that the log does not hold.

        Args:
            read_up_to: The end of what was read of the log; no transaction ends after the last commit and before it.

        Returns:
            An offset not before the last commit, and not before the end of any record before `read_up_to`, and the step
            after it. Both are before `read_up_to` where possible, so that a caller that waits for that position waits for the
            changes, too.
        """
        base = max(self.offset, self.offset_at(read_up_to - 1, self.offset.commit))
        return base, replace(base, step=base.step + 1)

    def emit_between(self, base: PostgresOffset, changes: list[StructureChange], end: PostgresOffset) -> None:
        """Emit schema changes as a transaction of their own."""
        if self.offset != base:
            self.commit_at(base)
        for change in changes:
            self.emit_structure(change)
        self.commit_at(end)

    def emit_structure(self, change: StructureChange, ordinal: int | None = None) -> None:
        """Emit a change of structure as in `LogPosition`, and log it."""
        kinds = [alter.kind.value for alter in change.alters]
        log.info("table.structure_changed", table=str(change.table), operation=change.operation.value, steps=kinds)
        super().emit_structure(change, ordinal)
