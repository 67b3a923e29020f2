"""Streams one table's rows as they arrive, and merges them by the eight steps of docs/seeds.md#000-bigquery.

Streaming and merging run in parallel: a flush takes the rows of its batch number, and rows that arrive meanwhile get the next.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from typing import Final

from replicator_sdk.batch import TableChanges
from replicator_sdk.errors import FencedError, RetryableError
from replicator_sdk.failpoint import failpoint, register
from replicator_sdk.offset import Position
from replicator_target_bigquery.batch.table_merge import TableMerge
from replicator_target_bigquery.merge_flush.intermediate.rows import RowFormat, streamed
from replicator_target_bigquery.merge_flush.intermediate.tables import IntermediateTable, IntermediateTables
from replicator_target_bigquery.merge_flush.merge_steps import Batch, MergeSteps
from replicator_target_bigquery.merge_flush.requirements import missing_columns, require_key
from replicator_target_bigquery.merge_flush.streaming.streams import Streams, WriteStream
from replicator_target_bigquery.schema.fields import Field
from replicator_target_bigquery.schema.names import column_names
from replicator_target_bigquery.schema.schema_check import require_match
from replicator_target_bigquery.schema.table_info import TableInfo
from replicator_target_bigquery.sql.pruning import add_keys, key_ranges
from replicator_target_bigquery.tables.target_table import TargetTable

register("merge_flush.made", "merge_flush.streamed")
_NOT_THERE: Final = "RPL-6514"


class TableFlush:
    """The merge flushes of one table. `take` is called by one thread at a time, everything else by any.

    Args:
        table: The table.
        streams: Takes rows.
        intermediates: Creates intermediate tables.
        pool: Runs merges.
        begin_load: Waits until the table may be loaded by a load job.
    """

    def __init__(
        self,
        table: TargetTable,
        streams: Streams,
        intermediates: IntermediateTables,
        pool: Executor,
        begin_load: Callable[[], None],
    ) -> None:
        self._table = table
        self._streams = streams
        self._intermediates = intermediates
        self._pool = pool
        self._begin_load = begin_load
        self._merges = MergeSteps(table)
        self._config = table.session.config
        self._state = threading.Condition()
        self._open = Batch(1)
        self._merging = False
        self._failure: Exception | None = None
        self._settled: Position | None = None
        self._taken: Position | None = None
        self._made: tuple[IntermediateTable, WriteStream] | None = None
        self._found: TableInfo | None = None  # a copy: during a merge the table is locked, and streaming continues

    # --- taking

    def take(self, changes: TableChanges) -> None:
        """Stream the changes; they are merged later. Nothing when the table has taken them already."""
        self._raise_failure()
        if self._has(changes):
            return
        require_key(changes.schema)
        try:
            if any(batch.unchanged for batch in changes.batches()):
                self._load(changes)
            else:
                self._stream(changes)
        except Exception as err:
            why = self._failed(err)  # some rows may be streamed, and must never be merged
            if why is err:
                raise
            raise why from err
        self._taken = changes.identity.position
        if self._is_due():
            self.begin()

    def _has(self, changes: TableChanges) -> bool:
        if self._taken is not None:
            return changes.identity.position <= self._taken
        with self._table.lock:
            if self._table.has(changes):
                return True
            progress = self._table.state().progress
            self._taken = progress.position if progress is not None else None
            return False

    def _stream(self, changes: TableChanges) -> None:
        _, stream = self._intermediate(changes)
        config = self._config
        row_format = RowFormat(
            column_names(changes.schema, config.metadata_columns),
            self._table.session.layout.encoding(changes.table, self._values(changes)),
            config.delete_enabled,
            config.big_query_partition_decorator,
            config.use_message_time_date_partitioning,
        )
        with self._state:
            batch = self._open
            batch.streaming = True
        try:
            self._add_keys(batch, changes, row_format.names)
            rows = self._streams.append(stream, streamed(changes, row_format, batch.number), changes.table)
            failpoint("merge_flush.streamed")
            with self._state:
                batch.add(rows, changes.identity)
        except Exception as err:
            with self._state:  # before the merge that waits for these rows goes on
                self._failure = self._failure or err
            raise
        finally:
            with self._state:
                batch.streaming = False
                self._state.notify_all()
        metrics = self._table.session.context.metrics
        metrics.count("bigquery.rows_streamed", rows, table=changes.table)

    def _add_keys(self, batch: Batch, changes: TableChanges, names: Mapping[str, str]) -> None:
        """Record which keys the batch touches, so that its MERGE reads no more of the destination than it must."""
        if batch.identity is None and self._found is not None:
            batch.ranges = key_ranges(changes.schema, self._found, names)
        add_keys(batch.ranges, changes)

    def _intermediate(self, changes: TableChanges) -> tuple[IntermediateTable, WriteStream]:
        """The intermediate table and its stream, created when there is none for this schema."""
        if self._made is not None and self._made[0].schema != changes.schema:
            self.settle()
            self._raise_failure()
            self.discard()
        if self._made is None:
            with self._table.lock:
                self._found = self._table.ensure_created(changes.schema)
                require_match(
                    changes, self._table.session.layout.target_fields(changes.schema, self._found.fields), self._found
                )
                intermediate = self._intermediates.create(self._table, changes.schema, self._values(changes))
            failpoint("merge_flush.made")
            self._made = (intermediate, self._streams.create(intermediate.path, changes.table))
        return self._made

    def _values(self, changes: TableChanges) -> tuple[Field, ...]:
        """The columns of a row's value; arrays and JSON have the forms that the destination has."""
        present = self._found.fields if self._found is not None else ()
        return self._table.session.layout.source_fields(changes.schema, present)

    def _load(self, changes: TableChanges) -> None:
        """Updates that lack columns: only mode batch's MERGE follows a missing value to the row that has it."""
        if not (self._config.upsert_enabled and self._config.delete_enabled):
            raise missing_columns(changes)
        self.settle()
        self._raise_failure()
        with self._table.lock:
            TableMerge(self._table, self._begin_load).apply(changes)
        with self._state:
            self._settled = changes.identity.position

    # --- merging

    def begin(self) -> None:
        """Start to merge what was streamed, unless a merge runs or nothing was streamed."""
        with self._state:
            if self._merging or self._failure is not None or self._open.identity is None:
                return
            batch, self._open = self._open, Batch(self._open.number + 1)  # step 1: later rows get the next number
            self._merging = True  # step 2: one at a time
        self._pool.submit(self._merge, batch)

    def settled(self) -> Position | None:
        """The position of the last merge; begins a merge when it is due.

        Raises:
            Exception: Why a merge failed.
        """
        self._raise_failure()
        if self._is_due():
            self.begin()
        return self._settled

    def _is_due(self) -> bool:
        """Whether enough rows wait, or have waited long enough."""
        batch, config = self._open, self._config
        if batch.identity is None:
            return False
        waited = 1000 * (time.monotonic() - batch.since)
        return 0 < config.merge_interval_ms <= waited or 0 < config.merge_records_threshold <= batch.rows

    def settle(self) -> None:
        """Merge everything streamed; returns when it is done, or has failed."""
        while True:
            with self._state:
                self._state.wait_for(lambda: not self._merging)
                if self._failure is not None or self._open.identity is None:
                    return
            self.begin()

    def _merge(self, batch: Batch) -> None:
        with self._state:  # step 3: rows with this number may still be on their way
            self._state.wait_for(lambda: not batch.streaming or self._failure is not None)
            if self._failure is not None:
                self._merging = False
                self._state.notify_all()
                return
            assert self._made is not None
            intermediate = self._made[0]
        try:
            self._merges.run(intermediate, batch)
        except Exception as err:  # noqa: BLE001 - raised by `settled`
            self._failed(err)
            return
        assert batch.identity is not None
        with self._state:
            self._settled, self._merging = batch.identity.position, False  # steps 6 and 7: the runtime calls `settled`
            self._state.notify_all()
        self._merges.clean(intermediate, batch.number)

    # --- discarding

    def discard(self) -> None:
        """Drop the intermediate table with all rows that were not merged. The next changes use another one."""
        made, self._made, self._taken = self._made, None, None
        with self._state:
            self._open = Batch(self._open.number + 1)
        if made is not None:
            self._intermediates.drop(made[0], self._table.table)

    def _failed(self, err: Exception) -> Exception:
        """Take no more changes, and merge none; returns why, which is a newer run where there is one."""
        why = self._why(err)
        with self._state:
            self._failure = self._failure or why
            self._merging = False
            self._state.notify_all()
        return why

    def _why(self, err: Exception) -> Exception:
        """The error; or that a newer run has the table, since it removes what this one streams into."""
        if isinstance(err, FencedError):
            return err
        try:
            with self._table.lock:
                self._table.forget()
                self._table.state()
        except FencedError as fenced:
            return fenced
        except Exception:  # noqa: BLE001 - the first error is more specific
            return err
        if getattr(err, "code", "") == _NOT_THERE:
            return RetryableError(
                "the intermediate table was removed before it was merged",
                code="RPL-6611",
                table=str(self._table.table),
                hint="nothing to do: its rows are streamed again; check that no other program deletes tables of the replicator",
            )
        return err

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure
