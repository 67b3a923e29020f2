"""`snapshot.order` says which tables are copied first."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from replicator_runtime.engine.snapshot.copy_order import CopyOrder, entry_matches
from replicator_runtime.engine.tables.table_store import TableRecord
from replicator_sdk import TableId
from replicator_source_sqlite.snapshots.snapshot import SqliteSnapshotReader
from tests.runtime.engine.test_run import Shop, fill, shop

if TYPE_CHECKING:
    from collections.abc import Sequence

    from replicator_sdk import SnapshotChunk, TableSchema, TableSnapshot

__all__ = ["shop"]


@pytest.mark.parametrize(
    ("entry", "matches"),
    [("orders", True), ("shop.orders", True), ("db.shop.orders", True), ("s*.o?ders", True), ("orders.shop", False)],
)
def test_an_entry_gives_the_last_parts_of_a_name(entry: str, matches: bool) -> None:
    assert entry_matches(entry, TableId("db", "orders", "shop")) is matches


def test_tables_that_no_entry_matches_come_last_in_their_order() -> None:
    records = [TableRecord(TableId("db", name)) for name in ("a", "b", "c", "d")]
    order = CopyOrder(("db.c", "b", "c"))
    assert [record.table.table for record in order.sorted(records)] == ["c", "b", "a", "d"]


@pytest.mark.parametrize("order", [["customers", "notes"], ["main.notes"]])
def test_tables_are_copied_in_that_order(shop: Shop, order: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    fill(shop)
    opened: list[str] = []
    true_open = SqliteSnapshotReader.open

    def opening(
        reader: SqliteSnapshotReader, schema: TableSchema, chunks: Sequence[SnapshotChunk] = ()
    ) -> TableSnapshot:
        opened.append(schema.table.table)
        return true_open(reader, schema, chunks)

    monkeypatch.setattr(SqliteSnapshotReader, "open", opening)
    shop.document |= {"parallelism": {"tables": 1}, "snapshot": {"order": order}}
    shop.run()
    assert opened == (["customers", "notes"] if order[0] == "customers" else ["notes", "customers"])
    shop.assert_equal()
