"""A run that ends between a DDL event at the target and the engine's own notes is followed by runs that go on as if it had not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from replicator_runtime.config import build_pipeline
from replicator_runtime.engine.worker import run
from replicator_sdk import DDLOperation
from replicator_sdk.errors import BugError, FencedError, NeedsUserError
from replicator_sdk.testing.histories.history import load_case, parse_history
from replicator_sdk.testing.in_memory.source import MemoryDatabase, MemorySource
from tests.runtime.engine import in_memory_target
from tests.runtime.engine.test_run import Shop, change, fill, shop
from tests.sdk.testing.heartbeats import spread_offsets

if TYPE_CHECKING:
    from pathlib import Path

    from replicator_sdk import TableId

__all__ = ["shop"]
ALTER = "ALTER TABLE customers ADD COLUMN city TEXT DEFAULT 'Ulm'"
REBUILD = (
    "CREATE TABLE other (id INTEGER PRIMARY KEY, name TEXT, size INTEGER)",
    "INSERT INTO other SELECT id, 'rebuilt', 1 FROM customers",
    "DROP TABLE customers",
    "ALTER TABLE other RENAME TO customers",
)


def dies(shop: Shop, at: str, table: str = "customers") -> None:
    """A run that ends at this step of the target, before it notes anything more."""
    reached: list[str] = []

    def fault(step: str, where: TableId) -> None:
        if (step, where.table) == (at, table):
            reached.append(step)
            raise FencedError("the process dies", code="RPL-8001", table=str(where))

    in_memory_target.STORAGE.fault = fault
    with pytest.raises(FencedError):
        shop.run()
    in_memory_target.STORAGE.fault = lambda step, where: None
    assert reached


def applied(operation: DDLOperation) -> int:
    """How often the target applied such an event."""
    return [event.operation for event in in_memory_target.STORAGE.ddl].count(operation)


def three_runs(shop: Shop, *tables: str) -> None:
    """Changes and another change of structure between the runs that follow."""
    for number in range(3):
        shop.run()
        shop.assert_equal(*tables)
        shop.sql(
            f"UPDATE customers SET name = 'run {number}' WHERE id < 10", "INSERT INTO notes SELECT * FROM notes LIMIT 1"
        )
        if number == 1:
            shop.sql("ALTER TABLE customers ADD COLUMN later TEXT DEFAULT 'x'", "DELETE FROM customers WHERE id = 11")
    shop.run()
    shop.assert_equal(*tables)


@pytest.mark.parametrize("at", ["ddl", "ddl applied"])
def test_a_column_is_added_once_though_the_run_ends_beside_it(shop: Shop, at: str) -> None:
    fill(shop)
    shop.run()
    change(shop)
    shop.sql(ALTER)
    dies(shop, at)
    three_runs(shop)
    assert applied(DDLOperation.ALTER_TABLE) == 2


@pytest.mark.parametrize("at", ["ddl", "ddl applied"])
def test_a_table_that_must_be_copied_again_is_copied_though_the_run_ends_beside_the_event(shop: Shop, at: str) -> None:
    fill(shop)
    shop.run()
    shop.sql(*REBUILD)
    dies(shop, at)
    three_runs(shop)
    assert applied(DDLOperation.ALTER_TABLE) == 2


@pytest.mark.parametrize("drops", [True, False])
@pytest.mark.parametrize("at", ["ddl", "ddl applied"])
def test_a_dropped_table_is_forgotten_though_the_run_ends_beside_the_event(shop: Shop, at: str, drops: bool) -> None:
    in_memory_target.STORAGE.drops = drops
    fill(shop)
    shop.run()
    shop.sql("DROP TABLE notes")
    dies(shop, at, "notes")
    shop.run()
    shop.assert_equal("customers")
    shop.sql("CREATE TABLE notes (text TEXT, more TEXT)", "INSERT INTO notes VALUES ('a', 'b')")
    three_runs(shop)


@pytest.mark.parametrize("drops", [True, False])
@pytest.mark.parametrize("at", ["ddl", "ddl applied"])
def test_a_table_created_again_before_the_next_run_is_copied_as_it_is(shop: Shop, at: str, drops: bool) -> None:
    in_memory_target.STORAGE.drops = drops
    fill(shop)
    shop.run()
    shop.sql("DROP TABLE notes")
    dies(shop, at, "notes")
    shop.sql("CREATE TABLE notes (text TEXT, more TEXT)", "INSERT INTO notes VALUES ('a', 'b')")
    three_runs(shop)


class Spread:
    """A memory source with places between its transactions, into the kept target."""

    def __init__(self, folder: Path) -> None:
        in_memory_target.STORAGE = in_memory_target.TargetStorage()
        MemoryDatabase.forget("spread")
        self.database = MemoryDatabase.of("spread")
        self.database.create("things", load_case("seed_with_primary_key").tables["customers"])
        self.steps({"insert": "things", "rows": [{"id": 1, "name": "a"}]})
        self.document: dict[str, Any] = {
            "name": "spread",
            "offsetBasePath": str(folder / "state"),
            "stages": [
                {"name": "db", "plugin": {"name": "memory", "type": "cdcSource", "properties": {"database": "spread"}}},
                {"name": "lake", "plugin": {"name": "kept", "type": "cdcTarget"}},
            ],
            "connections": [{"from": "db", "to": "lake"}],
            "retries": {"maxDurationSeconds": 5, "delaySeconds": 0.1},
        }

    def steps(self, *steps: dict[str, Any]) -> None:
        """One transaction."""
        history = {"claim": "", "tables": {}, "transactions": [list(steps)]}
        self.database.execute(*parse_history("steps", history).transactions[0])

    def run(self) -> None:
        run(build_pipeline(self.document, host=self), until_current=True)  # type: ignore[arg-type]

    def source(self, name: str) -> type[MemorySource]:
        return MemorySource

    def target(self, name: str) -> type[in_memory_target.InMemoryTarget]:
        return in_memory_target.InMemoryTarget


STEPS = [{"truncate": "things"}, {"add_column": "things", "name": "c", "type": "string"}]


def after_the_copy(spread: Spread, *steps: dict[str, Any]) -> None:
    """The first transaction after the snapshot is committed before anything of the log is read."""

    def fault(step: str, where: TableId) -> None:
        if step == "finished":
            spread.steps(*steps)

    in_memory_target.STORAGE.fault = fault


@pytest.mark.parametrize(
    "before", [[], [{"insert": "things", "rows": [{"id": 2, "name": "b"}]}]], ids=["alone", "rows"]
)
@pytest.mark.parametrize("step", STEPS, ids=["truncate", "alter"])
def test_a_change_of_structure_first_after_a_snapshot_is_applied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: list[dict[str, Any]], step: dict[str, Any]
) -> None:
    spread_offsets(monkeypatch, begins=True)
    spread = Spread(tmp_path)
    after_the_copy(spread, *before, step)
    spread.run()  # to where the log ended before the copy
    for number in range(3):
        spread.run()
        assert sorted(in_memory_target.STORAGE.rows("things"), key=str) == sorted(
            spread.database.rows("things"), key=str
        )
        spread.steps({"insert": "things", "rows": [{"id": 10 + number, "name": "later"}]})
    assert applied(DDLOperation.TRUNCATE_TABLE) + applied(DDLOperation.ALTER_TABLE) == 1


@pytest.mark.parametrize("step", STEPS, ids=["truncate", "alter"])
def test_a_change_of_structure_is_never_skipped_by_a_position_inside_its_transaction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: dict[str, Any]
) -> None:
    """A source that does not mark where the transaction begins stops the run, and nothing is saved past it."""
    spread_offsets(monkeypatch, begins=False)
    spread = Spread(tmp_path)
    after_the_copy(spread, {"insert": "things", "rows": [{"id": 2, "name": "b"}]}, step)
    for _ in range(3):
        with pytest.raises(BugError, match=r"RPL-9013.*memory\.things"):
            spread.run()
        assert [row["id"] for row in in_memory_target.STORAGE.rows("things")] == [1]
    assert not in_memory_target.STORAGE.ddl


def test_a_target_table_that_was_not_dropped_at_the_source_is_missed(shop: Shop) -> None:
    fill(shop)
    shop.run()
    before: dict[str, Any] = shop.status()
    in_memory_target.STORAGE.tables = {t: k for t, k in in_memory_target.STORAGE.tables.items() if t.table != "notes"}
    change(shop)
    with pytest.raises(NeedsUserError, match=r"RPL-4101.*notes"):
        shop.run()
    assert shop.status()["generation"] == before["generation"]
