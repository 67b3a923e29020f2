"""The target and its consumer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from replicator_sdk import (
    Alter,
    AlterKind,
    BatchConsumer,
    ChangeBatch,
    ChunkReader,
    DDLEvent,
    DDLOperation,
    DeltaTarget,
    DeltaTargetContext,
    DMLOperation,
    PluginConfig,
    Position,
    SnapshotChunk,
    SnapshotLoader,
    TableChanges,
    TableId,
    TableProgress,
    TableSchema,
)
from replicator_sdk.authoring.driver_errors import naming_table
from replicator_sdk.authoring.table_ownership import owner_of
from replicator_sdk.discovery.maintenance import MaintenanceReport, MaintenanceTask
from replicator_sdk.discovery.table_storage import TableStorage
from replicator_sdk.errors import DataError, SchemaDriftError, SnapshotNeededError
from sqlite_files.databases import change_database, file_of
from sqlite_files.maintenance import COMPACT, compact
from sqlite_files.table import TableFile, quoted, transaction
from sqlite_files.values import Row, identity, stored


class SqliteFilesConfig(PluginConfig):
    """Settings.

    Attributes:
        folder: Where the files are.
    """

    folder: Path


class SqliteFilesConsumer(BatchConsumer, SnapshotLoader):
    """Writes the files; a table's rows and its progress in one transaction."""

    follows_databases = True

    def __init__(self, folder: Path, context: DeltaTargetContext) -> None:
        self._folder, self._context = folder, context

    def start(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)

    def progress(self, table: TableId) -> TableProgress | None:
        if not self.path(table).exists():
            return None
        with self._open(table) as file:
            return file.progress

    def apply_ddl(self, event: DDLEvent) -> None:
        if event.operation in (DDLOperation.CREATE_DATABASE, DDLOperation.DROP_DATABASE):
            change_database(self._folder, event)
            return
        if event.operation is DDLOperation.RENAME_TABLE:
            self._rename(event)
            return
        drops = event.operation is DDLOperation.DROP_TABLE
        if drops and not self.path(event.table).exists():
            return
        with self._open(event.table) as file:
            if file.progress and event.position and event.position <= file.progress.position:
                return
            if drops:
                file.check(self._context.epoch)
                self.path(event.table).unlink()
            else:
                self._change_structure(file, event)

    def can_rename(self, former: TableId, table: TableId) -> bool:
        return former != table

    def _rename(self, event: DDLEvent) -> None:
        """Rename the file, then store the position: a file that is under its new name only waits for its position."""
        assert event.prev_table is not None
        assert event.schema is not None
        assert event.position is not None
        former, new = self.path(event.prev_table), self.path(event.table)
        if former.exists():
            self._move(former, new, event)
        if not new.exists():
            raise _not_renamed(event)
        with self._open(event.table) as file:
            file.check(self._context.epoch)
            if file.progress and not event.position <= file.progress.position:
                self._store(file, replace(file.progress, position=event.position), event.schema)

    def _move(self, former: Path, new: Path, event: DDLEvent) -> None:
        assert event.prev_table is not None
        with self._open(event.prev_table) as file:
            file.check(self._context.epoch)
        if new.exists():
            raise _not_renamed(event)
        former.rename(new)

    def _change_structure(self, file: TableFile, event: DDLEvent) -> None:
        schema = event.schema or file.schema
        assert schema is not None
        assert event.position is not None
        match event.operation:
            case DDLOperation.CREATE_TABLE | DDLOperation.TRUNCATE_TABLE:
                file.create(schema)
            case DDLOperation.ALTER_TABLE:
                for step in event.alters:
                    _alter(file, step, event)
            case other:
                raise SchemaDriftError(
                    f"a SQLite file cannot {other}", code="SQF-0001", hint="copy it again", table=str(event.table)
                )
        progress = file.progress or self._progress(event.position)
        self._store(file, replace(progress, position=event.position), schema)

    def apply_batch(self, changes: TableChanges) -> None:
        with self._open(changes.table) as file:
            if file.progress and changes.identity.position <= file.progress.position:
                self._store(file, file.progress, file.schema or changes.schema)
                return
            for batch in changes.batches():
                _apply(file, changes, batch)
            self._store(file, TableProgress.of(changes.identity), changes.schema)

    def begin_snapshot(self, schema: TableSchema, snapshot_id: str, position: Position) -> frozenset[int]:
        with self._open(schema.table) as file:
            if file.progress and file.progress.snapshot_id == snapshot_id:
                return frozenset(file.loaded)
            file.create(schema)
            progress = self._progress(position)
            self._store(file, replace(progress, snapshot_chunks=frozenset(), snapshot_id=snapshot_id), schema, ())
            return frozenset()

    def load_chunks(
        self, schema: TableSchema, snapshot_id: str, chunks: Sequence[SnapshotChunk], read: ChunkReader
    ) -> int:
        with self._open(schema.table) as file:
            assert file.progress is not None
            left = [chunk for chunk in chunks if chunk.index not in file.loaded]
            rows = [row for chunk in left for batch in read(chunk) for row in batch.to_pylist()]
            for row in rows:
                file.put(schema, row)
            loaded = frozenset(file.loaded) | {chunk.index for chunk in left}
            known = file.progress.snapshot_rows + len(rows)
            self._store(file, replace(file.progress, snapshot_chunks=loaded, snapshot_rows=known), schema, loaded)
            return len(rows)

    def finish_snapshot(self, schema: TableSchema, snapshot_id: str, position: Position) -> None:
        with self._open(schema.table) as file:
            assert file.progress is not None
            if file.progress.snapshot_chunks is not None:
                progress = replace(file.progress, position=position, snapshot_chunks=None)
                self._store(file, progress, schema, file.loaded)

    def stop(self) -> None:
        """Nothing is held."""

    def path(self, table: TableId) -> Path:
        """The table's file."""
        return file_of(self._folder, table)

    @contextmanager
    def _open(self, table: TableId) -> Iterator[TableFile]:
        """A transaction on the table's file, whose errors name the table, so that the others go on."""
        with (
            naming_table(table),
            transaction(self.path(table), self._context.read_offset, owner_of(self._context)) as file,
        ):
            yield file
        if (path := self.path(table)).exists():
            self._context.metrics.stored(table, TableStorage(files=1, nbytes=path.stat().st_size))

    def _progress(self, position: Position) -> TableProgress:
        return TableProgress(self._context.generation, self._context.epoch, position)

    def _store(
        self, file: TableFile, progress: TableProgress, schema: TableSchema, loaded: Iterable[int] | None = None
    ) -> None:
        epoch = self._context.epoch
        file.store(epoch, replace(progress, epoch=epoch), schema, file.loaded if loaded is None else loaded)


