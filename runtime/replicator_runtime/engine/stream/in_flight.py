"""The batches that are being applied while the next ones are read; one at a time, so that commits are in order."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from replicator_runtime.engine.run_state.attempt_end import Rejoin
from replicator_runtime.engine.stream.pending_acks import PendingAcks
from replicator_runtime.engine.stream.steps_after_copy import has_other_columns
from replicator_sdk.errors import SnapshotNeededError
from replicator_sdk.failpoint import failpoint, register
from replicator_sdk.timeline import step

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from replicator_runtime.engine.apply.active_tables import ActiveTables
    from replicator_runtime.engine.apply.applier import Applier
    from replicator_runtime.engine.batching.batching import TableBatch
    from replicator_runtime.engine.run_state.run import Run
    from replicator_sdk import DDLEvent, Offset, TableChanges, TableId

register("engine.batch.gathered", "engine.batch.applied")

_IDLE_SAVE_SECONDS = 10.0
_LOOK_SECONDS = 0.05


class InFlight:
    """Used by the engine's main thread; batches are applied in a thread of its own.

    Args:
        run: The run.
        applier: Applies.
        tables: The tables that take changes; their batcher gives the batches.
    """

    def __init__(self, run: Run, applier: Applier, tables: ActiveTables) -> None:
        self._run = run
        self._applier = applier
        self._tables = tables
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="flush")
        self._future: Future[dict[TableId, Exception]] | None = None
        self._applying: list[TableBatch] = []
        self._applying_until = (tables.batcher.offset, tables.batcher.sequence_number)
        self._applying_oldest = -1
        self._pending = PendingAcks(applier.deferred, tables.record_applied, applier.is_deferred)
        self._saved_at = self._looked_at = time.monotonic()

    @property
    def is_applying(self) -> bool:
        """Whether a batch is being applied, or maintenance runs."""
        return self._future is not None

    @property
    def is_settled(self) -> bool:
        """Whether everything begun is durable."""
        return self._future is None and not self._pending.waits

    @property
    def unsettled_tables(self) -> frozenset[TableId]:
        """The tables that may be further at the target than their watermark says: their changes are being applied, or are not durable."""
        return self._pending.tables | self._applying_tables

    @property
    def oldest_timestamp(self) -> int:
        """When the oldest change not durable, or else waiting, was committed at the source; -1 for none."""
        if self._pending.waits:
            return self._pending.oldest_timestamp
        return self._tables.batcher.oldest_timestamp if self._future is None else self._applying_oldest

    @property
    def waiting_tables(self) -> frozenset[TableId]:
        """The tables that have changes which wait, or are not durable yet."""
        return self._tables.batcher.waiting | self._applying_tables | self._pending.tables

    @property
    def _applying_tables(self) -> frozenset[TableId]:
        return frozenset(item.changes.table for item in self._applying)

    def begin_batch(self) -> None:
        """Begin applying everything that waits; the batch before it ends first."""
        self.finish_batch()
        batcher = self._tables.batcher
        self._applying_oldest = batcher.oldest_timestamp
        batches = self._checked(batcher.take())
        here = (batcher.offset, batcher.sequence_number)
        if batches:
            failpoint("engine.batch.gathered")
            self._applying, self._applying_until = batches, here
            self._future = self._pool.submit(self._timed_apply, batches, here[0])
        else:
            self._applying_until = here
            self._pending.mark(here)

    def _timed_apply(self, batches: list[TableBatch], until: Offset) -> dict[TableId, Exception]:
        began = time.monotonic()
        try:
            with step("batch.apply"):
                return self._applier.apply(batches, until)
        finally:
            self._run.metrics.took("apply", time.monotonic() - began)

    def poll(self) -> None:
        """Record the outcome of the batch if it has ended, and what the target has made durable meanwhile."""
        if self._future is not None and self._future.done():
            self.finish_batch()
        now = time.monotonic()
        if self._pending.waits and now - self._looked_at > _LOOK_SECONDS:
            self._looked_at = now
            if self._pending.poll():
                self.save()

    def flush(self) -> None:
        """Apply everything that waits; all of it is durable and saved on return, except for tables that failed."""
        self.begin_batch()
        self.finish_batch()
        self._pending.settle()
        self._run.archive.flush()
        self.save()

    def apply_before(self, event: DDLEvent) -> bool:
        """Apply what is before `event` in its table, durable on return; the batch that is being applied ends first.

        Returns:
            Whether the table takes changes then. When it failed, the event must wait like the changes before it: the
            table's position would pass them, and no replay would bring them again.
        """
        self.finish_batch()
        before = self._checked(self._tables.batcher.cut(event))
        failures = self._timed_apply(before, self._tables.batcher.offset)
        for item in before:
            item.close()
        self._pending.take([item.applied for item in before], failures)
        self._pending.settle({event.table})
        return event.table in self._tables.watermarks

    def _checked(self, batches: list[TableBatch]) -> list[TableBatch]:
        """The batches, none of which would write values to other columns than their table was copied with.

        Raises:
            Rejoin: When changes of structure around a table's copy undo each other: the log announces nothing then. The
                table is copied again.
        """
        for item in batches:
            changes = item.changes
            copied = self._tables.copied_before(changes.table, changes.identity.position)
            if copied is not None and has_other_columns(copied, changes.schema):
                for each in batches:
                    each.close()
                self._tables.failed(changes.table, _altered_since_copy(changes))
                raise Rejoin
        return batches

    def finish_batch(self) -> None:
        """Wait for the batch that is being applied, and record its outcome."""
        if self._future is None:
            return
        future, applied, self._future, self._applying = self._future, self._applying, None, []
        try:
            failures = future.result()
        finally:
            for item in applied:
                item.close()
        failpoint("engine.batch.applied")
        self._pending.take([item.applied for item in applied], failures)
        self._pending.mark(self._applying_until, self._applying_oldest)
        self.save()

    def save(self) -> None:
        """Save how far everything is durable, unless a table needs the offset held."""
        self._run.archive.flush(only_when_due=True)
        if self._tables.holds_offset:
            return
        here = self._pending.reached()
        if here is not None:
            self._tables.lanes.save_ends()
            self._run.save_offset(*here)
            self._saved_at = time.monotonic()

    def save_when_idle(self) -> None:
        """The same every few seconds while there is nothing to apply, since the offset advances nevertheless."""
        batcher, now = self._tables.batcher, time.monotonic()
        if batcher.empty and self.is_settled and now - self._saved_at > _IDLE_SAVE_SECONDS:
            self._applying_until = (batcher.offset, batcher.sequence_number)
            self._pending.mark(self._applying_until)
            self.save()
            self._saved_at = now

    def run_alone(self, work: Callable[[], None], is_urgent: bool) -> bool:
        """Begin `work` in the thread that applies, so that it never meets an apply; returns whether it does.

        It does not while a batch is under way, unless `work` is urgent: then the batch ends first.
        """
        if self._future is not None:
            if not is_urgent:
                return False
            self.finish_batch()
        self._pending.settle()
        self.save()
        self._future = self._pool.submit(_without_failures, work)
        return True

    def close(self) -> None:
        """Wait for the batch and free its space; the next attempt asks the target what it did."""
        self._pool.shutdown(wait=True)
        for item in self._applying:
            item.close()


def _altered_since_copy(changes: TableChanges) -> SnapshotNeededError:
    return SnapshotNeededError(
        "the log has other columns than the table's copy, and announced no change",
        code="RPL-4104",
        table=str(changes.table),
        position=str(changes.identity.position),
        hint="nothing to do: the table is copied again",
    )


def _without_failures(work: Callable[[], None]) -> dict[TableId, Exception]:
    work()
    return {}
