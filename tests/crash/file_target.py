"""A target without Spark that keeps its tables in one file, so that a killed process costs a second instead of ten.

Snapshot and schema changes are the engine's test target's; every call loads the file, and replaces it atomically
together with the tables' progress, as a real target commits.
"""

from __future__ import annotations

import pickle
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from replicator_sdk import (
    AlterKind,
    ChunkReader,
    DDLEvent,
    DeltaTarget,
    DeltaTargetContext,
    PluginConfig,
    Position,
    SnapshotChunk,
    TableAssessor,
    TableChanges,
    TableId,
    TableProgress,
    TableSchema,
    hookimpl,
)
from replicator_sdk.errors import FencedError, SchemaDriftError, SnapshotNeededError
from replicator_sdk.failpoint import failpoint, register
from replicator_sdk.net_change import NetBag, NetChanges, net_bag, net_changes
from tests.crash.installed_plugin import install_plugin
from tests.runtime.engine import in_memory_target

register("file.commit.before", "file.commit.after")
_LOCK = threading.Lock()


class FileTargetConfig(PluginConfig):
    """The path of the file."""

    path: Path


class FileTarget(DeltaTarget):
    name: ClassVar[str] = "file"
    config_type: ClassVar[type[PluginConfig]] = FileTargetConfig
    takes_lane: ClassVar[bool] = True

    def create_table_assessor(self) -> TableAssessor:
        return in_memory_target._Content()

    def create_consumer(self, context: DeltaTargetContext) -> FileConsumer:
        assert isinstance(self.config, FileTargetConfig)
        return FileConsumer(context, self.config.path)


class FileConsumer(in_memory_target.InMemoryConsumer):
    """One file, one commit a call.

    Attributes:
        checks_progress: Whether a batch that the table holds already is left alone; a twin switches it off.
        checks_structure: The same of a change of structure.
    """

    checks_progress: ClassVar[bool] = True
    checks_structure: ClassVar[bool] = True

    def __init__(self, context: DeltaTargetContext, path: Path) -> None:
        super().__init__(context)
        self._path = path

    def progress(self, table: TableId) -> TableProgress | None:
        with _LOCK:
            _load(self._path)
            return super().progress(table)

    def apply_ddl(self, event: DDLEvent) -> None:
        with self._commit():
            assert event.position is not None
            kept = in_memory_target.STORAGE.tables.get(event.table)
            if kept is not None and kept.progress is not None and not self.checks_structure:
                kept.progress = replace(kept.progress, position=_just_before(event.position))
            if kept is not None and kept.progress is not None and event.position > kept.progress.position:
                _refuse_known_columns(kept.schema, event)
            super().apply_ddl(event)

    def apply_batch(self, changes: TableChanges) -> None:
        with self._commit():
            kept = in_memory_target.STORAGE.tables[changes.table]
            assert kept.progress is not None
            if kept.progress.epoch > changes.identity.epoch:
                raise FencedError("a newer run wrote the table", code="RPL-8001", table=str(changes.table))
            if self.checks_progress and changes.identity.position <= kept.progress.position:
                return
            kept.rows = _changed(kept, changes)
            if changes.identity.position > kept.progress.position:  # not so only where progress is not checked
                kept.progress = TableProgress.of(changes.identity)

    def delete_table(self, table: TableId) -> str:
        with self._commit():
            return super().delete_table(table)

    def begin_snapshot(self, schema: TableSchema, snapshot_id: str, position: Position) -> frozenset[int]:
        with self._commit():
            return super().begin_snapshot(schema, snapshot_id, position)

    def load_chunks(
        self, schema: TableSchema, snapshot_id: str, chunks: Sequence[SnapshotChunk], read: ChunkReader
    ) -> int:
        with self._commit():
            return super().load_chunks(schema, snapshot_id, chunks, read)

    def finish_snapshot(self, schema: TableSchema, snapshot_id: str, position: Position) -> None:
        with self._commit():
            super().finish_snapshot(schema, snapshot_id, position)

    @contextmanager
    def _commit(self) -> Iterator[None]:
        with _LOCK:
            _load(self._path)
            before = {table: replace(kept) for table, kept in in_memory_target.STORAGE.tables.items()}
            yield
            self._publish(before)

    def _publish(self, before: Mapping[TableId, in_memory_target.InMemoryTable]) -> None:
        """Put all tables, which were `before`, into the file's place at once."""
        partial = self._path.with_suffix(".partial")
        partial.write_bytes(pickle.dumps(in_memory_target.STORAGE.tables))
        failpoint("file.commit.before")
        partial.replace(self._path)
        failpoint("file.commit.after")


