"""Copies the existing rows of tables, several at once, for as long as the run lasts."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from replicator_runtime.engine.preparation.description import describe_again
from replicator_runtime.engine.preparation.low_watermarks import copied_watermark
from replicator_runtime.engine.run_state.attempt_end import SnapshotsStopped
from replicator_runtime.engine.run_state.error_policy import belongs_to_table
from replicator_runtime.engine.snapshot.copy_order import CopyOrder
from replicator_runtime.engine.snapshot.table_copy import TableCopy
from replicator_runtime.engine.snapshot.throttle import Throttle
from replicator_sdk.errors import ReplicatorError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from concurrent.futures import Future

    from replicator_runtime.engine.lifecycle.copies import Copy
    from replicator_runtime.engine.lifecycle.table_lifecycle import TableLifecycle
    from replicator_runtime.engine.tables.table_store import TableRecord
    from replicator_runtime.engine.tables.table_watermark import TableWatermark
    from replicator_sdk import EventConsumer, EventReaderDefinition, TableId


class Snapshots:
    """The copies of a run, and those to try again. Used by the engine's main thread; each copy has a thread of its own.

    For a target that loads chunks each copy has a consumer of its own, which no attempt stops: the copy goes on while the
    stream begins again. Two consumers never work on one table: a table takes changes when its copy has ended.

    Args:
        lifecycle: Of all tables; it keeps which copies run.
        consumer: Takes the rows one by one and stays its owner's; None for a target that loads chunks.
        throttle: Of the run's copies; a new one when left out.
    """

    def __init__(
        self, lifecycle: TableLifecycle, consumer: EventConsumer | None = None, throttle: Throttle | None = None
    ) -> None:
        self._lifecycle = lifecycle
        self._run = lifecycle.run
        self._consumer = consumer
        at_once = self._run.limits.parallel_tables if consumer is None else 1
        self._pool = ThreadPoolExecutor(at_once, thread_name_prefix="snapshot")
        self._order = CopyOrder(self._run.config.snapshot.order)
        self._throttle = throttle or Throttle(self._run.config.snapshot.max_rows_per_second)
        self._definition: EventReaderDefinition
        self._later: list[TableRecord] = []
        self._copied: set[TableId] = set()

    def begin_attempt(self) -> bool:
        """Find which copies ended since the attempt before; those that wait to be tried again are given to `begin` again.

        Returns:
            Whether a table is whole now.

        Raises:
            Exception: As `poll`.
        """
        self._later = []
        copied = self._take_ended()
        self._copied = set()
        return copied

    def begin(self, records: Sequence[TableRecord], definition: EventReaderDefinition) -> None:
        """Queue the copies of `records` that have none; those that failed are queued when their delay is over.

        Args:
            records: The tables whose rows are to be copied.
            definition: For the source's reader.
        """
        self._definition = definition
        later = {record.table for record in self._later}
        self._begin([record for record in records if not record.copying and record.table not in later])

    def _begin(self, records: Sequence[TableRecord]) -> None:
        for record in self._order.sorted(records):
            if self._lifecycle.is_waiting(record):
                self._later.append(record)
            else:
                self._lifecycle.try_again(record)
                self._lifecycle.copies.begin(record, self._submit)

    @property
    def throttle(self) -> Throttle:
        """How fast they read."""
        return self._throttle

    @property
    def waiting(self) -> bool:
        """Whether any is to be tried again later."""
        return bool(self._later)

    @property
    def running(self) -> bool:
        """Whether any is not done, or `poll` has not seen yet that it is."""
        return self._lifecycle.copies.running

    def poll(self) -> bool:
        """Start those whose delay is over, and find which ended; one that failed waits or stops alone.

        Returns:
            Whether any table is copied now.

        Raises:
            Exception: What concerns more than one table.
        """
        self._later = [record for record in self._later if record.table not in self._lifecycle.stopped]
        due = [record for record in self._later if not self._lifecycle.is_waiting(record)]
        self._later = [record for record in self._later if self._lifecycle.is_waiting(record)]
        self._begin([record for record in due if self._is_still_there(record)])
        return self._take_ended()

    def copied_watermarks(self) -> dict[TableId, TableWatermark]:
        """The watermarks of the tables that were copied beside this attempt, which applies none of their changes."""
        records = [self._lifecycle.records[table] for table in self._copied if table in self._lifecycle.records]
        return {
            r.table: copied_watermark(r.snapshot)
            for r in records
            if r.snapshot is not None and r.snapshot.done and not r.copying
        }

    def _is_still_there(self, record: TableRecord) -> bool:
        """Whether a table whose copy failed can be copied again; one that cannot be described stops alone."""
        isolate = self._run.config.on_table_error == "isolate"
        try:
            return describe_again(self._lifecycle, record)
        except ReplicatorError as error:
            if not belongs_to_table(error, record.table, isolate=isolate):
                raise
            if self._lifecycle.fail(record, error):
                self._later.append(record)
            return False

    def _take_ended(self) -> bool:
        copied = False
        for record, error in self._lifecycle.copies.take_ended():
            if error is None:
                copied = True
                self._copied.add(record.table)
            elif isinstance(error, SnapshotsStopped):
                raise error
            elif self._lifecycle.fail(record, error):
                self._later.append(record)
        return copied

    def end_all(self) -> None:
        """End all copies after the chunks that are being loaded, and wait for them; an attempt begins them again."""
        self._lifecycle.copies.end_all()
        self._later = []

    def close(self) -> None:
        """The same; none begins afterwards."""
        self.end_all()
        self._pool.shutdown(wait=True)

    def _submit(self, copy: Copy) -> Future[None]:
        return self._pool.submit(TableCopy(self._lifecycle, copy, self._definition, self._consumer, self._throttle).run)
