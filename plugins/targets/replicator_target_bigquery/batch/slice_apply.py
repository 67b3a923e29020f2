"""A slice of a log: executors read it and write its changes to the bucket, the driver loads and merges them table by table."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace

from replicator_sdk.batch import BatchIdentity, TableChanges
from replicator_sdk.distributed.executors import run_large_work_on_executors
from replicator_sdk.distributed.slice_tasks import JoinedResults, TaskResult, failures_of
from replicator_sdk.distributed.slices import SliceChanges, SliceOutcome, TableTally, share
from replicator_sdk.failpoint import failpoint, register
from replicator_sdk.schema import TableId, TableSchema
from replicator_target_bigquery.api.jobs import now_microseconds
from replicator_target_bigquery.batch.slice_task import PartitionsStaging, TablePart, TableStaging
from replicator_target_bigquery.batch.staging import (
    Touched,
    batch_id,
    ensure_staging_table,
    load,
    upload_of,
    wanted_fields,
)
from replicator_target_bigquery.batch.staging_rows import BatchStamp
from replicator_target_bigquery.batch.table_merge import TableMerge
from replicator_target_bigquery.load.uploads import Upload
from replicator_target_bigquery.schema.names import column_names
from replicator_target_bigquery.sql.pruning import KeyRanges, key_ranges
from replicator_target_bigquery.tables.target_table import Session, TargetTable

register("bigquery.slice.begun", "bigquery.slice.written")


@dataclass(frozen=True, slots=True)
class _Begun:
    """A table to which the executors may write."""

    table: TargetTable
    staging: TableStaging
    upload: Upload


class SliceApply:
    """Applies one slice; made for it, used once.

    Args:
        tables: Gives a target's table.
        session: What all tables share.
        pool: Works on several tables at once.
        changes: The slice.
    """

    def __init__(
        self, tables: Callable[[TableId], TargetTable], session: Session, pool: Executor, changes: SliceChanges
    ) -> None:
        self._tables = tables
        self._session = session
        self._pool = pool
        self._changes = changes
        self._identity: BatchIdentity = changes.identity
        self._begun: dict[TableId, _Begun] = {}
        self._applied: dict[TableId, TableTally] = {}
        self._failures: dict[TableId, Exception] = {}

    def run(self) -> SliceOutcome:
        """See `RangeConsumer.apply_slice`."""
        hinted = self._changes.slice.tables
        self._each(self._begin, [table for table in self._changes.tables if hinted is None or table in hinted])
        failpoint("bigquery.slice.begun")
        written: Iterable[TableId] = self._begun
        try:
            done = JoinedResults.of(self._changes.slice, self._write())
            failpoint("bigquery.slice.written")
            written = done.parts
            self._each(lambda t: self._commit(t, done.parts[t], done.valid_through), done.ready)
        finally:
            list(self._pool.map(lambda table: self._begun[table].upload.remove(), list(written)))
        return SliceOutcome(self._applied, self._failures, done.seen, done.valid_through)

    def _each(self, work: Callable[[TableId], None], tables: Iterable[TableId]) -> None:
        self._failures.update(failures_of(self._pool, work, tables))

    def _begin(self, table_id: TableId) -> None:
        """Prepare how the table's changes are staged, unless the table has the slice's end already."""
        table, schema = self._tables(table_id), self._changes.tables[table_id]
        with table.lock:
            if table.state().has_reached(self._identity.position):
                self._applied[table_id] = TableTally()
                return
            found = table.ensure_created(schema)
            names = column_names(schema, self._session.config.metadata_columns)
            fields, upload = wanted_fields(table, schema), upload_of(table)
            # Unlike a stream's batch, a slice that comes again in the same run is staged again: its tasks have written other files.
            stamp = BatchStamp(batch_id(table, self._identity, schema, uuid.uuid4().hex[:8]), now_microseconds())
            encoding = self._session.layout.encoding(table_id, fields)
            pruned = {name: kept.column for name, kept in key_ranges(schema, found, names).items()}
            staging = TableStaging(schema, names, fields, encoding, pruned, stamp, upload.folder)
            self._begun[table_id] = _Begun(table, staging, upload)

    def _write(self) -> list[TaskResult[TablePart]]:
        """Have the executors read the slice and write files."""
        session = self._session
        spark = session.context.spark()
        tasks = share(self._changes.slice.partitions, spark.sparkContext.defaultParallelism)
        staging = {table: begun.staging for table, begun in self._begun.items()}
        changes = self._changes
        work = PartitionsStaging(changes.read, staging, self._identity, changes.overlap, session.config)
        return run_large_work_on_executors(spark, work, tasks, lambda: session.context.is_stopping)

    def _commit(self, table_id: TableId, parts: list[TablePart], valid: int) -> None:
        """Load the files of all tasks and merge them with the progress."""
        for part in parts:
            if part.error is not None:
                raise part.error
        begun = self._begun[table_id]
        tally = sum((part.tally for part in parts), TableTally())
        facts = self._facts(begun.staging.schema, tally)
        table = begun.table
        with table.lock:
            if table.has(facts):
                self._applied[table_id] = TableTally()
                return
            for part in parts:
                begun.upload.add(part.files)
            fields = ensure_staging_table(table, begun.staging.schema)
            staged = load(table, begun.upload, begun.staging.stamp, fields)
            progress = replace(self._changes.progress(table_id, tally), valid_through=valid)
            row = table.row(progress, f"batch-{self._identity}")
            what = _together(parts, tally.partitions)
            TableMerge(table, lambda: None).apply_staged(facts, row, staged, what)
        self._applied[table_id] = tally

    def _facts(self, schema: TableSchema, tally: TableTally) -> TableChanges:
        """What the table's changes are, without the changes: those never come here."""
        several = not schema.primary_key and tally.partitions > 1
        waits = schema.table not in self._changes.lacking_rows
        return TableChanges(
            schema,
            self._identity,
            (),
            rows=tally.rows,
            nbytes=tally.nbytes,
            overlap=self._changes.overlap,
            inserts_only=tally.inserts_only,
            source_timestamp=tally.newest,
            unordered=waits and (tally.is_unordered or several),
        )


def _together(parts: Sequence[TablePart], partitions: int) -> Touched:
    """What all parts touch."""
    ranges: dict[str, KeyRanges] = {}
    for part in parts:
        for name, kept in part.what.ranges.items():
            ranges.setdefault(name, KeyRanges(kept.column)).include(kept)
    return Touched(ranges, frozenset().union(*(part.what.lacking for part in parts)), partitions)
