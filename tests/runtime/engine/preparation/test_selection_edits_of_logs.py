"""SelectionEdits of a pipeline whose source takes no snapshots: what the log passed over is never missing without a word."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from replicator_sdk import TableId
from replicator_sdk.discovery.table_registry import FixedTables
from replicator_sdk.errors import NeedsUserError
from replicator_sdk.testing.in_memory.target import MemoryStore
from tests.runtime.engine.slices.test_distributed_stream import Pair

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CUSTOMERS, STOCK, NOTES = ({"table": name} for name in ("customers", "stock", "notes"))


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    yield Pair(tmp_path, 1)
    MemoryStore.forget(str(tmp_path))


def select(pair: Pair, *entries: dict[str, Any]) -> None:
    pair.settings = {"tables": list(entries)}


def test_a_table_that_left_and_comes_back_is_refused_and_the_others_go_on(pair: Pair) -> None:
    pair.shop.trade(20)
    pair.run()
    select(pair, STOCK, NOTES)
    pair.shop.trade(20)
    pair.run()
    select(pair, CUSTOMERS, STOCK, NOTES)
    for _ in range(2):
        pair.shop.trade(20)
        with pytest.raises(NeedsUserError, match=r"RPL-2005.*customers.*out of `tables`"):
            pair.run()
        pair.assert_equal(but="customers")
    select(pair, STOCK, NOTES)
    pair.shop.trade(5)
    result = pair.run()
    assert result.offset == str(pair.shop.log.end()), "a refused table holds no offset"
    pair.assert_equal(but="customers")


def test_a_table_that_comes_back_before_the_offset_moved_goes_on(pair: Pair) -> None:
    """An entry taken out by mistake and put back at once."""
    pair.shop.trade(20)
    pair.run()
    select(pair, STOCK, NOTES)
    pair.run()
    select(pair, CUSTOMERS, STOCK, NOTES)
    pair.shop.trade(20)
    pair.run()
    pair.assert_equal()


def test_a_table_selected_later_is_refused_when_its_records_were_passed_over(pair: Pair) -> None:
    select(pair, STOCK, NOTES)
    pair.shop.trade(20)
    pair.run()
    select(pair, CUSTOMERS, STOCK, NOTES)
    for _ in range(2):
        pair.shop.trade(20)
        with pytest.raises(NeedsUserError, match=r"RPL-2005.*customers"):
            pair.run()
        pair.assert_equal(but="customers")


def test_a_table_selected_later_joins_when_the_source_says_that_all_of_it_is_ahead(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    select(pair, CUSTOMERS, STOCK, NOTES)
    pair.shop.trade(20)
    pair.run()
    monkeypatch.setattr(FixedTables, "is_ahead", lambda _self, table, _offset: table.table == "late")
    select(pair, CUSTOMERS, STOCK, NOTES, {"table": "late"})
    pair.shop.open_late_table()
    pair.run()
    pair.assert_equal()


@pytest.mark.parametrize(
    ("before", "after", "back"),
    [({"columns": ["name", "note"]}, {"columns": ["name"]}, "name, note"), ({}, {"columns": ["name"]}, "no `columns`")],
)
def test_other_columns_are_refused_until_they_are_put_back(
    pair: Pair, before: dict[str, Any], after: dict[str, Any], back: str
) -> None:
    select(pair, {**CUSTOMERS, **before}, STOCK, NOTES)
    pair.shop.trade(20)
    pair.run()
    select(pair, {**CUSTOMERS, **after}, STOCK, NOTES)
    for _ in range(2):
        pair.shop.trade(20)
        with pytest.raises(NeedsUserError, match=rf"RPL-2007.*customers.*{back}"):
            pair.run()
        pair.assert_equal(but="customers")
    select(pair, {**CUSTOMERS, **before}, STOCK, NOTES)
    pair.run()
    pair.assert_equal()


def test_a_target_table_that_was_deleted_is_not_begun_empty_again(pair: Pair) -> None:
    pair.shop.trade(20)
    pair.run()
    table = TableId("shop", "customers", "public")
    del pair.target.reference.tables[table], pair.target.progress[table]
    for _ in range(2):
        pair.shop.trade(20)
        with pytest.raises(NeedsUserError, match=r"RPL-4103.*customers"):
            pair.run()
        pair.assert_equal(but="customers")
