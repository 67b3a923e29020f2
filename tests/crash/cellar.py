"""A target without Spark that keeps its tables in one file, so that a killed process costs a second instead of ten.

Snapshot and schema changes are the engine's test target's; every call loads the file, and replaces it atomically
together with the tables' progress, as a real target commits.
"""

from __future__ import annotations

import os
import pickle
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

from replicator_sdk import (
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
from replicator_sdk.errors import FencedError
from replicator_sdk.failpoint import failpoint, register
from replicator_sdk.net_change import NetBag, net_bag, net_changes
from tests.runtime.engine import kept_target

register("cellar.commit.before", "cellar.commit.after")
_LOCK = threading.Lock()


class CellarConfig(PluginConfig):
    """Where the file lies."""

    path: Path


class CellarTarget(DeltaTarget):
    name: ClassVar[str] = "cellar"
    config_type: ClassVar[type[PluginConfig]] = CellarConfig

    def create_table_assessor(self) -> TableAssessor:
        return kept_target._Content()

    def create_consumer(self, context: DeltaTargetContext) -> Cellar:
        assert isinstance(self.config, CellarConfig)
        return Cellar(context, self.config.path)


class Cellar(kept_target.KeptConsumer):
    """One file, one commit a call.

    Attributes:
        checks_progress: Whether a batch that the table holds already is left alone; a twin switches it off.
    """

    checks_progress: ClassVar[bool] = True

    def __init__(self, context: DeltaTargetContext, path: Path) -> None:
        super().__init__(context)
        self._path = path

    def progress(self, table: TableId) -> TableProgress | None:
        with _LOCK:
            _load(self._path)
            return super().progress(table)

    def apply_ddl(self, event: DDLEvent) -> None:
        with self._commit():
            super().apply_ddl(event)

    def apply_batch(self, changes: TableChanges) -> None:
        with self._commit():
            kept = kept_target.HOUSE.tables[changes.table]
            assert kept.progress is not None
            if kept.progress.epoch > changes.identity.epoch:
                raise FencedError("a newer run wrote the table", code="RPL-8001", table=str(changes.table))
            if self.checks_progress and changes.identity.position <= kept.progress.position:
                return
            kept.rows = _changed(kept.rows, changes)
            kept.progress = TableProgress.of(changes.identity)

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
            yield
            partial = self._path.with_suffix(".partial")
            partial.write_bytes(pickle.dumps(kept_target.HOUSE.tables))
            failpoint("cellar.commit.before")
            partial.replace(self._path)
            failpoint("cellar.commit.after")


def _changed(rows: Counter[tuple[Any, ...]], changes: TableChanges) -> Counter[tuple[Any, ...]]:
    """The rows after the changes."""
    names, key = changes.schema.names, changes.schema.primary_key
    if not key:
        bag = net_bag(changes.batches(), changes.schema)
        come, gone = _signed(bag, names, 1), _signed(bag, names, -1)
        return rows + come - gone
    net = net_changes(changes.batches(), changes.schema, overlap=changes.overlap)
    places = [names.index(name) for name in key]
    by_key = {tuple(row[i] for i in places): row for row in rows}
    for gone in net.deletes.to_pylist():
        by_key.pop(tuple(gone[name] for name in key), None)
    for row in net.upserts.to_pylist():
        by_key[tuple(row[name] for name in key)] = tuple(row[name] for name in names)
    return Counter(by_key.values())


def _signed(bag: NetBag, names: Sequence[str], sign: int) -> Counter[tuple[Any, ...]]:
    """The rows that come (sign 1) or go (sign -1), with how many."""
    counts = zip(bag.rows.to_pylist(), bag.counts.tolist(), strict=True)
    return Counter({tuple(row[n] for n in names): sign * count for row, count in counts if sign * count > 0})


def _load(path: Path) -> None:
    kept_target.HOUSE.tables = pickle.loads(path.read_bytes()) if path.exists() else {}


def cellar_rows(path: Path, table: str) -> Counter[tuple[Any, ...]]:
    """The rows of a table, as a bag."""
    tables = pickle.loads(path.read_bytes()) if path.exists() else {}
    return next((kept.rows for name, kept in tables.items() if name.table == table), Counter())


def install_cellar(folder: Path) -> str:
    """Make the cellar an installed plugin below `folder`; returns the PYTHONPATH of processes that shall have it."""
    info = folder / "cellar-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: cellar\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[replicator.plugins]\ncellar = tests.crash.cellar\n")
    return os.pathsep.join([str(folder), str(Path(__file__).parents[2])])


@hookimpl
def delta_targets() -> list[type[DeltaTarget]]:
    return [CellarTarget]
