"""A target whose tables are in this process's memory and survive a simulated crash of the engine.

Written for the engine's tests alone and on purpose without the net change of the SDK: it applies row by row.
"""

from __future__ import annotations

import pickle
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

from replicator_sdk import (
    AlterKind,
    Assessment,
    BatchConsumer,
    DDLEvent,
    DDLOperation,
    DeltaTarget,
    DMLOperation,
    PluginConfig,
    Position,
    SnapshotLoader,
    TableAssessment,
    TableAssessor,
    TableProgress,
)
from replicator_sdk.errors import FencedError, SnapshotNeededError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from replicator_sdk import ChunkReader, DeltaTargetContext, SnapshotChunk, TableChanges, TableId, TableSchema


@dataclass
class InMemoryTable:
    """One table: its rows as a bag, and what its last commit says."""

    schema: TableSchema
    rows: Counter[tuple[Any, ...]] = field(default_factory=Counter)
    progress: TableProgress | None = None
    commits: int = 0
    loaded: frozenset[int] = frozenset()


@dataclass
class TargetStorage:
    """All tables, a hook that tests use to fail at a step, whether DROP_TABLE removes a table here, and whether it renames tables
    and copies beside them.
    """

    tables: dict[TableId, InMemoryTable] = field(default_factory=dict)
    fault: Callable[[str, TableId], None] = lambda step, table: None
    ddl: list[DDLEvent] = field(default_factory=list)
    drops: bool = False
    renames: bool = True
    beside: bool = False

    def rows(self, name: str) -> list[dict[str, Any]]:
        [table] = [t for t in list(self.tables.values()) if t.schema.table.table == name]  # a run may add tables
        names = table.schema.names
        return [dict(zip(names, row, strict=True)) for row in table.rows.elements()]


STORAGE = TargetStorage()


class InMemoryTarget(DeltaTarget):
    name: ClassVar[str] = "kept"
    config_type: ClassVar[type[PluginConfig]] = PluginConfig

    def create_table_assessor(self) -> TableAssessor:
        return _Content()

    def create_consumer(self, context: DeltaTargetContext) -> InMemoryConsumer:
        return InMemoryConsumer(context)


class _Content(TableAssessor):
    def assess(self) -> Assessment:
        return Assessment()

    def assess_table(self, schema: TableSchema) -> TableAssessment:
        return TableAssessment(schema.table)


