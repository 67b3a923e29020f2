"""A slice of a distributed log: executors read and write its parts, the driver joins them to one commit a table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyroaring import BitMap64

from replicator_sdk.batch import BatchIdentity, combined
from replicator_sdk.context import DeltaTargetContext
from replicator_sdk.distributed.executors import run_large_work_on_executors
from replicator_sdk.distributed.slice_tasks import JoinedResults, TaskResult, failures_of
from replicator_sdk.distributed.slices import SliceChanges, SliceOutcome, TableTally, share
from replicator_sdk.errors import DataError
from replicator_sdk.failpoint import failpoint, register
from replicator_sdk.net_change import encode_rows
from replicator_sdk.row_versions.version_columns import now
from replicator_sdk.schema import TableId
from replicator_target_delta.apply.keyed import in_several_partitions
from replicator_target_delta.apply.pruning import prepare
from replicator_target_delta.apply.row_removal import FileChanges, Written
from replicator_target_delta.apply.slice_task import PartitionsApply, TablePart, TableTarget
from replicator_target_delta.apply.table_apply import fitting_state
from replicator_target_delta.config import DeltaConfig
from replicator_target_delta.file_index.file_index import Slot
from replicator_target_delta.files.live_files import DataFile
from replicator_target_delta.log.table_state import State
from replicator_target_delta.schema.table_form import TableForm, form_of
from replicator_target_delta.table import Attempt, TargetTable
from replicator_target_delta.versions.version_columns import end_column

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

register("delta.slice.written", "delta.slice.vectors_written")


@dataclass(frozen=True, slots=True)
class _Begun:
    """A table's transaction: open since before the executors began, so that whatever others write meanwhile is noticed."""

    table: TargetTable
    attempt: Attempt
    state: State
    metadata: dict[str, Any] | None
    form: TableForm

    @property
    def highest(self) -> int:
        """The highest sequence number in the table."""
        return 0 if self.attempt.progress is None else self.attempt.progress.last_sequence