def _changed(kept: in_memory_target.InMemoryTable, changes: TableChanges) -> Counter[tuple[Any, ...]]:
    """The table's rows after the changes."""
    names, key = kept.schema.names, changes.schema.primary_key
    if not key:
        bag = net_bag(changes.batches(), changes.schema)
        come, gone = _signed(bag, names, 1), _signed(bag, names, -1)
        return kept.rows + come - gone
    net = net_changes(changes.batches(), changes.schema, overlap=changes.overlap)
    places = [names.index(name) for name in key]
    # As at a real target, a key that is new at the source is not looked for: applied twice, it is there twice.
    known = net.written.rows.filter(pa.array(~net.written.fresh))
    sought = {tuple(row[name] for name in key) for row in [*net.deletes.to_pylist(), *known.to_pylist()]}
    left = {row: count for row, count in kept.rows.items() if tuple(row[i] for i in places) not in sought}
    return Counter(left) + Counter(_row(row, names) for row in _completed(kept, net, key))


def _completed(kept: in_memory_target.InMemoryTable, net: NetChanges, key: Sequence[str]) -> list[dict[str, Any]]:
    """The rows to write, with what their changes did not send taken from the table's own rows."""
    names = kept.schema.names
    rows: list[dict[str, Any]] = net.written.rows.to_pylist()
    held = {tuple(row[names.index(name)] for name in key): row for row in (kept.rows if net.written.unresolved else ())}
    for index, origin in zip(net.written.origin_rows.tolist(), net.written.origin.to_pylist(), strict=True):
        old = held.get(tuple(origin[name] for name in key))
        if old is None:
            table = kept.schema.table
            raise SnapshotNeededError(
                "an update lacks columns of a row that is not here", table=str(table), code="RPL-5403"
            )
        lacking = [name for name, mask in net.written.unresolved.items() if mask[index]]
        rows[index] |= {name: old[names.index(name)] for name in lacking}
    return rows


def _just_before(position: Position) -> Position:
    return replace(position, events_after=position.events_after - 1)


def _refuse_known_columns(schema: TableSchema, event: DDLEvent) -> None:
    """A column is not added twice; Delta refuses it as well."""
    gone = {alter.previous.name for alter in event.alters if alter.previous is not None}
    for alter in event.alters:
        name = alter.column.name if alter.column is not None else ""
        if alter.kind is AlterKind.ADD_COLUMN and name in schema and name not in gone:
            raise SchemaDriftError(f"the table has a column {name} already", code="RPL-6401", table=str(event.table))


def _signed(bag: NetBag, names: Sequence[str], sign: int) -> Counter[tuple[Any, ...]]:
    """The rows that come (sign 1) or go (sign -1), with how many."""
    counts = zip(bag.rows.to_pylist(), bag.counts.tolist(), strict=True)
    return Counter({_row(row, names): sign * count for row, count in counts if sign * count > 0})


def _row(row: Mapping[str, Any], names: Sequence[str]) -> tuple[Any, ...]:
    return tuple(in_memory_target.hashable(row.get(name)) for name in names)


def _load(path: Path) -> None:
    in_memory_target.STORAGE.drops = True
    in_memory_target.STORAGE.tables = pickle.loads(path.read_bytes()) if path.exists() else {}


def file_target_rows(path: Path, table: str) -> Counter[tuple[Any, ...]]:
    """The rows of a table, as a bag."""
    tables = pickle.loads(path.read_bytes()) if path.exists() else {}
    return next((kept.rows for name, kept in tables.items() if name.table == table), Counter())


def install_file_target(folder: Path) -> str:
    """Make the target `file` an installed plugin below `folder`; returns the PYTHONPATH of processes that are to find it."""
    return install_plugin(folder, FileTarget.name, __name__)


@hookimpl
def delta_targets() -> list[type[DeltaTarget]]:
    return [FileTarget]
