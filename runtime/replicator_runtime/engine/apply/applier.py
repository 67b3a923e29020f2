"""Applies batches to the target: several tables at once, or row by row."""

from __future__ import annotations

from abc import ABC, abstractmethod
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from replicator_runtime.engine.maintenance.table_locks import Held
from replicator_runtime.engine.run_state.error_policy import error_of_table
from replicator_runtime.engine.tables.table_creation import change_table, create_table
from replicator_sdk import BatchConsumer, ChangeBatch, DDLOperation, DeferredConsumer, DMLEvent, DMLOperation
from replicator_sdk.errors import DataError, FencedError, NeedsUserError
from replicator_sdk.failpoint import failpoint, register

if TYPE_CHECKING:
    from collections.abc import Iterator

    from replicator_runtime.engine.batching.batching import TableBatch
    from replicator_runtime.engine.letters.dead_letters import DeadLetters
    from replicator_runtime.engine.maintenance.table_locks import TableLocks
    from replicator_sdk import DDLEvent, EventConsumer, Offset, TableChanges, TableId

register("engine.table.before_apply", "engine.table.after_apply")


class Applier(ABC):
    """One consumer, one way to apply. Used by one thread at a time."""

    @property
    def deferred(self) -> DeferredConsumer | None:
        """The consumer, if what it applied is durable only when it says so; else None."""
        return None

    def is_deferred(self, table: TableId) -> bool:  # noqa: ARG002 - for appliers to which tables differ
        """Whether what is applied of the table is durable only when the consumer says so."""
        return self.deferred is not None

    @property
    def is_table_by_table(self) -> bool:
        """Whether one table's applies can be held by its lock while others go on."""
        return False

    @abstractmethod
    def apply(self, batches: list[TableBatch], offset: Offset) -> dict[TableId, Exception]:
        """Apply all tables' changes, durable on return unless `deferred`; the failures by table (the others are applied).

        Raises:
            FencedError: When any table was fenced.
        """

    @abstractmethod
    def apply_ddl(self, event: DDLEvent) -> None:
        """Apply one schema change, durable on return."""

    @abstractmethod
    def create_table(self, event: DDLEvent, generation: int, *, is_new: bool) -> None:
        """As `table_creation.create_table`."""

    @property
    @abstractmethod
    def follows_databases(self) -> bool:
        """As `EventConsumer.follows_databases`."""

    @abstractmethod
    def can_rename(self, former: TableId, table: TableId) -> bool:
        """As `EventConsumer.can_rename`."""

    def has_table(self, table: TableId) -> bool:  # noqa: ARG002 - for those that know
        """Whether the target has a table of that name, as far as it says."""
        return False

    def close(self) -> None:
        """End threads."""


class BatchApplier(Applier):
    """For consumers that take a table's changes at once.

    Args:
        consumer: The consumer.
        parallel_tables: At most so many tables are applied at once.
        locks: Held during each table's apply.
        letters: Where rows are put that the consumer, or the decoder, refuses; None where none is.
    """

    def __init__(
        self, consumer: BatchConsumer, parallel_tables: int, locks: TableLocks, letters: DeadLetters | None = None
    ) -> None:
        self._consumer = consumer
        self._letters = letters
        self._locks = locks
        self._pool = ThreadPoolExecutor(parallel_tables, thread_name_prefix="apply")

    @property
    def deferred(self) -> DeferredConsumer | None:
        """The consumer, when it defers its commits."""
        return self._consumer if isinstance(self._consumer, DeferredConsumer) else None

    @property
    def is_table_by_table(self) -> bool:
        """Not where the consumer commits in its own time."""
        return self.deferred is None

    def apply(self, batches: list[TableBatch], offset: Offset) -> dict[TableId, Exception]:  # noqa: ARG002 - rows need it
        """Apply the largest tables first, as many at once as the pool has threads; a table's own batches in order."""
        tables: dict[TableId, list[TableBatch]] = {}
        for item in sorted(batches, key=lambda item: -item.changes.rows):
            tables.setdefault(item.changes.table, [])
        for item in batches:
            tables[item.changes.table].append(item)
        futures = {table: self._pool.submit(self._apply_table, items) for table, items in tables.items()}
        outcomes = {table: future.exception() for table, future in futures.items()}
        failures = {table: error for table, error in outcomes.items() if isinstance(error, Exception)}
        for error in failures.values():
            if isinstance(error, FencedError):
                raise error
        return failures

    def apply_ddl(self, event: DDLEvent) -> None:
        """Apply the event."""
        with self._locks.hold({event.table, event.prev_table or event.table}):
            if event.operation is DDLOperation.TRUNCATE_TABLE and self._letters is not None:
                self._letters.truncate(self._consumer, event)
            change_table(self._consumer, event)

    def create_table(self, event: DDLEvent, generation: int, *, is_new: bool) -> None:
        """Create the event's table, empty."""
        with self._locks.hold({event.table}):
            create_table(self._consumer, event, generation, is_new=is_new)

    @property
    def follows_databases(self) -> bool:
        """The consumer's."""
        return self._consumer.follows_databases

    def can_rename(self, former: TableId, table: TableId) -> bool:
        """Ask the consumer."""
        return self._consumer.can_rename(former, table)

    def has_table(self, table: TableId) -> bool:
        """Whether the consumer knows its progress, or it is another's."""
        try:
            return self._consumer.progress(table) is not None
        except NeedsUserError:
            return True

    def close(self) -> None:
        """End threads."""
        self._pool.shutdown(wait=True)

    def _apply_table(self, items: list[TableBatch]) -> None:
        with self._locks.hold({item.changes.table for item in items}, Held.ROWS):
            for item in items:
                self._apply_one(item)

    def _apply_one(self, item: TableBatch) -> None:
        failpoint("engine.table.before_apply")
        try:
            refuse_unordered(item.changes, keeps_unmatched=self._consumer.keeps_unmatched)
            if self._letters is None:
                self._consumer.apply_batch(item.changes)
            else:
                self._letters.apply(self._consumer, item.changes)
        except Exception as error:
            raise error_of_table(error, item.changes.table, str(item.changes.identity.position)) from error
        failpoint("engine.table.after_apply")