def _not_renamed(event: DDLEvent) -> SnapshotNeededError:
    return SnapshotNeededError(
        f"there is no file of {event.prev_table}, or one of {event.table}",
        code="SQF-0008",
        hint="none; it is copied under its new name",
        table=str(event.table),
    )


def _alter(file: TableFile, step: Alter, event: DDLEvent) -> None:
    match step:
        case Alter(kind=AlterKind.ADD_COLUMN, column=column) if column:
            file.run(f"ALTER TABLE rows_ ADD COLUMN {quoted(column.name)}")
            file.run(f"UPDATE rows_ SET {quoted(column.name)} = ?", [stored(step.default)])
        case Alter(kind=AlterKind.DROP_COLUMN, previous=column) if column:
            file.run(f"ALTER TABLE rows_ DROP COLUMN {quoted(column.name)}")
        case Alter(kind=AlterKind.RENAME_COLUMN, previous=old, column=new) if old and new:
            file.run(f"ALTER TABLE rows_ RENAME COLUMN {quoted(old.name)} TO {quoted(new.name)}")
        case Alter(kind=AlterKind.RELAX_COLUMN | AlterKind.TIGHTEN_COLUMN):
            pass  # no column of a file refuses NULL
        case _:
            raise SchemaDriftError(
                "a file keeps its types and its key", code="SQF-0002", hint="copy it again", table=str(event.table)
            )


def _apply(file: TableFile, changes: TableChanges, batch: ChangeBatch) -> None:
    schema = changes.schema
    befores = [None] * len(batch) if batch.before is None else batch.before.to_pylist()
    missing = {name: mask.to_pylist() for name, mask in batch.unchanged.items()}
    for index, (op, row) in enumerate(zip(batch.op.to_pylist(), batch.row.to_pylist(), strict=True)):
        unsent = [name for name, mask in missing.items() if mask[index]]
        if unsent and changes.overlap and _moves(schema, befores[index], row):
            raise SnapshotNeededError(
                "a row moved while its table was copied", code="SQF-0005", hint="none; it is copied again"
            )
        old = None if op == DMLOperation.INSERT else file.take(schema, befores[index] or row)
        if op == DMLOperation.DELETE:
            continue
        if unsent and old is None:
            if changes.drops_lost_updates:
                continue
            raise DataError("an update lacks columns of a row that is not here", code="SQF-0006", hint="copy it again")
        row |= {name: old[name] for name in unsent if old}
        if schema.primary_key:
            file.take(schema, row)  # the table may have the row already
        file.put(schema, row)


def _moves(schema: TableSchema, before: Row | None, row: Row) -> bool:
    return before is not None and identity(before, schema.primary_key) != identity(row, schema.primary_key)


class SqliteFilesTarget(DeltaTarget[SqliteFilesConfig]):
    """A folder of SQLite files."""

    name, title = "sqlite-files", "A SQLite file for each table"
    config_type = SqliteFilesConfig

    def create_consumer(self, context: DeltaTargetContext) -> SqliteFilesConsumer:
        """A consumer for a run."""
        return SqliteFilesConsumer(self.config.folder, context)

    @property
    def maintenance_tasks(self) -> Sequence[MaintenanceTask]:
        """One."""
        return (COMPACT,)

    def maintain_table(self, context: DeltaTargetContext, task: MaintenanceTask, table: TableId) -> MaintenanceReport:
        """One step, fenced like an apply."""
        assert task == COMPACT
        path = file_of(self.config.folder, table)
        if not path.exists():
            return MaintenanceReport()
        with transaction(path, context.read_offset, owner_of(context)) as file:
            file.check(context.epoch)
            return compact(file, lambda: context.is_stopping)
