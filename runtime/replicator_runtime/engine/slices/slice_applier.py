"""Has the target apply a slice to some tables, which follow the schemas that are read, and records what came of it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from replicator_runtime.engine.apply.operation_filter import FilteringReader
from replicator_runtime.engine.maintenance.table_locks import Held
from replicator_runtime.engine.run_state.error_policy import Verdict, verdict
from replicator_sdk import DMLOperation, Position, SliceChanges, SliceOutcome, TableTally
from replicator_sdk.errors import ReplicatorError
from replicator_sdk.timeline import step

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from replicator_runtime.engine.apply.active_tables import ActiveTables
    from replicator_runtime.engine.lifecycle.table_lifecycle import TableLifecycle
    from replicator_runtime.engine.maintenance.table_locks import TableLocks
    from replicator_sdk import DistributedLog, LogPartitionReader, LogSlice, Offset, RangeConsumer, TableId, TableSchema

_WRITING = {int(DMLOperation.INSERT), int(DMLOperation.UPDATE)}


class SliceApplier:
    """Used by the engine's main thread.

    Args:
        lifecycle: Of all tables.
        source: Reads partitions.
        consumer: Applies.
        tables: The tables that take changes.
        follow: As `SliceSchemas.follow`.
        locks: Held while the target applies.
        on_failure: Called for each table that failed, with its error and the slice's end. It decides; the table takes changes no more.
        alone: Whether these tables are read by themselves, after the others have passed: a table that is not known is no concern of
            theirs, and without them nothing is applied.
    """

    def __init__(
        self,
        lifecycle: TableLifecycle,
        source: DistributedLog,
        consumer: RangeConsumer,
        tables: ActiveTables,
        follow: Callable[[Sequence[TableSchema], Offset, frozenset[TableId]], bool],
        locks: TableLocks,
        on_failure: Callable[[TableId, Exception, Offset], None],
        *,
        alone: bool = False,
    ) -> None:
        self._lifecycle = lifecycle
        self._run = lifecycle.run
        self._source = source
        self._consumer = consumer
        self._tables = tables
        self._follow = follow
        self._locks = locks
        self._on_failure = on_failure
        self._alone = alone

    def apply(self, piece: LogSlice, current: Offset) -> TableTally:
        """Apply `piece` to all tables; again for those whose schema had to change first. Returns what it counted.

        Args:
            piece: Begins at `current`.
            current: Where all tables are, or after it.

        Raises:
            Exception: A failure that concerns more than one table.
        """
        whole = TableTally()
        while True:
            changes = self._changes(piece)
            with self._locks.hold(self._tables.watermarks, Held.ROWS):
                began = time.monotonic()
                with step("slice.apply"):
                    outcome = self._outcome(changes)
                self._run.metrics.took("apply", time.monotonic() - began)
            whole = sum(outcome.applied.values(), whole)
            self._landed(piece, outcome)
            wanted = changes.tables.keys() - outcome.applied.keys() - outcome.failures.keys()
            seen = outcome.seen
            if self._alone:
                seen = tuple(schema for schema in seen if schema.table in self._tables.watermarks)
            if not self._follow(seen, current, frozenset(wanted)):
                return whole

    def _changes(self, piece: LogSlice) -> SliceChanges:
        end, marks = Position(piece.end), self._tables.watermarks
        records = self._lifecycle.records
        tables = {t: records[t].schema for t, watermark in marks.items() if not end <= watermark.position}
        dropped = self._dropped_operations(marks)
        read: LogPartitionReader = FilteringReader(self._source.read, dropped) if dropped else self._source.read
        overlap = self._source.repeats or bool(dropped)
        lacking = frozenset(table for table, operations in dropped.items() if operations & _WRITING)
        known = {table: self._follows(table) for table in tables}
        follows = {table: position for table, position in known.items() if position is not None}
        run = self._run
        counted = run.totals.before_slice(tables)
        return SliceChanges(piece, read, tables, run.generation, run.epoch, overlap, lacking, follows, counted)

    def _follows(self, table: TableId) -> Position | None:
        """Where the target's table is at least. One that is read alone is further by what it has passed without changes of its own."""
        if self._alone:
            return self._lifecycle.positions.last(table, self._lifecycle.records[table].copy_id)
        return self._tables.watermarks[table].position

    def _dropped_operations(self, tables: Mapping[TableId, object]) -> dict[TableId, frozenset[int]]:
        matches = self._run.pipeline.selection.matches
        selected = {table: matches(table) for table in tables}
        return {t: frozenset(map(int, s.dml_blacklist)) for t, s in selected.items() if s and s.dml_blacklist}

    def _outcome(self, changes: SliceChanges) -> SliceOutcome:
        """Apply; when one table's records cannot be read and it may stop alone, apply the others' without it.

        Also when every table is at the slice's end already: the slice may hold a table that is not known yet.
        """
        if self._alone and not changes.tables:
            return SliceOutcome()
        try:
            return self._consumer.apply_slice(changes)
        except ReplicatorError as error:
            bad = next((t for t in changes.tables if str(t) == error.table), None)
            if bad is None or verdict(error, isolate=True) is not Verdict.TABLE:
                raise
            self._on_failure(bad, error, changes.slice.end)
            return self._outcome(self._changes(changes.slice))

    def _landed(self, piece: LogSlice, outcome: SliceOutcome) -> None:
        """Record the outcome of each table.

        Raises:
            Exception: A failure that concerns more than its table.
        """
        run = self._run
        for table, tally in outcome.applied.items():
            self._tables.watermarks[table].position = Position(piece.end)
            self._lifecycle.positions.reached(table, self._lifecycle.records[table].copy_id, Position(piece.end))
            run.progress.applied(table, tally.rows, tally.newest)
            counts = {"dml.insert": tally.inserts, "dml.update": tally.updates, "dml.delete": tally.deletes}
            run.totals.add(table, self._lifecycle.records[table].copy_id, Position(piece.end), counts)
            self._lifecycle.progressed(table)
        if not self._alone:
            self._report_time(outcome)
        for table, error in outcome.failures.items():
            self._on_failure(table, error, piece.end)

    def _report_time(self, outcome: SliceOutcome) -> None:
        newest = max((tally.newest for tally in outcome.applied.values()), default=-1)
        self._run.progress.read(False, newest if outcome.valid_through < 0 else outcome.valid_through)
        if outcome.valid_through >= 0:
            self._run.metrics.gauge("source.valid_through", outcome.valid_through / 1e6)
