"""An edit of `tables`, `columns` or a blacklist between two runs: the target follows it, or the table says why not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from replicator_runtime.engine.batching.sequencer import SequencingEmitter
from replicator_sdk import DDLEvent, DDLOperation
from replicator_sdk.errors import NeedsUserError
from tests.follows import follows
from tests.runtime.engine import in_memory_target
from tests.runtime.engine.requests import requests
from tests.runtime.engine.test_run import Shop, fill, shop

__all__ = ["shop"]

CUSTOMERS = {"database": "main", "table": "customers"}
NOTES = {"database": "main", "table": "notes"}


def loads(table: str) -> list[str]:
    """The loads of `table` from now on."""
    found: list[str] = []

    def fault(step: str, where: Any) -> None:
        if step == "load" and where.table == table:
            found.append(step)

    in_memory_target.STORAGE.fault = fault
    return found


def states(shop: Shop) -> dict[str, str]:
    return {t["table"]: t["state"] for t in shop.status()["tables"]}


def codes(shop: Shop) -> dict[str, str]:
    return {t["table"]: t["error"]["code"] for t in shop.status()["tables"] if t["error"]}


def test_a_table_of_a_pattern_is_copied_again_by_an_exclusion_that_is_put_in_and_taken_out(shop: Shop) -> None:
    fill(shop)
    shop.run()
    shop.document["tables"] = [{**CUSTOMERS, "exclude": True}]
    shop.sql("INSERT INTO customers VALUES (900, 'meanwhile')", "CREATE TABLE orders (id INTEGER PRIMARY KEY)")
    shop.run()
    shop.assert_equal("notes", "orders")
    assert not any(row["id"] == 900 for row in in_memory_target.STORAGE.rows("customers"))
    copied = loads("customers")
    del shop.document["tables"]
    shop.run()
    shop.assert_equal("customers", "notes", "orders")
    assert copied


@pytest.mark.parametrize("back", [[CUSTOMERS, NOTES], [], [{"table": "n*"}, {"table": "c*"}]])
def test_a_table_that_leaves_the_selection_and_comes_back_is_copied_again(shop: Shop, back: list[Any]) -> None:
    """Its changes meanwhile are in no replay any more: the saved offset is past them."""
    fill(shop)
    shop.document["tables"] = [CUSTOMERS, NOTES]
    shop.run()
    shop.document["tables"] = [NOTES]
    shop.sql("INSERT INTO customers VALUES (900, 'meanwhile')", "DELETE FROM customers WHERE id = 3")
    shop.run()
    shop.sql("INSERT INTO notes VALUES ('later')")
    shop.run()
    shop.document["tables"] = back
    shop.sql("UPDATE customers SET name = 'z' WHERE id = 4")
    shop.run()
    shop.assert_equal()
    copied = loads("customers")
    shop.sql("UPDATE customers SET name = 'y' WHERE id = 5", "ALTER TABLE customers ADD COLUMN city TEXT")
    for _ in range(2):
        shop.run()
        shop.assert_equal()
        shop.sql("DELETE FROM customers WHERE id = 6")
    assert not copied, "only once"


def test_a_table_that_comes_back_altered_is_copied_with_the_columns_it_has_then(shop: Shop) -> None:
    fill(shop)
    shop.run()
    shop.document["tables"] = [NOTES]
    shop.run()
    shop.sql("ALTER TABLE customers RENAME COLUMN name TO title", "ALTER TABLE customers ADD COLUMN city TEXT")
    shop.run()
    shop.document["tables"] = []
    shop.run()
    shop.assert_equal()


def test_the_only_table_can_leave_and_come_back(shop: Shop) -> None:
    fill(shop)
    shop.document["tables"] = [CUSTOMERS]
    shop.run()
    shop.document["tables"] = [{"table": "nothing*"}]
    with pytest.raises(NeedsUserError, match="RPL-2002"):
        shop.run()
    copied = loads("customers")
    shop.document["tables"] = [CUSTOMERS]
    shop.run()
    assert copied
    shop.assert_equal("customers")


@follows("RPL-4101")
@pytest.mark.parametrize("by_command", [True, False])
def test_a_target_table_that_was_deleted_is_copied_again_as_the_hint_says(shop: Shop, by_command: bool) -> None:
    fill(shop)
    shop.run()
    [gone] = [t for t in in_memory_target.STORAGE.tables if t.table == "customers"]
    del in_memory_target.STORAGE.tables[gone]
    shop.sql("INSERT INTO notes VALUES ('meanwhile')")
    with pytest.raises(NeedsUserError, match=r"RPL-4101.*table resync NAME TABLE --in-place"):
        shop.run()
    shop.assert_equal("notes")
    _copy_again(shop, [], by_command=by_command)
    shop.assert_equal()


def _copy_again(shop: Shop, tables: list[Any], *, by_command: bool) -> None:
    """By `replicator table resync`, or by taking the customers out of `tables` for a run."""
    if by_command:
        requests(shop).submit("table.resync", {"tables": ["customers"], "inPlace": True})
    else:
        shop.document["tables"] = [NOTES]
        shop.run()
    shop.document["tables"] = tables
    shop.run()


def test_a_column_taken_out_of_columns_is_at_the_target_no_more(shop: Shop) -> None:
    shop.sql("ALTER TABLE customers ADD COLUMN card TEXT")
    for i in range(5):
        shop.sql(f"INSERT INTO customers VALUES ({i}, 'n{i}', 'secret{i}')")
    shop.run()
    shop.document["tables"] = [{**CUSTOMERS, "columns": ["name"]}, NOTES]
    shop.sql("INSERT INTO customers VALUES (10, 'n10', 'secret10')")
    shop.run()
    rows = in_memory_target.STORAGE.rows("customers")
    assert {tuple(row) for row in rows} == {("id", "name")}
    assert len(rows) == 6
    for i in (11, 12, 13):
        shop.sql(f"INSERT INTO customers VALUES ({i}, 'n{i}', 'secret{i}')", f"ALTER TABLE notes ADD COLUMN c{i} TEXT")
        shop.run()
        assert {tuple(row) for row in in_memory_target.STORAGE.rows("customers")} == {("id", "name")}
    assert len(in_memory_target.STORAGE.rows("customers")) == 9


@pytest.mark.parametrize("wide", [{"columns": ["name", "card"]}, {}])
def test_a_column_put_into_columns_arrives_with_the_values_of_old_rows(shop: Shop, wide: dict[str, Any]) -> None:
    shop.sql("ALTER TABLE customers ADD COLUMN card TEXT", "INSERT INTO customers VALUES (1, 'a', 'x')")
    shop.document["tables"] = [{**CUSTOMERS, "columns": ["name"]}, NOTES]
    shop.run()
    shop.document["tables"] = [{**CUSTOMERS, **wide}, NOTES]
    shop.sql("INSERT INTO customers VALUES (2, 'b', 'y')")
    shop.run()
    shop.assert_equal()
    shop.sql("UPDATE customers SET card = 'z' WHERE id = 1", "INSERT INTO customers VALUES (3, 'c', 'z')")
    shop.run()
    shop.assert_equal()


def test_an_edit_of_columns_that_means_the_same_columns_copies_nothing(shop: Shop) -> None:
    fill(shop)
    shop.document["tables"] = [{**CUSTOMERS, "columns": ["name"]}, NOTES]
    shop.run()
    copied = loads("customers")
    for entry in ({"columns": ["id", "name"]}, {}, {"columns": ["name", "id"]}):
        shop.document["tables"] = [{**CUSTOMERS, **entry}, NOTES]
        shop.sql("UPDATE customers SET name = name || 'x'")
        shop.run()
        shop.assert_equal()
    assert not copied


def test_a_column_edit_that_names_no_column_stops_its_table_alone_and_can_be_taken_back(shop: Shop) -> None:
    fill(shop)
    shop.run()
    copied = loads("customers")
    shop.document["tables"] = [{**CUSTOMERS, "columns": ["nam"]}, NOTES]
    shop.sql("INSERT INTO notes VALUES ('meanwhile')", "INSERT INTO customers VALUES (50, 'meanwhile')")
    with pytest.raises(NeedsUserError, match=r"RPL-2003.*name"):
        shop.run()
    shop.assert_equal("notes")
    assert states(shop) == {"customers": "FAILING", "notes": "REPLICATING"}
    shop.document["tables"] = []
    shop.run()
    shop.assert_equal()
    assert not copied


def test_inserts_let_in_again_copy_the_table_again(shop: Shop) -> None:
    fill(shop)
    shop.document["dmlBlacklist"] = ["INSERT"]
    shop.run()
    shop.sql("INSERT INTO customers VALUES (60, 'left out')")
    shop.run()
    assert len(in_memory_target.STORAGE.rows("customers")) == 20
    shop.document["dmlBlacklist"] = []
    shop.run()
    shop.assert_equal()


def test_a_replaced_table_is_copied_again_although_truncates_are_left_out(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As PostgreSQL's source announces it: the old table's rows are not kept below the new one's."""
    fill(shop)
    shop.document["ddlBlacklist"] = ["DROP_TABLE", "TRUNCATE_TABLE"]
    shop.run()
    emit = SequencingEmitter.emit

    def replaced(self: SequencingEmitter, event: Any) -> None:
        if isinstance(event, DDLEvent) and event.operation is DDLOperation.ALTER_TABLE:
            event = replace(event, operation=DDLOperation.TRUNCATE_TABLE, alters=(), needs_snapshot=True)
        emit(self, event)

    monkeypatch.setattr(SequencingEmitter, "emit", replaced)
    copied = loads("customers")
    shop.sql("ALTER TABLE customers ADD COLUMN city TEXT")
    for i in (60, 61, 62):
        shop.sql(f"INSERT INTO customers (id, name) VALUES ({i}, 'n')")
        shop.run()
        shop.assert_equal()
    assert len(copied) == 1


