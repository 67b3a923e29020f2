"""A target's consumer that archives what it is given before the target has it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from replicator_runtime.engine.archive.copies import ArchivingReader, CopyFiles
from replicator_sdk import BatchConsumer, DDLOperation, DeferredConsumer, SnapshotLoader
from replicator_sdk.errors import DataError
from replicator_sdk.failpoint import failpoint, register

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from replicator_runtime.engine.lanes.lane import Lane
    from replicator_sdk import (
        ChangeBatch,
        ChunkReader,
        DDLEvent,
        EventConsumer,
        Position,
        Refusal,
        SnapshotChunk,
        TableChanges,
        TableId,
        TableProgress,
        TableSchema,
    )
    from replicator_state import ArchiveFolder

register("engine.archive.staged")
_PASSED_ON = frozenset({DDLOperation.CREATE_DATABASE, DDLOperation.DROP_DATABASE, DDLOperation.RENAME_TABLE})
"""Databases are not archived, and renames are before the first of them is applied (`Archiving.renamed`)."""


class _Staged(Protocol):
    @property
    def lane(self) -> Lane: ...


class _Archive(Protocol):
    """What is used of `ChangeArchive`."""

    folder: ArchiveFolder

    def staged(self, table: TableId, consumer: BatchConsumer) -> _Staged | None: ...
    def copying(self, files: CopyFiles) -> None: ...
    def copied(self, files: CopyFiles, position: Position, chunks: Collection[int]) -> None: ...
    def dropped(self, table: TableId) -> None: ...
    def confirm(self, table: TableId, position: Position) -> None: ...


def wrapped(consumer: EventConsumer, archive: _Archive) -> EventConsumer:
    """The consumer with an archive; it can what `consumer` can, but for reading a log on executors: rows must pass this process."""
    if not isinstance(consumer, BatchConsumer):
        return consumer
    bases: list[type] = [_Archiving]
    bases += [_Loading] * isinstance(consumer, SnapshotLoader) + [_Deferring] * isinstance(consumer, DeferredConsumer)
    traits = {"follows_databases": consumer.follows_databases, "keeps_unmatched": consumer.keeps_unmatched}
    kind: Any = type("ArchivingConsumer", tuple(reversed(bases)), traits)
    made: EventConsumer = kind(consumer, archive)
    return made


class _Archiving(BatchConsumer):
    def __init__(self, consumer: BatchConsumer, archive: _Archive) -> None:
        self._consumer = consumer
        self._archive = archive
        self._copies: dict[str, set[int]] = {}
        self._positions: dict[str, Position] = {}

    def start(self) -> None:
        self._consumer.start()

    def stop(self) -> None:
        self._consumer.stop()

    def flush(self) -> None:
        self._consumer.flush()

    def can_rename(self, former: TableId, table: TableId) -> bool:
        return self._consumer.can_rename(former, table)

    def discard_table(self, table: TableId) -> None:
        self._consumer.discard_table(table)

    def delete_table(self, table: TableId) -> str:
        return self._consumer.delete_table(table)

    def find_refused(self, batch: ChangeBatch) -> Mapping[str, Refusal]:
        return self._consumer.find_refused(batch)

    def progress(self, table: TableId) -> TableProgress | None:
        return self._consumer.progress(table)

    def apply_batch(self, changes: TableChanges) -> None:
        """Stage the changes, then have the target apply them. What it refuses is not staged any more."""
        position, staged = changes.identity.position, self._archive.staged(changes.table, self._consumer)
        if staged is None or position <= staged.lane.end:
            self._consumer.apply_batch(changes)
            return
        before = staged.lane.end
        staged.lane.write(changes, (changes.rows, 0, 0))  # no one asks a staged entry for its operations
        failpoint("engine.archive.staged")
        try:
            self._consumer.apply_batch(changes)
        except DataError:
            staged.lane.take_back(before)
            raise
        if not isinstance(self, DeferredConsumer):
            self._archive.confirm(changes.table, position)

    def apply_ddl(self, event: DDLEvent) -> None:
        """Stage the event, then have the target apply it; a table's end is in the archive before."""
        if event.operation in _PASSED_ON or event.position is None:
            self._consumer.apply_ddl(event)
        elif event.operation is DDLOperation.CREATE_TABLE and event.schema is not None:
            files = CopyFiles(self._archive.folder, event.schema, "created", str(event.position))
            self._archive.copied(files, event.position, ())
            self._consumer.apply_ddl(event)
        else:
            self._change(event, event.position)

    def _change(self, event: DDLEvent, position: Position) -> None:
        staged = self._archive.staged(event.table, self._consumer)
        if staged is not None and staged.lane.end < position:
            staged.lane.write_event(event)
            failpoint("engine.archive.staged")
        if event.operation is DDLOperation.DROP_TABLE:
            self._archive.dropped(event.table)
            self._consumer.apply_ddl(event)
        else:
            self._consumer.apply_ddl(event)
            self._archive.confirm(event.table, position)


class _Loading(_Archiving, SnapshotLoader):
    _consumer: Any

    def begin_snapshot(self, schema: TableSchema, snapshot_id: str, position: Position) -> frozenset[int]:
        self._archive.copying(self._files(schema, snapshot_id, position))
        held: frozenset[int] = self._consumer.begin_snapshot(schema, snapshot_id, position)
        self._copies[snapshot_id], self._positions[snapshot_id] = set(held), position
        return held

    def load_chunks(
        self, schema: TableSchema, snapshot_id: str, chunks: Sequence[SnapshotChunk], read: ChunkReader
    ) -> int:
        self._copies.setdefault(snapshot_id, set()).update(chunk.index for chunk in chunks)
        files = self._files(schema, snapshot_id, self._positions.get(snapshot_id))
        rows: int = self._consumer.load_chunks(schema, snapshot_id, chunks, ArchivingReader(read, files))
        return rows

    def finish_snapshot(self, schema: TableSchema, snapshot_id: str, position: Position) -> None:
        files = self._files(schema, snapshot_id, position)
        self._archive.copied(files, position, self._copies.pop(snapshot_id, set()))
        self._positions.pop(snapshot_id, None)
        self._consumer.finish_snapshot(schema, snapshot_id, position)

    def discard_snapshot(self, table: TableId, snapshot_id: str) -> None:
        self._consumer.discard_snapshot(table, snapshot_id)

    def load_whole(
        self,
        schema: TableSchema,
        snapshot_id: str,
        position: Position,
        chunks: Sequence[SnapshotChunk],
        read: ChunkReader,
        all_read: Callable[[], None],
    ) -> int:
        files = self._files(schema, snapshot_id, position)
        self._archive.copying(files)

        def all_archived() -> None:
            all_read()
            self._archive.copied(files, position, [chunk.index for chunk in chunks])

        reader = ArchivingReader(read, files)
        rows: int = self._consumer.load_whole(schema, snapshot_id, position, chunks, reader, all_archived)
        return rows

    def _files(self, schema: TableSchema, snapshot_id: str, position: Position | None) -> CopyFiles:
        return CopyFiles(self._archive.folder, schema, snapshot_id, "" if position is None else str(position))


class _Deferring(_Archiving, DeferredConsumer):
    _consumer: Any

    def settled(self, table: TableId) -> Position | None:
        found: Position | None = self._consumer.settled(table)
        return found

    def settle(self, tables: Collection[TableId]) -> None:
        self._consumer.settle(tables)
