"""The part of a slice that one task stages: reads its partitions and writes their changes to the bucket.

Runs on Spark's executors. Nothing of it is in effect before the driver loads the files that the result names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from replicator_sdk.batch import BatchIdentity, TableChanges
from replicator_sdk.distributed.executors import run_on_threads
from replicator_sdk.distributed.partitioned_log import LogPartition, LogPartitionReader
from replicator_sdk.distributed.slice_tasks import TaskResult
from replicator_sdk.distributed.slices import PartitionsRead, TableTally, read_partitions
from replicator_sdk.errors import ReplicatorError
from replicator_sdk.schema import TableId, TableSchema
from replicator_target_bigquery.api.clients import storage_client
from replicator_target_bigquery.api.retry import RetryPolicy
from replicator_target_bigquery.batch.staging import Touched, in_files, touched
from replicator_target_bigquery.batch.staging_rows import BatchStamp
from replicator_target_bigquery.config import BigQueryConfig
from replicator_target_bigquery.load.uploads import Files, Folder
from replicator_target_bigquery.schema.encoding import RowEncoding
from replicator_target_bigquery.schema.fields import Field
from replicator_target_bigquery.sql.pruning import KeyRanges


@dataclass(frozen=True, slots=True)
class TableStaging:
    """How a table's changes are staged; picklable.

    Attributes:
        schema: At source and target.
        names: Source column → its name at the target.
        fields: The staging table's columns, in order.
        encoding: Of its rows.
        pruned: The columns whose ranges the MERGE names, by the source's names.
        stamp: What marks the slice's rows, but for their partition.
        folder: Where their files go.
    """

    schema: TableSchema
    names: dict[str, str]
    fields: tuple[Field, ...]
    encoding: RowEncoding
    pruned: dict[str, Field]
    stamp: BatchStamp
    folder: Folder


@dataclass(frozen=True, slots=True)
class TablePart:
    """What a task did for one table.

    Attributes:
        tally: The changes.
        files: What it has written.
        what: What the changes touch.
        error: Why nothing else is here.
    """

    tally: TableTally
    files: Files = field(default_factory=Files)
    what: Touched = field(default_factory=lambda: Touched({}))
    error: ReplicatorError | None = None


@dataclass(frozen=True, slots=True)
class PartitionsStaging:
    """The work of every task of a slice; picklable, sent to each executor once.

    Attributes:
        read: The source's reader.
        tables: The tables that take changes.
        identity: Of the commits to come.
        overlap: As `TableChanges.overlap`.
        config: The target's settings.
    """

    read: LogPartitionReader
    tables: Mapping[TableId, TableStaging]
    identity: BatchIdentity
    overlap: bool
    config: BigQueryConfig

    def __call__(self, partitions: tuple[LogPartition, ...]) -> TaskResult[TablePart]:
        """Read `partitions` and write their changes to files; holds the changes in memory."""
        read = read_partitions(self.read, partitions, {t: staging.schema for t, staging in self.tables.items()})
        wanting = {schema.table for schema in read.seen}
        fitting = [table for table in read.tallies if table not in wanting]
        parts = self._parts(fitting, read) if fitting else {}
        return TaskResult(parts, tuple(read.seen), read.read_until)

    def _parts(self, tables: list[TableId], read: PartitionsRead) -> dict[TableId, TablePart]:
        """The parts of these tables; several are written at once."""
        with closing(storage_client(self.config)) as client:

            def write(table: TableId) -> tuple[TableId, TablePart]:
                return table, self._part(table, read, client)

            return dict(run_on_threads(write, tables))

    def _part(self, table: TableId, read: PartitionsRead, client: Any) -> TablePart:
        """One table's part; its changes are forgotten afterwards."""
        staging, tally = self.tables[table], read.tallies[table]
        try:
            requester = RetryPolicy(self.config.retry_seconds)
            files = staging.folder.write(client, requester, self._rows(staging, read))
            ranges = {name: KeyRanges(column) for name, column in staging.pruned.items()}
            return TablePart(tally, files, touched(read.changes(table, self.identity, overlap=self.overlap), ranges))
        except ReplicatorError as err:
            err.table, err.position = err.table or str(table), err.position or str(self.identity.position)
            return TablePart(tally, error=err)
        finally:
            del read.batches[table]

    def _rows(self, staging: TableStaging, read: PartitionsRead) -> Iterator[pa.Table]:
        """The rows partition by partition, each marked with its own: a key has changes in one of them only, which the MERGE checks."""
        for partition, changes in self._by_partition(staging.schema.table, read):
            stamp = BatchStamp(staging.stamp.batch_id, staging.stamp.moment, partition)
            yield from in_files(changes, staging.names, stamp, staging.fields, staging.encoding)

    def _by_partition(self, table: TableId, read: PartitionsRead) -> Iterator[tuple[int, TableChanges]]:
        whole = read.changes(table, self.identity, overlap=self.overlap)
        owners = read.partitions[table]
        for partition in dict.fromkeys(owners):
            batches = [batch for batch, owner in zip(read.batches[table], owners, strict=True) if owner == partition]
            rows, nbytes = sum(map(len, batches)), sum(batch.nbytes for batch in batches)
            yield (
                partition,
                TableChanges(whole.schema, self.identity, batches, rows=rows, nbytes=nbytes, overlap=self.overlap),
            )
