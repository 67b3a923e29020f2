"""One target table: every write goes through here, is checked against newer runs and stores the table's record."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from replicator_sdk.authoring.table_ownership import TableRecord
from replicator_sdk.context import DeltaTargetContext
from replicator_sdk.errors import ReplicatorError, RetryableError
from replicator_sdk.failpoint import failpoint, register
from replicator_sdk.offset import Position
from replicator_sdk.schema import TableId
from replicator_sdk.target import TableProgress
from replicator_sdk.timeline import step
from replicator_target_delta.config import DeltaConfig
from replicator_target_delta.files.live_files import DataFile
from replicator_target_delta.files.storage import Stamp
from replicator_target_delta.location import table_path
from replicator_target_delta.log.table_state import State
from replicator_target_delta.log.transaction_log import TableLog, Transaction
from replicator_target_delta.ownership import DeltaOwnership

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

register("delta.commit.before", "delta.commit.after")


@dataclass(frozen=True, slots=True)
class Attempt:
    """A transaction on a table that this run may write.

    Attributes:
        transaction: To commit with.
        record: What the table's last commit says; None when the table is new.
    """

    transaction: Transaction
    record: TableRecord | None

    @property
    def state(self) -> State:
        """The version it starts from."""
        return self.transaction.state

    @property
    def progress(self) -> TableProgress | None:
        """How far the table is; None when it is new."""
        return None if self.record is None else self.record.progress

    def has_reached(self, position: Position) -> bool:
        """Whether `position` is applied already."""
        return self.record is not None and self.record.has_reached(position)


class TargetTable:
    """A table of the target. Calls take turns, also from several threads."""

    def __init__(self, table: TableId, config: DeltaConfig, context: DeltaTargetContext, spark: SparkSession) -> None:
        self.table = table
        self.lock = threading.RLock()
        self.log = TableLog(spark, table_path(config.path, table), table)
        self.ownership = DeltaOwnership(table, context, self.log.path)
        self._read_offset = context.read_offset
        self._metrics = context.metrics
        self._shown: tuple[int, Stamp | None] | None = None
        self._last: TableProgress | None = None

    def progress(self) -> TableProgress | None:
        """What the table's last commit in storage says. Writes nothing: a run leaves tables without changes as they are.

        Raises:
            FencedError: When a newer run has written it.
            NeedsUserError: When the table is not this replicator's.
        """
        with self.lock:
            self.log.forget()
            self._last = None
            return self.begin().progress

    def is_there(self) -> bool:
        """Whether there is a table that this run may write. May be called beside applies: what they remember stays as it is.

        Raises:
            FencedError: When a newer run has written it.
            NeedsUserError: When the table is not this replicator's.
        """
        state = self.log.known_state()
        if state is None:
            return self.begin().progress is not None
        return self._checked(state) is not None

    def begin(self, former: TableId | None = None) -> Attempt:
        """A transaction on the newest version.

        Its commit fails when another run has written the table since, and stores this run's epoch, which no older run can
        write after. Until then an older run may commit a batch: `begin` finds it, and this run reads its position again.

        Args:
            former: The table's name before it was renamed, while the rename is going on.

        Raises:
            FencedError: When a newer run has written the table.
            NeedsUserError: When the table is not this replicator's.
            RetryableError: When another run wrote the table since this run read it last (RPL-4403), or another program has
                deleted it or put an older copy in its place (RPL-4113).
        """
        attempt = self._begin_checked(former)
        found, last = attempt.progress, self._last
        # Maintenance stores the progress that it finds under this run's epoch.
        if last is not None and found != last and found != self.ownership.taken_over(last):
            self._last = None
            self.ownership.check_follows(attempt.record, last.position)  # deleted, or put back, by another program
            raise RetryableError(
                "the table was written by another run of this replicator since it was read",
                code="RPL-4403",
                table=str(self.table),
                hint="stop one of the two runs",
            )
        self._last = found
        return attempt

    def _begin_checked(self, former: TableId | None = None) -> Attempt:
        with step("table.read_log"):
            transaction = self.log.begin()
        state = transaction.state
        if state.version < 0:
            return Attempt(transaction, None)
        attempt = Attempt(transaction, self._checked(state, former))
        self._show(state)
        return attempt

    def _show(self, state: State | None) -> None:
        """Report to the run's metrics what the version consists of, once."""
        if state is None or self._shown == (state.version, state.stamp):
            return
        self._shown = state.version, state.stamp
        self._metrics.stored(self.table, state.files.storage())

    def read_record(self, stored: dict[str, Any]) -> TableRecord:
        """The record that a commit stored."""
        return TableRecord.from_json(stored, self._read_offset)

    def _checked(self, state: State, former: TableId | None = None) -> TableRecord | None:
        record = None if state.stored is None else self.read_record(state.stored)
        self.ownership.check(record, former=former)
        return record

    def commit(
        self,
        attempt: Attempt,
        progress: TableProgress,
        *,
        add: Iterable[DataFile] = (),
        remove: Iterable[DataFile] = (),
        metadata: dict[str, Any] | None = None,
        dropped: bool | None = None,
        data_change: bool = True,
        unmatched: str | None = None,
    ) -> None:
        """Commit files, metadata and `progress` in one version; durable on return.

        Whether the source has dropped the table stays as it was where `dropped` does not say it, and removals whose rows
        are not there yet where `unmatched` does not.
        A lost answer is looked up: the commit has happened when the table's last commit has this very progress.
        """
        record = self.ownership.record(progress, attempt.record, dropped=dropped)
        failpoint("delta.commit.before")
        try:
            with step("table.commit"):
                attempt.transaction.commit(
                    record.to_json(),
                    writer=self.ownership.owner,
                    add=add,
                    remove=remove,
                    metadata=metadata,
                    note=progress.batch if data_change else "compacted",
                    data_change=data_change,
                    unmatched=unmatched,
                )
        except ReplicatorError:
            self.log.forget()
            if self._begin_checked().progress != progress:
                raise
        self._last = progress
        self._show(self.log.remembered)
        failpoint("delta.commit.after")

    def loaded_chunks(self, attempt: Attempt) -> frozenset[int]:
        """Indexes of the chunks in the table, of the snapshot it names; also once that is finished."""
        return frozenset() if attempt.record is None else attempt.record.chunks

    def progress_at(self, attempt: Attempt, position: Position, sequence: int = 0) -> TableProgress:
        """Progress of this run at `position`, snapshot state as it was."""
        return self.ownership.progress_at(attempt.progress, position, sequence)
