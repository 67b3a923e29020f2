"""The running target: takes batches, DDL and snapshot chunks, one table at a time each, several tables at once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, ClassVar

import structlog

from replicator_sdk.authoring.row_repair import RepairableConsumer
from replicator_sdk.authoring.table_ownership import owner_of
from replicator_sdk.batch import ChangeBatch, Refusal, TableChanges
from replicator_sdk.context import DeltaTargetContext
from replicator_sdk.distributed.slices import RangeConsumer, SliceChanges, SliceOutcome
from replicator_sdk.errors import BugError, NeedsUserError, SnapshotNeededError
from replicator_sdk.event import DDLEvent, DDLOperation
from replicator_sdk.failpoint import failpoint, register
from replicator_sdk.offset import Position
from replicator_sdk.schema import TableId, TableSchema
from replicator_sdk.snapshot import ChunkReader, SnapshotChunk
from replicator_sdk.target import EarlierVersion, RewindableConsumer, SnapshotLoader, TableProgress
from replicator_target_delta.apply.slice import SliceApply
from replicator_target_delta.apply.table_apply import TableApply
from replicator_target_delta.config import DeltaConfig, DropTables, Mode
from replicator_target_delta.ddl.database_folder import DatabaseFolders
from replicator_target_delta.ddl.ddl_events import TableDDL
from replicator_target_delta.ddl.table_folder import delete_folder, delete_rest, move_folder, renames_at_once
from replicator_target_delta.location import table_path
from replicator_target_delta.maintenance.remains import discard_snapshot
from replicator_target_delta.rewind import DeltaRewind
from replicator_target_delta.schema.unfitting import find_unfitting
from replicator_target_delta.snapshot import TableSnapshotLoad
from replicator_target_delta.table import TargetTable
from replicator_target_delta.versions.copying import VersionsSnapshotLoad
from replicator_target_delta.warmup import WarmUp

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

register("delta.rename.moved")
log = structlog.get_logger(__name__)


class DeltaConsumer(RangeConsumer, SnapshotLoader, RewindableConsumer, RepairableConsumer):
    """Applies events at Delta tables. Safe from several threads; calls for one table take turns."""

    follows_databases: ClassVar[bool] = True
    keeps_unmatched: ClassVar[bool] = True

    def __init__(self, config: DeltaConfig, context: DeltaTargetContext) -> None:
        self._config = config
        self._context = context
        self._spark: SparkSession = context.spark()
        self._tables: dict[TableId, TargetTable] = {}
        drops = config.drop_tables is DropTables.DROP
        self._folders = DatabaseFolders(self._spark, owner_of(context), are_dropped=drops)
        self._lock = threading.Lock()
        self._warm_up = WarmUp(self._spark)
        self._pool = ThreadPoolExecutor(context.parallel_tables, thread_name_prefix="slice")  # starts threads when used

    def start(self) -> None:
        """Load what a first commit needs, unless there is work first."""
        self._warm_up.start()

    def progress(self, table: TableId) -> TableProgress | None:
        """What the table's last commit says; from then on no older run can write it."""
        return self._table(table).progress()

    def apply_batch(self, changes: TableChanges) -> None:
        """Apply a table's changes and its progress in one commit."""
        table = self._table(changes.table)
        self._folders.prepare(self._folder(changes.table))
        with table.lock:
            TableApply(table, self._config, self._context, self._spark).apply(changes)

    def find_refused(self, batch: ChangeBatch) -> Mapping[str, Refusal]:
        """The values that Arrow does not cast to the table's columns."""
        return find_unfitting(batch)

    def repair_rows(self, changes: TableChanges) -> None:
        """Write some rows again by one commit that leaves the table's progress where it is."""
        table = self._table(changes.table)
        with table.lock:
            TableApply(table, self._config, self._context, self._spark).repair(changes)

    def apply_slice(self, changes: SliceChanges) -> SliceOutcome:
        """Have Spark's executors read and apply a slice of a log; one commit a table."""
        return SliceApply(self._table, self._config, self._context, self._spark, self._pool, changes).run()

    def apply_ddl(self, event: DDLEvent) -> None:
        """Apply a change of structure, with its position in the same commit."""
        if event.operation is DDLOperation.CREATE_DATABASE:
            self._folders.create(self._folder(event.table))
        elif event.operation is DDLOperation.DROP_DATABASE:
            self._drop_database(event)
        elif event.operation is DDLOperation.RENAME_TABLE:
            self._rename(event)
        else:
            self._change(event)

    def find_version(self, table: TableId, position: Position) -> EarlierVersion | None:
        """The version that `rewind_table` goes back to, found in the table's log."""
        target = self._table(table)
        with target.lock:
            return DeltaRewind(target).find(position)

    def rewind_table(self, table: TableId, position: Position) -> TableProgress | None:
        """Bring the table back by one commit; the versions between stay for time travel."""
        target = self._table(table)
        with target.lock:
            return DeltaRewind(target).rewind(position)

    def _change(self, event: DDLEvent) -> None:
        table = self._table(event.table)
        if event.operation is not DDLOperation.DROP_TABLE:
            self._folders.prepare(self._folder(event.table))
        with table.lock:
            TableDDL(table, self._config, self._spark).apply(event)
            if event.operation is DDLOperation.DROP_TABLE:
                self._drop(event.table, table.log.path)

    def _drop(self, table: TableId, path: str) -> None:
        """Follow `dropTables`, and log what happens to the data."""
        if self._config.drop_tables is DropTables.KEEP:
            log.warning(
                "delta.table_kept", table=str(table), path=path, why='the source dropped it; dropTables is "keep"'
            )
            return
        delete_folder(self._spark, path)
        self._forget(table)
        log.warning(
            "delta.table_deleted", table=str(table), path=path, why='the source dropped it; dropTables is "drop"'
        )

    def _drop_database(self, event: DDLEvent) -> None:
        """Follow `dropTables`; a folder that holds anything stays."""
        folder, database = self._folder(event.table), event.table.database
        if self._config.drop_tables is DropTables.KEEP:
            log.info("delta.database_kept", database=database, path=folder, why='dropTables is "keep"')
        elif why := self._folders.drop(folder):
            log.warning("delta.database_kept", database=database, path=folder, why=why)
        else:
            log.warning(
                "delta.database_deleted",
                database=database,
                path=folder,
                why='the source dropped it; dropTables is "drop"',
            )

    def _folder(self, table: TableId) -> str:
        """The folder of the tables of the table's database."""
        return table_path(self._config.path, table).rsplit("/", 1)[0]

    def can_rename(self, former: TableId, table: TableId) -> bool:
        """Where the store renames a folder at once: on object stores a folder is many objects, moved one by one."""
        return all(renames_at_once(self._spark, self._table(name).log.path) for name in (former, table))

    def _rename(self, event: DDLEvent) -> None:
        """Move the table's folder, and commit the position under the new name; a replay does what is left of it."""
        if event.prev_table is None or event.position is None:
            raise BugError("a RENAME_TABLE without its former name", code="RPL-9406", table=str(event.table))
        new, old = self._table(event.table), self._table(event.prev_table)
        self._folders.prepare(self._folder(event.table))
        with new.lock, old.lock:
            attempt = new.begin(event.prev_table)
            if attempt.has_reached(event.position):
                return
            self._move(old, new, is_free=attempt.state.version < 0)
            moved = self._table(event.table)
            attempt = moved.begin(event.prev_table)
            if not attempt.has_reached(event.position):
                moved.commit(attempt, moved.progress_at(attempt, event.position, event.sequence_number))

    def _move(self, old: TargetTable, new: TargetTable, *, is_free: bool) -> None:
        """Move the folder; a table at the new place that was at the old one has been moved."""
        if old.begin().progress is None:
            if is_free:
                raise _not_there(old.table)
        elif not is_free:
            raise _in_use(new.table)
        else:
            move_folder(self._spark, old.log.path, new.log.path, new.table)
            failpoint("delta.rename.moved")
        self._forget(old.table)
        self._forget(new.table)

    def begin_snapshot(self, schema: TableSchema, snapshot_id: str, position: Position) -> frozenset[int]:
        """Make the table ready to take the chunks of a plan."""
        table = self._table(schema.table)
        self._folders.prepare(self._folder(schema.table))
        with table.lock:
            return self._load(table).begin(schema, snapshot_id, position)

    def load_chunks(
        self, schema: TableSchema, snapshot_id: str, chunks: Sequence[SnapshotChunk], read: ChunkReader
    ) -> int:
        """Load chunks on the executors and commit them together."""
        table = self._table(schema.table)
        with table.lock:
            return self._load(table).load(schema, snapshot_id, chunks, read)

    def finish_snapshot(self, schema: TableSchema, snapshot_id: str, position: Position) -> None:
        """The table is whole and takes changes from now on."""
        table = self._table(schema.table)
        with table.lock:
            self._load(table).finish(schema, snapshot_id, position)

    def load_whole(
        self,
        schema: TableSchema,
        snapshot_id: str,
        position: Position,
        chunks: Sequence[SnapshotChunk],
        read: ChunkReader,
        all_read: Callable[[], None],
    ) -> int:
        """Load a table in one commit, which replaces what it had."""
        table = self._table(schema.table)
        self._folders.prepare(self._folder(schema.table))
        with table.lock:
            return self._load(table).load_whole(schema, snapshot_id, position, chunks, read, all_read)

    def discard_snapshot(self, table: TableId, snapshot_id: str) -> None:
        """Delete the files that the plan's copy wrote and did not commit."""
        discard_snapshot(self._table(table).log, self._spark, snapshot_id)

    def discard_table(self, table: TableId) -> None:
        """Delete the table's folder, if the table is this replicator's."""
        target = self._table(table)
        with target.lock:
            if target.progress() is not None:
                delete_folder(self._spark, target.log.path)
        self._forget(table)

    def delete_table(self, table: TableId) -> str:
        """Delete the table's folder, and what a call that was cut off left of it; another writer's table stays."""
        target = self._table(table)
        with target.lock:
            try:
                there = target.progress() is not None
            except NeedsUserError as error:
                return error.message
            if there:
                delete_folder(self._spark, target.log.path)
            else:
                delete_rest(self._spark, target.log.path)
            self._folders.drop(self._folder(table))
        self._forget(table)
        return ""

    def stop(self) -> None:
        """Nothing is held back between calls, so there is nothing to drop."""
        self._warm_up.cancel()
        self._pool.shutdown(wait=True)
        with self._lock:
            self._tables.clear()

    def _load(self, table: TargetTable) -> TableSnapshotLoad:
        load = VersionsSnapshotLoad if self._config.mode is Mode.SCD2 else TableSnapshotLoad
        return load(table, self._config, self._spark, lambda: self._context.is_stopping)

    def _table(self, table: TableId) -> TargetTable:
        self._warm_up.cancel()
        with self._lock:
            if table not in self._tables:
                self._tables[table] = TargetTable(table, self._config, self._context, self._spark)
            return self._tables[table]

    def _forget(self, table: TableId) -> None:
        with self._lock:
            self._tables.pop(table, None)


def _not_there(table: TableId) -> NeedsUserError:
    return NeedsUserError(
        "the table to rename is not at the target",
        code="RPL-3406",
        table=str(table),
        hint="nothing to do: the table is copied under its new name",
    )


def _in_use(table: TableId) -> SnapshotNeededError:
    return SnapshotNeededError(
        "the source renamed a table to the name of one that is at the target",
        code="RPL-6411",
        table=str(table),
        hint="nothing to do: the table is copied, and takes the place of the other",
    )