class RowApplier(Applier):
    """For consumers that take rows one by one: in source order over all tables, then a COMMIT, then `flush`."""

    def __init__(self, consumer: EventConsumer, letters: DeadLetters | None = None) -> None:
        self._consumer = consumer
        self._letters = letters

    def apply(self, batches: list[TableBatch], offset: Offset) -> dict[TableId, Exception]:
        """Apply the changes row by row. A failure concerns all of them: which rows the consumer has taken is unknown."""
        for item in batches:
            refuse_unordered(item.changes, keeps_unmatched=False)
            if self._letters is not None:
                item.changes = self._letters.replaced(item.changes)
        rows = [event for item in batches for batch in item.changes.batches() for event in unroll(batch, offset)]
        rows.sort(key=lambda event: event.sequence_number)
        for event in rows:
            self._consumer.apply_dml(event)
        if rows:
            last = rows[-1].sequence_number
            self._consumer.apply_dml(DMLEvent(offset, DMLOperation.COMMIT, sequence_number=last))
        self._consumer.flush()
        return {}

    def apply_ddl(self, event: DDLEvent) -> None:
        """Apply the event."""
        self._consumer.apply_ddl(event)

    def create_table(self, event: DDLEvent, generation: int, *, is_new: bool) -> None:
        """Create the event's table, empty."""
        create_table(self._consumer, event, generation, is_new=is_new)

    @property
    def follows_databases(self) -> bool:
        """The consumer's."""
        return self._consumer.follows_databases

    def can_rename(self, former: TableId, table: TableId) -> bool:
        """Ask the consumer."""
        return self._consumer.can_rename(former, table)


def refuse_unordered(changes: TableChanges, *, keeps_unmatched: bool) -> None:
    """Refuse changes without an order where that decides which rows are left.

    Args:
        changes: What is to be applied.
        keeps_unmatched: As `BatchConsumer.keeps_unmatched`.

    Raises:
        DataError: RPL-5002 for a table with a key, RPL-5001 for removals of one without, which the target would drop.
    """
    if changes.unordered and changes.schema.primary_key:
        raise DataError(
            "keys have changes in several partitions of the log, whose order is unknown",
            code="RPL-5002",
            table=str(changes.table),
            position=str(changes.identity.position),
            hint="have all records of a key written to one partition of one topic, let the source's connector snapshot its tables again,"
            " set the source's `startFrom` to the time when that snapshot began, then `replicator reset PIPELINE`: every table is emptied and filled from the topics",
        )
    if keeps_unmatched:
        return
    if changes.unordered and not changes.inserts_only:
        raise DataError(
            "a table without a key has updates or deletes in several partitions of the log, and the target does not keep"
            " a delete whose row is not there yet",
            code="RPL-5001",
            table=str(changes.table),
            position=str(changes.identity.position),
            hint="give the records keys (Debezium: message.key.columns) or the topic one partition, or use the target delta, or bigquery in mode batch",
        )


def unroll(batch: ChangeBatch, offset: Offset) -> Iterator[DMLEvent]:
    """The batch's changes one by one."""
    rows: list[dict[str, Any]] = batch.row.to_pylist()
    before: list[dict[str, Any] | None] = [None] * len(rows) if batch.before is None else batch.before.to_pylist()
    unchanged = {name: mask.to_pylist() for name, mask in batch.unchanged.items()}
    key = batch.schema.primary_key
    for index, (op, row, old) in enumerate(zip(batch.op.to_pylist(), rows, before, strict=True)):
        gone = {name for name, mask in unchanged.items() if mask[index]}
        keyed = old is not None and not batch.before_is_full and bool(key)
        event = DMLEvent(
            offset,
            DMLOperation(op),
            batch.table,
            {} if op == DMLOperation.DELETE else {n: v for n, v in row.items() if n not in gone},
            {name: old[name] for name in key} if keyed and old is not None else old,
            frozenset(gone),
            is_snapshot=batch.is_snapshot,
        )
        numbers = batch.sequence_numbers
        yield event if numbers is None else replace(event, sequence_number=int(numbers[index]))