class SliceApply:
    """Applies one slice; made for it, used once.

    Args:
        tables: Gives a target's table.
        config: The target's settings.
        context: The run's.
        spark: Whose executors work.
        pool: Works on several tables at once; outlives the slice, since each of its threads has a way into the JVM.
        changes: The slice.
    """

    def __init__(
        self,
        tables: Callable[[TableId], TargetTable],
        config: DeltaConfig,
        context: DeltaTargetContext,
        spark: SparkSession,
        pool: ThreadPoolExecutor,
        changes: SliceChanges,
    ) -> None:
        self._tables = tables
        self._config = config
        self._context = context
        self._spark = spark
        self._pool = pool
        self._changes = changes
        self._identity: BatchIdentity = changes.identity
        self._begun: dict[TableId, _Begun] = {}
        self._applied: dict[TableId, TableTally] = {}
        self._failures: dict[TableId, Exception] = {}

    def run(self) -> SliceOutcome:
        """See `RangeConsumer.apply_slice`."""
        hinted = self._changes.slice.tables
        wanted = [table for table in self._changes.tables if hinted is None or table in hinted]
        self._each(self._begin, wanted)
        done = JoinedResults.of(self._changes.slice, self._write())
        failpoint("delta.slice.written")
        self._each(lambda t: self._commit(t, done.parts[t], done.valid_through), done.ready)
        return SliceOutcome(self._applied, self._failures, done.seen, done.valid_through)

    def _each(self, work: Callable[[TableId], None], tables: Iterable[TableId]) -> None:
        self._failures.update(failures_of(self._pool, work, tables))

    def _begin(self, table_id: TableId) -> None:
        """Open the table's transaction, unless the table has the slice's end already."""
        table = self._tables(table_id)
        with table.lock:
            attempt = table.begin()
            if attempt.has_reached(self._identity.position):
                self._applied[table_id] = TableTally()
                return
            table.ownership.check_follows(attempt.record, self._changes.follows.get(table_id))
            schema = self._changes.tables[table_id]
            form = form_of(self._config, schema)
            state, metadata = fitting_state(attempt, schema, form, self._identity.position)
            prepare(state.files, [state.layout[name].arrow for name in schema.primary_key], end_column(state))
            self._begun[table_id] = _Begun(table, attempt, state, metadata, form)

    def _write(self) -> list[TaskResult[TablePart]]:
        """Have the executors read the slice and write files."""
        context = self._spark.sparkContext
        tasks = share(self._changes.slice.partitions, context.defaultParallelism)
        work = PartitionsApply(
            self._changes.read,
            {
                table: TableTarget(
                    self._changes.tables[table],
                    begun.state,
                    begun.table.log.storage.root,
                    begun.form,
                    begun.highest,
                    now(),
                )
                for table, begun in self._begun.items()
            },
            self._identity,
            self._changes.overlap,
            self._config.target_file_bytes,
            self._config.soft_deletes,
            len(tasks) > 1,
        )
        return run_large_work_on_executors(self._spark, work, tasks, lambda: self._context.is_stopping)

    def _commit(self, table_id: TableId, parts: list[TablePart], valid: int) -> None:
        """Join the parts of all tasks and commit them with the progress."""
        tally = sum((part.tally for part in parts), TableTally())
        for part in parts:
            if part.error is not None:
                raise part.error
        if not self._changes.tables[table_id].primary_key:
            self._require_order(table_id, tally)
        if keys := keys_in_several(parts):
            raise in_several_partitions(table_id, self._identity.position, keys)
        begun = self._begun[table_id]
        with begun.table.lock:
            files = self._files(begun, parts)
            failpoint("delta.slice.vectors_written")
            highest = max([self._identity.last_sequence, *(part.highest for part in parts)])
            progress = replace(self._changes.progress(table_id, tally), valid_through=valid, last_sequence=highest)
            begun.table.commit(begun.attempt, progress, add=files.add, remove=files.remove, metadata=begun.metadata)
        self._applied[table_id] = tally
        if missing := sum(part.missing for part in parts):
            self._context.metrics.count("dml.missing", missing, table=table_id)

    def _files(self, begun: _Begun, parts: list[TablePart]) -> FileChanges:
        """All new files, and the old ones without the rows that any part removed; keys differ, so the rows do."""
        gone: dict[Slot, tuple[int, BitMap64]] = {}
        for part in parts:
            for place, rows, packed in part.removed:
                gone.setdefault(place, (rows, BitMap64()))[1].update(BitMap64.deserialize(packed))
        add = [DataFile(action) for part in parts for action in part.add]
        removed = [
            (begun.state.files.file_at(place), rows, np.array(positions.to_array(), np.int64))
            for place, (rows, positions) in gone.items()
        ]
        return Written(add, removed).to_changes(begun.table.log.storage, begun.state.files)

    def _require_order(self, table: TableId, tally: TableTally) -> None:
        """Refuse removals whose rows may be in another partition or slice, and rows for which stored removals wait.

        Raises:
            DataError: RPL-5404.
        """
        removes = not tally.inserts_only and (tally.partitions > 1 or tally.is_unordered)
        if not removes and not self._begun[table].state.unmatched:
            return
        raise DataError(
            "a table without a key has updates or deletes whose rows may be in another partition or topic, and their order is unknown",
            code="RPL-5404",
            table=str(table),
            position=str(self._identity.position),
            hint="set the source's `distributed` to false, give it a key at the source, or have all its records in one partition of a topic that ends with the table's name",
        )


def keys_in_several(parts: Sequence[TablePart]) -> int:
    """How many keys more than one task has changes of: two of them found the same row, or neither found one.

    Each would write a row of its own. The keys of rows that are new to the table are all that the driver ever gets of a
    slice's content, and only of this one slice.
    """
    found: dict[Slot, BitMap64] = {}
    rows = 0
    for place, _, packed in (removed for part in parts for removed in part.removed):
        positions = BitMap64.deserialize(packed)
        rows += len(positions)
        found.setdefault(place, BitMap64()).update(positions)
    twice = rows - sum(map(len, found.values()))
    if sum(bool(part.new_keys) for part in parts) > 1:
        keys = pa.concat_tables([keys for part in parts for keys in part.new_keys])
        twice += keys.num_rows - encode_rows([combined(column) for column in keys.columns])[1]
    return twice
