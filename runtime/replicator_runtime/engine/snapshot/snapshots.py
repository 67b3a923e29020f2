"""Copies the existing rows of tables, several at once, for as long as the run lasts."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import TYPE_CHECKING

from replicator_runtime.engine.preparation.discovery import describe_again
from replicator_runtime.engine.run_state.attempt_end import SnapshotsStopped
from replicator_runtime.engine.run_state.plugin_contexts import SourceContext, TargetContext
from replicator_runtime.engine.snapshot.table_copy import TableCopy

if TYPE_CHECKING:
    from collections.abc import Sequence
    from concurrent.futures import Future

    from replicator_runtime.engine.lifecycle.copies import Copy
    from replicator_runtime.engine.lifecycle.table_lifecycle import TableLifecycle
    from replicator_runtime.engine.tables.table_store import TableRecord
    from replicator_sdk import EventConsumer, EventReaderDefinition, SnapshotReader, TableId


class Snapshots:
    """The copies of a run, and those to try again. Used by the engine's main thread; each copy has a thread of its own.

    A target that loads chunks has a consumer for them which no attempt stops, so that a copy goes on while the stream
    begins again. The two consumers never work on one table: a table takes changes when its copy has ended.

    Args:
        lifecycle: Of all tables; it keeps which copies run.
        consumer: Takes the rows one by one, and stays its owner's; None for a target that loads chunks.
    """

    def __init__(self, lifecycle: TableLifecycle, consumer: EventConsumer | None = None) -> None:
        self._lifecycle = lifecycle
        self._run = lifecycle.run
        self._consumer = consumer
        self._exit = ExitStack()
        self._pool: ThreadPoolExecutor | None = None
        self._sides: dict[frozenset[TableId], tuple[SnapshotReader, EventConsumer]] = {}
        self._definition: EventReaderDefinition
        self._later: list[TableRecord] = []

    def begin_attempt(self) -> None:
        """Find which copies ended since the attempt before; those that wait to be tried again are given to `begin` again.

        Raises:
            Exception: As `poll`.
        """
        self._later = []
        self._take_ended()

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
        for record in records:
            if self._lifecycle.is_waiting(record):
                self._later.append(record)
            else:
                self._lifecycle.try_again(record)
                self._lifecycle.copies.begin(record, self._submit)

    @property
    def waiting(self) -> bool:
        """Whether any is to be tried again later."""
        return bool(self._later)

    @property
    def running(self) -> bool:
        """Whether any is not done."""
        return self._lifecycle.copies.running

    def poll(self) -> bool:
        """Start those whose delay is over, and find which ended; one that failed waits or stops alone.

        Returns:
            Whether any table is copied now.

        Raises:
            Exception: What concerns more than one table.
        """
        due = [record for record in self._later if not self._lifecycle.is_waiting(record)]
        self._later = [record for record in self._later if record not in due]
        self._begin([record for record in due if describe_again(self._lifecycle, record)])
        return self._take_ended()

    def _take_ended(self) -> bool:
        copied = False
        for record, error in self._lifecycle.copies.take_ended():
            if error is None:
                copied = True
            elif isinstance(error, SnapshotsStopped):
                raise error
            elif self._lifecycle.fail(record, error):
                self._later.append(record)
        return copied

    def close(self) -> None:
        """End all copies after the chunks that are being loaded, and wait for them; more may begin afterwards."""
        self._lifecycle.copies.end_all()
        self._later = []
        if self._pool is not None:
            self._pool.shutdown(wait=True)
            self._pool = None
        self._sides.clear()
        self._exit.close()

    def _submit(self, copy: Copy) -> Future[None]:
        reader, consumer = self._reader_and_consumer()
        if self._pool is None:
            at_once = self._run.limits.parallel_tables if self._consumer is None else 1
            self._pool = ThreadPoolExecutor(at_once, thread_name_prefix="snapshot")
        return self._pool.submit(TableCopy(self._lifecycle, reader, consumer, copy).run)

    def _reader_and_consumer(self) -> tuple[SnapshotReader, EventConsumer]:
        """Those of the present definition; created when the first copy needs them, and kept until `close`."""
        pipeline, narrowed = self._run.pipeline, self._definition.narrowed
        if narrowed not in self._sides:
            with ExitStack() as created:
                reader = pipeline.source.create_snapshot_reader(self._definition, SourceContext(self._run))
                assert reader is not None, "asked when the attempt began"
                created.callback(reader.close)
                consumer = self._consumer
                if consumer is None:
                    consumer = pipeline.target.create_consumer(TargetContext(self._run))
                    created.callback(consumer.stop)
                    consumer.start()
                self._exit.push(created.pop_all())
            self._sides[narrowed] = (reader, consumer)
        return self._sides[narrowed]