class InMemoryConsumer(BatchConsumer, SnapshotLoader):
    def __init__(self, context: DeltaTargetContext) -> None:
        self._context = context

    def stop(self) -> None:
        pass

    def progress(self, table: TableId) -> TableProgress | None:
        STORAGE.fault("progress", table)
        kept = STORAGE.tables.get(table)
        return kept.progress if kept else None

    def can_rename(self, former: TableId, table: TableId) -> bool:
        return STORAGE.renames

    def apply_ddl(self, event: DDLEvent) -> None:
        STORAGE.fault("ddl", event.table)
        if event.operation is DDLOperation.RENAME_TABLE:
            self._rename(event)
            STORAGE.fault("ddl applied", event.table)
            return
        kept = STORAGE.tables.get(event.table)
        assert event.position is not None
        if kept is not None and kept.progress is not None and event.position <= kept.progress.position:
            return
        STORAGE.ddl.append(event)
        if event.operation is DDLOperation.CREATE_TABLE and event.schema is not None:
            kept = STORAGE.tables.setdefault(event.table, InMemoryTable(event.schema))
        assert kept is not None
        if event.operation is DDLOperation.TRUNCATE_TABLE:
            kept.rows.clear()
        if event.operation is DDLOperation.ALTER_TABLE and event.schema is not None:
            _alter(kept, event)
        kept.progress = TableProgress(self._context.generation, self._context.epoch, event.position)
        if event.operation is DDLOperation.DROP_TABLE and STORAGE.drops:
            del STORAGE.tables[event.table]
        STORAGE.fault("ddl applied", event.table)

    def _rename(self, event: DDLEvent) -> None:
        assert event.prev_table is not None
        assert event.schema is not None
        assert event.position is not None
        former, there = STORAGE.tables.get(event.prev_table), STORAGE.tables.get(event.table)
        if there is not None and there.progress is not None and event.position <= there.progress.position:
            return
        if there is not None or former is None:
            raise SnapshotNeededError("the name is in use", code="RPL-9197", table=str(event.table))
        STORAGE.ddl.append(event)
        former.schema = event.schema
        former.progress = TableProgress(self._context.generation, self._context.epoch, event.position)
        STORAGE.tables[event.table] = STORAGE.tables.pop(event.prev_table)

    def apply_batch(self, changes: TableChanges) -> None:
        STORAGE.fault("before", changes.table)
        kept = STORAGE.tables[changes.table]
        assert kept.progress is not None
        if kept.progress.epoch > changes.identity.epoch:
            raise FencedError("a newer run wrote the table", code="RPL-8001", table=str(changes.table))
        if changes.identity.position <= kept.progress.position:
            return
        rows = Counter(kept.rows)
        for part in changes.batches():
            _apply_rows(rows, part, changes.schema, overlap=changes.overlap)
        kept.rows, kept.progress = rows, TableProgress.of(changes.identity)
        kept.commits += 1
        STORAGE.fault("after", changes.table)

    def delete_table(self, table: TableId) -> str:
        STORAGE.fault("delete", table)
        kept = STORAGE.tables.get(table)
        if kept is not None and kept.progress is not None and kept.progress.epoch > self._context.epoch:
            raise FencedError("a newer run wrote the table", code="RPL-8001", table=str(table))
        STORAGE.tables.pop(table, None)
        return ""

    def discard_table(self, table: TableId) -> None:
        STORAGE.tables.pop(table, None)

    def begin_snapshot(self, schema: TableSchema, snapshot_id: str, position: Position) -> frozenset[int]:
        kept = STORAGE.tables.get(schema.table)
        if kept is None or kept.progress is None or kept.progress.snapshot_id != snapshot_id:
            progress = TableProgress(
                self._context.generation,
                self._context.epoch,
                position,
                snapshot_chunks=frozenset(),
                snapshot_id=snapshot_id,
            )
            STORAGE.tables[schema.table] = kept = InMemoryTable(schema, progress=progress)
        return kept.loaded

    def load_chunks(
        self, schema: TableSchema, snapshot_id: str, chunks: Sequence[SnapshotChunk], read: ChunkReader
    ) -> int:
        STORAGE.fault("load", schema.table)
        kept = STORAGE.tables[schema.table]
        assert kept.progress is not None
        rows = Counter(
            tuple(hashable(row[n]) for n in schema.names)
            for chunk in chunks
            for batch in pickle.loads(pickle.dumps(read))(chunk)
            for row in batch.to_pylist()
        )
        kept.rows += rows
        kept.loaded |= {c.index for c in chunks}
        known = kept.progress.snapshot_rows + rows.total()
        kept.progress = replace(kept.progress, snapshot_chunks=kept.loaded, snapshot_rows=known)
        STORAGE.fault("loaded", schema.table)
        return rows.total()

    def finish_snapshot(self, schema: TableSchema, snapshot_id: str, position: Position) -> None:
        kept = STORAGE.tables[schema.table]
        assert kept.progress is not None
        kept.progress = replace(kept.progress, snapshot_chunks=None, position=position, epoch=self._context.epoch)
        STORAGE.fault("finished", schema.table)

    def load_whole(
        self,
        schema: TableSchema,
        snapshot_id: str,
        position: Position,
        chunks: Sequence[SnapshotChunk],
        read: ChunkReader,
        all_read: Callable[[], None],
    ) -> int:
        if not STORAGE.beside:
            return super().load_whole(schema, snapshot_id, position, chunks, read, all_read)
        STORAGE.fault("load", schema.table)
        rows = Counter(
            tuple(hashable(row[n]) for n in schema.names)
            for chunk in chunks
            for batch in pickle.loads(pickle.dumps(read))(chunk)
            for row in batch.to_pylist()
        )
        all_read()
        progress = TableProgress(
            self._context.generation,
            self._context.epoch,
            position,
            snapshot_id=snapshot_id,
            snapshot_rows=rows.total(),
        )
        loaded = frozenset(chunk.index for chunk in chunks)
        STORAGE.fault("loaded", schema.table)
        STORAGE.tables[schema.table] = InMemoryTable(schema, rows, progress, loaded=loaded)
        STORAGE.fault("finished", schema.table)
        return rows.total()


def hashable(value: Any) -> Any:
    """A value as a row holds it; arrays as tuples."""
    return tuple(value) if isinstance(value, list) else value


def _alter(kept: InMemoryTable, event: DDLEvent) -> None:
    assert event.schema is not None
    old = kept.schema.names
    origins: dict[str, str | None] = {name: name for name in old}
    added: dict[str, Any] = {}
    for step in event.alters:  # one column may be renamed by one step and retyped by the next
        origin = origins.pop(step.previous.name, None) if step.previous is not None else None
        if step.column is not None and step.kind is AlterKind.ADD_COLUMN:
            added[step.column.name] = step.default
        elif step.column is not None:
            origins[step.column.name] = origin

    def value(row: dict[str, Any], name: str) -> Any:
        return added[name] if name in added else row.get(origins.get(name) or name)

    bag: Counter[tuple[Any, ...]] = Counter()
    for row, count in kept.rows.items():
        named = dict(zip(old, row, strict=True))
        bag[tuple(value(named, n) for n in event.schema.names)] += count
    kept.rows, kept.schema = bag, event.schema


def _apply_rows(rows: Counter[tuple[Any, ...]], part: Any, schema: TableSchema, *, overlap: bool) -> None:
    names, key = schema.names, schema.primary_key
    before = part.before.to_pylist() if part.before is not None else [None] * len(part)
    for op, row, old in zip(part.op.to_pylist(), part.row.to_pylist(), before, strict=True):
        new = tuple(row[n] for n in names) if op != DMLOperation.DELETE else None
        if not key:
            if op != DMLOperation.INSERT:
                rows[tuple(old[n] for n in names)] -= 1
        else:
            gone = {tuple((old or row)[n] for n in key)}
            if overlap and new is not None:
                gone.add(tuple(row[n] for n in key))  # an overlap: the row may be there already under its new key
            found = [r for r in rows if tuple(dict(zip(names, r, strict=True))[n] for n in key) in gone]
            assert op != DMLOperation.INSERT or not found or overlap, "an insert of a key that is there"
            assert op == DMLOperation.INSERT or found or overlap, "a change of a row that is not there"
            for row_ in found:
                del rows[row_]
        if new is not None:
            rows[new] += 1
    for row_ in [r for r, n in rows.items() if n == 0]:
        del rows[row_]