def test_the_hint_for_a_shorter_blacklist_names_all_that_was_on_it(shop: Shop) -> None:
    """Only the whole list is what it was; DELETE alone is what was refused."""
    fill(shop)
    before = [{**CUSTOMERS, "dmlBlacklist": ["DELETE", "INSERT"]}, NOTES]
    shop.document["tables"] = before
    shop.run()
    shop.document["tables"] = [{**CUSTOMERS, "dmlBlacklist": ["DELETE"]}, NOTES]
    with pytest.raises(NeedsUserError, match=r"RPL-2006.*back with DELETE, INSERT"):
        shop.run()
    shop.document["tables"] = before
    shop.run()


@follows("RPL-2006")
@pytest.mark.parametrize("by_command", [True, False])
@pytest.mark.parametrize("left_out", [{"dmlBlacklist": ["DELETE"]}, {"ddlBlacklist": ["TRUNCATE_TABLE"]}])
def test_deletes_are_not_let_in_again_without_a_word(
    shop: Shop, left_out: dict[str, list[str]], by_command: bool
) -> None:
    """The target keeps rows the source has deleted, perhaps on purpose: a new copy is for the user to decide."""
    fill(shop)
    shop.document["tables"] = [{**CUSTOMERS, **left_out}, NOTES]
    shop.run()
    shop.sql("DELETE FROM customers WHERE id < 10" if "dmlBlacklist" in left_out else "DELETE FROM customers")
    shop.run()
    kept = in_memory_target.STORAGE.rows("customers")
    shop.document["tables"] = [CUSTOMERS, NOTES]
    shop.sql("INSERT INTO notes VALUES ('meanwhile')")
    with pytest.raises(NeedsUserError, match=r"RPL-2006.*customers"):
        shop.run()
    assert in_memory_target.STORAGE.rows("customers") == kept
    shop.assert_equal("notes")
    _copy_again(shop, [CUSTOMERS, NOTES], by_command=by_command)
    shop.assert_equal()


def test_operations_left_out_from_now_on_copy_nothing(shop: Shop) -> None:
    fill(shop)
    shop.run()
    copied = loads("customers")
    shop.document["dmlBlacklist"] = ["DELETE"]
    shop.sql("DELETE FROM customers WHERE id = 3")
    shop.run()
    assert len(in_memory_target.STORAGE.rows("customers")) == 20
    assert not copied


def test_a_pattern_that_matches_more_takes_tables_in_although_new_ones_are_ignored(shop: Shop) -> None:
    fill(shop)
    shop.document |= {"newTables": "ignore", "tables": [{"table": "n*"}]}
    shop.run()
    shop.document["tables"] = [{"table": "n*"}, {"table": "c*"}]
    shop.run()
    shop.assert_equal()
    shop.sql("CREATE TABLE new (id INTEGER PRIMARY KEY)")
    shop.run()
    assert "new" not in states(shop)
