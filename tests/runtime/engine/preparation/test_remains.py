"""What ended copies left at the target is discarded by a later attempt, without holding its tables up."""

from __future__ import annotations

import errno
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from replicator_runtime.config import build_pipeline
from replicator_runtime.engine.preparation.description import describe_again
from replicator_runtime.engine.tables.table_store import SnapshotRecord, TableRecord
from replicator_sdk import TableId
from replicator_sdk.errors import NeedsUserError, RetryableError
from replicator_source_sqlite.offset import SqliteOffset
from tests.runtime.engine import in_memory_target
from tests.runtime.engine.in_memory_target import InMemoryConsumer
from tests.runtime.engine.test_run import Host, Shop, fill, shop

if TYPE_CHECKING:
    from replicator_sdk.errors import ReplicatorError

__all__ = ["shop"]


class Discarding:
    """Notes which plans the target is asked to discard, and fails with `error`."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.asked: list[tuple[str, str]] = []
        self.error: ReplicatorError | None = None

        def discard(consumer: InMemoryConsumer, table: TableId, snapshot_id: str) -> None:
            self.asked.append((table.table, snapshot_id))
            if self.error is not None:
                raise self.error

        patch.setattr(InMemoryConsumer, "discard_snapshot", discard)

    @property
    def tables(self) -> list[str]:
        return sorted({table for table, _ in self.asked})


def alter_while_copied(shop: Shop) -> None:
    """A run in which both tables get another column while they are copied, so that the copies begin again with that."""
    shop.document["stages"][0]["plugin"]["properties"]["chunkRows"] = 1
    fill(shop)
    altered: set[str] = set()

    def fault(at: str, where: TableId) -> None:
        if at == "load" and where.table not in altered:
            altered.add(where.table)
            shop.sql(f"ALTER TABLE {where.table} ADD COLUMN x INTEGER")
            raise OSError(errno.EIO, "locked")

    in_memory_target.STORAGE.fault = fault
    shop.run()
    in_memory_target.STORAGE.fault = lambda at, where: None
    assert altered == {"customers", "notes"}
    shop.assert_equal()


def test_what_a_copy_left_that_began_again_with_other_columns_is_discarded(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    discarding = Discarding(monkeypatch)
    alter_while_copied(shop)
    shop.run()
    assert discarding.tables == ["customers", "notes"]
    asked = len(discarding.asked)
    shop.run()
    assert len(discarding.asked) == asked


def test_the_plan_of_a_failed_copy_is_noted_when_the_table_has_other_columns_by_then(shop: Shop) -> None:
    pipeline = build_pipeline(shop.document, host=Host())  # type: ignore[arg-type]
    record, noted = TableRecord(TableId("main", "customers"), selected=True), list[str]()
    with pipeline.source.create_table_registry() as registry:
        record.schemas = [(None, registry.describe_table(record.table))]
    start = SqliteOffset(0)
    store = SimpleNamespace(note_remains=lambda one: noted.append(one.snapshot.snapshot_id))
    lifecycle: Any = SimpleNamespace(run=SimpleNamespace(pipeline=pipeline, table_store=store), save=lambda: None)
    record.snapshot = SnapshotRecord("plan", (), start, start)
    assert describe_again(lifecycle, record)
    assert noted == []
    shop.sql("ALTER TABLE customers ADD COLUMN x INTEGER")
    assert describe_again(lifecycle, record)
    assert noted == ["plan"]
    assert record.snapshot is None


def test_a_target_that_does_not_answer_is_asked_for_one_table_only(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    discarding = Discarding(monkeypatch)
    discarding.error = RetryableError("away", code="RPL-9196")
    alter_while_copied(shop)
    discarding.asked.clear()
    shop.run()
    assert len(discarding.tables) == 1
    discarding.error = NeedsUserError("another's", code="RPL-9196", hint="none")
    shop.run()
    assert discarding.tables == ["customers", "notes"]
    shop.assert_equal()
