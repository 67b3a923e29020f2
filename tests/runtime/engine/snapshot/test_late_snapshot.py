"""A snapshot whose chunks are read later than its position: what the log repeats up to `end` changes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from replicator_runtime.config import build_pipeline
from replicator_runtime.engine.worker import RunResult, run
from replicator_sdk.errors import ReplicatorError
from replicator_sdk.failpoint import arm
from replicator_sdk.snapshot import SnapshotReader, TableSnapshot
from replicator_source_sqlite.plugin import SqliteSource
from tests.runtime.engine import in_memory_target
from tests.runtime.engine.in_memory_target import InMemoryTarget
from tests.runtime.engine.test_run import Host, Shop, change, fill, shop

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from replicator_sdk import DeltaSourceContext, EventReaderDefinition, Offset, SnapshotChunk, TableSchema

__all__ = ["shop"]


class LateSnapshot(TableSnapshot):
    """Rows of `inner`, which was read after `position`."""

    partial = ""

    def __init__(self, position: Offset, inner: TableSnapshot, *, reports_end: bool) -> None:
        self.schema, self.position, self.chunks, self.read = inner.schema, position, inner.chunks, inner.read
        self.resumable, self.read_marked, self.partial_updates = inner.resumable, inner.read_marked, self.partial
        self._inner = inner
        self._reports_end = reports_end

    def end(self) -> Offset | None:
        return self._inner.position if self._reports_end else None

    def close(self) -> None:
        self._inner.close()


class LateReader(SnapshotReader):
    """Takes the position, lets the database be changed, then reads."""

    meanwhile: Callable[[], None]
    reports_end = True

    def __init__(self, source: SqliteSource, inner: SnapshotReader) -> None:
        self._source = source
        self._inner = inner

    def open(self, schema: TableSchema, chunks: Sequence[SnapshotChunk] = ()) -> TableSnapshot:
        if not schema.primary_key:
            return self._inner.open(schema, chunks)
        position = self._source.latest_offset()
        type(self).meanwhile()
        return LateSnapshot(position, self._inner.open(schema, chunks), reports_end=type(self).reports_end)


class LateSource(SqliteSource):
    def create_snapshot_reader(
        self, definition: EventReaderDefinition, context: DeltaSourceContext
    ) -> SnapshotReader | None:
        inner = super().create_snapshot_reader(definition, context)
        assert inner is not None
        return LateReader(self, inner)


class LateHost(Host):
    def source(self, name: str) -> type[SqliteSource]:
        return LateSource

    def target(self, name: str) -> type[InMemoryTarget]:
        return InMemoryTarget


def run_late(shop: Shop, **more: Any) -> RunResult:
    pipeline = build_pipeline(shop.document, host=LateHost())  # type: ignore[arg-type]
    return run(pipeline, **{"until_current": True, **more})


def run_twice(shop: Shop) -> None:
    """The goal of the first run may be before the changes."""
    run_late(shop)
    run_late(shop)


def test_changes_that_the_late_rows_show_already_are_not_doubled(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(shop)
    monkeypatch.setattr(LateReader, "meanwhile", staticmethod(lambda: change(shop)), raising=False)
    run_late(shop)
    shop.assert_equal()


def test_without_the_end_the_same_changes_are_taken_for_new_ones(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin: it is the end that makes them harmless."""
    fill(shop)
    shop.document["retries"] = {"maxDurationSeconds": 0.2, "delaySeconds": 0.1}
    monkeypatch.setattr(LateReader, "meanwhile", staticmethod(lambda: change(shop)), raising=False)
    monkeypatch.setattr(LateReader, "reports_end", False)
    with pytest.raises(ReplicatorError, match="AssertionError"):
        run_twice(shop)


def test_rows_loaded_before_a_crash_count_as_late_as_the_crash(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run that goes on has nothing left to load; its own position is after every row that was loaded."""
    fill(shop)
    monkeypatch.setattr(LateReader, "meanwhile", staticmethod(lambda: change(shop)), raising=False)
    shop.document["retries"] = {"maxDurationSeconds": 0, "delaySeconds": 0.1}
    arm("engine.snapshot.chunks_loaded=raise")
    with pytest.raises(ReplicatorError):
        run_late(shop)
    arm("")
    monkeypatch.setattr(LateReader, "meanwhile", staticmethod(lambda: None))
    run_late(shop)
    shop.assert_equal()


@pytest.mark.parametrize("partial", ["", "the log leaves values out"])
def test_rows_are_put_aside_only_where_the_log_makes_late_ones_whole(
    partial: str, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row that was refused in one read and not in the other could else wait for an update with all columns for ever."""
    fill(shop)
    shop.sql("CREATE TABLE prices (id INTEGER PRIMARY KEY, price INTEGER)")
    shop.sql("INSERT INTO prices VALUES (1, 1), (2, 'none'), (3, 3)")
    repaired = ["UPDATE prices SET price = 5 WHERE id = 2", "UPDATE prices SET price = 'none' WHERE id = 3"]
    monkeypatch.setattr(LateReader, "meanwhile", staticmethod(lambda: shop.sql(*repaired)), raising=False)
    monkeypatch.setattr(LateSnapshot, "partial", partial)
    monkeypatch.setattr(InMemoryTarget, "takes_lane", True)
    shop.document["onDataError"] = "lane"
    if partial:
        with pytest.raises(ReplicatorError, match="the log may lack values") as failed:
            run_late(shop)
        assert failed.value.code == "RPL-2062"
        return
    run_twice(shop)
    assert sorted(row["id"] for row in in_memory_target.STORAGE.rows("prices")) == [1, 2]
