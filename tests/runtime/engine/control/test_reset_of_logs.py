"""Another generation of a source that takes no snapshots: tables are emptied, then have what the log has, also after kills."""

from __future__ import annotations

import shutil
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from replicator_runtime.config import build_pipeline
from replicator_runtime.engine.apply import applier
from replicator_runtime.engine.control.reset import reset
from replicator_runtime.engine.preparation import created_tables
from replicator_runtime.engine.tables import table_creation
from replicator_sdk import DDLEvent, DDLOperation, EventConsumer, Position, failpoint
from replicator_sdk.errors import NeedsUserError, ReplicatorError, SchemaDriftError
from replicator_sdk.testing.histories.values import difference
from replicator_sdk.testing.in_memory.offset import MemoryOffset
from replicator_sdk.testing.in_memory.target import MemoryConsumer, MemoryStore, MemoryTarget
from tests.follows import follows
from tests.runtime.engine.partitioned_shop import Host, PartitionedShop, run_pipeline

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from replicator_sdk import DMLEvent, SliceChanges, SliceOutcome


@pytest.fixture(autouse=True)
def _disarmed() -> Iterator[None]:
    yield
    failpoint.arm("")


class Rewritten:
    """A shop whose log is deleted and begins again with other rows, as when a connector takes its snapshot again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = str(folder)
        self.shop = PartitionedShop(folder, 1)
        self.shop.trade(60)
        self.shop.open_late_table()
        self.shop.trade(20)

    def document(self, **more: Any) -> dict[str, Any]:
        return self.shop.document("memory", {"store": self.store}, **more)

    def run(self, **more: Any) -> None:
        run_pipeline(self.document(**more), MemoryTarget)

    def begin_log_again(self) -> None:
        shutil.rmtree(self.folder / "log")
        self.shop = PartitionedShop(self.folder, 2)
        self.shop.trade(40)

    def reset(self) -> int:
        return reset(build_pipeline(self.document(), host=Host(MemoryTarget)))  # type: ignore[arg-type]

    def assert_equal(self) -> None:
        for schema in self.shop.schemas:
            found = MemoryStore.of(self.store).rows(schema.table)
            assert difference(schema, self.shop.rows(schema.table), found) == "", schema.table


@pytest.fixture
def rewritten(tmp_path: Path) -> Iterator[Rewritten]:
    yield Rewritten(tmp_path)
    MemoryStore.forget(str(tmp_path))


def go_on(rewritten: Rewritten) -> None:
    """Three runs; the table that came late comes late again, and columns are added between."""
    for number in range(3):
        rewritten.run()
        rewritten.assert_equal()
        rewritten.shop.trade(20)
        rewritten.shop.grow()
        if number == 0:
            rewritten.shop.open_late_table()
    rewritten.run()
    rewritten.assert_equal()


def test_tables_have_what_the_log_has_and_nothing_of_the_former_generation(rewritten: Rewritten) -> None:
    rewritten.run()
    rewritten.assert_equal()
    rewritten.begin_log_again()
    assert rewritten.reset() == 2
    go_on(rewritten)


@pytest.mark.parametrize("place", ["engine.generation.begun", "engine.former_table.begun", "engine.offset.after_save"])
@pytest.mark.parametrize("passes", [1, 2])
def test_an_interrupted_beginning_is_finished(rewritten: Rewritten, place: str, passes: int) -> None:
    rewritten.run()
    rewritten.begin_log_again()
    failpoint.arm(f"{place}=raise@{passes}")
    try:
        rewritten.reset()
        rewritten.run(retries={"maxDurationSeconds": 0})
    except ReplicatorError:
        pass
    else:
        assert passes > 1, f"{place} is never passed"
    failpoint.arm("")
    go_on(rewritten)


def test_without_emptying_the_former_rows_stay(rewritten: Rewritten, monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin of the tests above."""
    rewritten.run()
    rewritten.begin_log_again()
    rewritten.reset()
    monkeypatch.setattr(created_tables, "is_former", lambda *_: False)
    monkeypatch.setattr(applier, "create_table", lambda consumer, event, *_, **__: consumer.apply_ddl(event))
    rewritten.run()
    with pytest.raises(AssertionError):
        rewritten.assert_equal()


@follows("RPL-4105")
def test_a_lost_state_is_still_refused(rewritten: Rewritten) -> None:
    """A state folder that is gone begins with generation 1, as the tables did; the word begins above them."""
    rewritten.run()
    shutil.rmtree(rewritten.folder / "state")
    with pytest.raises(NeedsUserError, match=r"RPL-4105.*replicator reset PIPELINE --lost-state"):
        rewritten.run()
    rewritten.begin_log_again()
    reset(build_pipeline(rewritten.document(), host=Host(MemoryTarget)), state_was_lost=True)  # type: ignore[arg-type]
    go_on(rewritten)


def test_what_a_target_advises_of_one_table_is_something_that_this_source_can_do(
    rewritten: Rewritten, monkeypatch: pytest.MonkeyPatch
) -> None:
    rewritten.run()
    rewritten.shop.trade(40)
    apply = MemoryConsumer.apply_slice

    def refuse(self: MemoryConsumer, changes: SliceChanges) -> SliceOutcome:
        table = min(changes.tables)
        hint = "copy the table again: `replicator table resync NAME TABLE`"
        error = SchemaDriftError("other columns", code="RPL-6405", table=str(table), hint=hint)
        outcome = apply(self, replace(changes, tables={t: s for t, s in changes.tables.items() if t != table}))
        return replace(outcome, failures={**outcome.failures, table: error})

    with monkeypatch.context() as patch:
        patch.setattr(MemoryConsumer, "apply_slice", refuse)
        with pytest.raises(SchemaDriftError, match=r"RPL-6405.*replicator reset PIPELINE.*snapshot its tables again"):
            rewritten.run()
    [shown] = (rewritten.folder / "state").rglob("state.json")
    assert "RPL-6405" in shown.read_text()
    assert "table resync" not in shown.read_text()
    rewritten.reset()
    for _ in range(2):
        rewritten.run()
        rewritten.assert_equal()
        rewritten.shop.trade(20)
        rewritten.shop.grow()


class RowConsumer(EventConsumer):
    """Keeps the operations that it is given."""

    def __init__(self) -> None:
        self.operations: list[DDLOperation] = []

    def apply_ddl(self, event: DDLEvent) -> None:
        self.operations.append(event.operation)

    def apply_dml(self, event: DMLEvent) -> None:
        raise AssertionError

    def stop(self) -> None:
        raise AssertionError


@pytest.mark.parametrize(
    ("generation", "operations"),
    [(1, [DDLOperation.CREATE_TABLE]), (2, [DDLOperation.CREATE_TABLE, DDLOperation.TRUNCATE_TABLE])],
)
def test_a_target_that_takes_rows_one_by_one_truncates_the_table(
    rewritten: Rewritten, generation: int, operations: list[DDLOperation]
) -> None:
    consumer, schema = RowConsumer(), rewritten.shop.schemas[0]
    position = Position(MemoryOffset(7))
    event = DDLEvent(position.offset, DDLOperation.CREATE_TABLE, schema.table, schema, position=position)
    table_creation.create_table(consumer, event, generation)
    assert consumer.operations == operations
