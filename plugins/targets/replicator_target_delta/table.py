"""One target table and whose it is: every write goes through the fence here (design I6)."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from replicator_sdk.context import DeltaTargetContext
from replicator_sdk.errors import FencedError, NeedsUserError, ReplicatorError, RetryableError
from replicator_sdk.failpoint import failpoint, register
from replicator_sdk.offset import Position
from replicator_sdk.schema import TableId
from replicator_sdk.target import TableProgress
from replicator_target_delta.config import DeltaConfig
from replicator_target_delta.files.live_files import DataFile
from replicator_target_delta.location import table_path
from replicator_target_delta.log.transaction_log import State, TableLog, Transaction

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

register("delta.commit.before", "delta.commit.after")
_CLAIM_ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class Attempt:
    """A transaction whose table has the expected position, written by this run or by an older one.

    Attributes:
        transaction: To commit with.
        progress: What the table's last commit says; None when the table is new.
    """

    transaction: Transaction
    progress: TableProgress | None

    @property
    def state(self) -> State:
        """The version it starts from."""
        return self.transaction.state

    def stands_at(self, position: Position) -> bool:
        """Whether `position` is applied already."""
        return self.progress is not None and position <= self.progress.position


class TargetTable:
    """A table of the target. Calls take turns, also from several threads."""

    def __init__(self, table: TableId, config: DeltaConfig, context: DeltaTargetContext, spark: SparkSession) -> None:
        self.table = table
        self.lock = threading.RLock()
        self.log = TableLog(spark, table_path(config.path, table))
        self._context = context
        self._owner = f"{context.namespace}/{context.replicator_name}"
        self._last: TableProgress | None = None
        self._claimed = False

    def progress(self) -> TableProgress | None:
        """What the table's last commit in storage says; from then on no older run can write it any more.

        Raises:
            FencedError: When a newer run has written it.
            NeedsUserError: When the table is not this replicator's.
        """
        with self.lock:
            self.log.forget()
            self._claimed = False
            return self.begin().progress

    def begin(self, former: TableId | None = None) -> Attempt:
        """A transaction on the newest version, checked against newer runs and strangers.

        Args:
            former: The table's name before it was renamed, while the rename is going on.

        Raises:
            RetryableError: When another process wrote the table since this run read it.
        """
        for _ in range(_CLAIM_ATTEMPTS):
            attempt = self._begin_checked(former)
            if attempt.progress is None or self._claimed:
                break
            if attempt.progress.epoch == self._context.epoch or self._claim(attempt):
                self._last, self._claimed = attempt.progress, True
        else:
            raise RetryableError("another run keeps writing the table", code="RPL-4402", table=str(self.table))
        if self._claimed and attempt.progress != self._last:
            self._claimed = False
            raise RetryableError(
                "the table was written by another run of this replicator since it was read",
                code="RPL-4403",
                table=str(self.table),
                hint="stop one of the two runs",
            )
        return attempt

    def _begin_checked(self, former: TableId | None = None) -> Attempt:
        transaction = self.log.begin()
        state = transaction.state
        if state.version < 0:
            return Attempt(transaction, None)
        if state.stored is None or state.stored["replicator"] != self._owner:
            whose = (
                "not written by a replicator" if state.stored is None else f"of replicator {state.stored['replicator']}"
            )
            raise NeedsUserError(
                f"the table at {self.log.path} is {whose}",
                code="RPL-3404",
                table=str(self.table),
                hint="choose another `path`, or move that table away",
            )
        if TableId.from_json(state.stored["table"]) not in {self.table, former}:
            raise NeedsUserError(
                f"the folder {self.log.path} holds another table of this replicator already",
                code="RPL-3408",
                table=str(self.table),
                hint="the store takes the two names for one: replicate one of them to another `path`",
            )
        progress = TableProgress.from_json(state.stored["progress"], self._context.read_offset)
        if progress.epoch > self._context.epoch:
            raise FencedError(
                f"run {progress.epoch} has taken the table over from run {self._context.epoch}",
                code="RPL-8401",
                table=str(self.table),
                hint="nothing to do while the newer run goes on; when there is none, the pipeline's state was deleted or is an old copy:"
                " delete its state folder and its tables at the target, then start the pipeline again: every table is copied",
            )
        return Attempt(transaction, progress)

    def _claim(self, attempt: Attempt) -> bool:
        """Write our epoch beside the old progress: an older run's open transaction then cannot commit any more."""
        assert attempt.progress is not None
        claimed = replace(attempt.progress, epoch=self._context.epoch)
        with contextlib.suppress(RetryableError):  # another process was faster: look again
            attempt.transaction.commit(self._stored(claimed, attempt.state), writer=self._owner, note="claimed")
        return False  # read again: the claim is what the next transaction finds

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
    ) -> None:
        """Commit files, metadata and `progress` in one version; durable on return.

        Whether the source has dropped the table stays as it was where `dropped` does not say it.
        A lost answer is looked up: the commit has happened when the table has the expected position and this run wrote it.
        """
        stored = self._stored(progress, attempt.state, dropped=dropped)
        failpoint("delta.commit.before")
        try:
            attempt.transaction.commit(
                stored,
                writer=self._owner,
                add=add,
                remove=remove,
                metadata=metadata,
                note=progress.batch if data_change else "compacted",
                data_change=data_change,
            )
        except ReplicatorError:
            self.log.forget()
            if self._begin_checked().progress != progress:
                raise
        self._last, self._claimed = progress, True
        failpoint("delta.commit.after")

    def _stored(self, progress: TableProgress, state: State, *, dropped: bool | None = None) -> dict[str, Any]:
        """What our domain shall hold; the chunks of a finished snapshot stay known while its plan may be begun again."""
        chunks = progress.snapshot_chunks
        kept = state.stored or {}
        if chunks is None and kept.get("progress", {}).get("snapshotId") == progress.snapshot_id:
            loaded = kept.get("loadedChunks", [])
        else:
            loaded = sorted(chunks or ())
        return {
            "replicator": self._owner,
            "table": self.table.to_json(),
            "progress": progress.to_json(),
            "loadedChunks": loaded,
            "dropped": kept.get("dropped", False) if dropped is None else dropped,
        }

    def loaded_chunks(self, attempt: Attempt) -> frozenset[int]:
        """Indexes of the chunks in the table, of the snapshot it names; also once that is finished."""
        return frozenset((attempt.state.stored or {}).get("loadedChunks", []))

    def at(self, attempt: Attempt, position: Position, sequence: int = 0) -> TableProgress:
        """Progress of this run at `position`, snapshot state as it was."""
        if attempt.progress is None:
            return TableProgress(self._context.generation, self._context.epoch, position, sequence)
        return replace(
            attempt.progress,
            generation=self._context.generation,
            epoch=self._context.epoch,
            position=position,
            last_sequence=max(sequence, attempt.progress.last_sequence),
            batch="",
        )
