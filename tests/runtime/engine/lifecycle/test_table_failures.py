"""One dropped, unreadable or new table stops itself only: the others go on, and the offset with them."""

from __future__ import annotations

import gc
import threading
import weakref
from typing import TYPE_CHECKING, Any

import pytest

from replicator_runtime.engine.run_state.progress import Progress
from replicator_sdk.errors import DataError, NeedsUserError
from replicator_source_sqlite.catalogue import SqliteRegistry
from replicator_source_sqlite.streaming.reader import SqliteReader
from tests.runtime.engine import in_memory_target
from tests.runtime.engine.apply.test_rejoining import at_work, count
from tests.runtime.engine.in_memory_target import InMemoryConsumer
from tests.runtime.engine.preparation.test_selection_edits import CUSTOMERS, NOTES, codes, loads, states
from tests.runtime.engine.stream.test_paused_tables import files
from tests.runtime.engine.test_run import Shop, _wait, fill, shop

if TYPE_CHECKING:
    from collections.abc import Sequence

    from replicator_sdk import TableChanges, TableId, TableSchema

__all__ = ["shop"]


class _Rows:
    """In the place of the rows of a batch."""


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Table → the step that is refused for it, by a source that names the table or does not: `describe`, `capture`."""
    found: dict[str, str] = {}
    describe, capture = SqliteRegistry.describe_table, SqliteReader.capture

    def describe_table(self: SqliteRegistry, table: TableId) -> TableSchema:
        if found.get(table.table) == "describe":
            raise NeedsUserError("it may not be read", code="RPL-1", hint="grant it")
        return describe(self, table)

    def capture_tables(self: SqliteReader, tables: Sequence[TableSchema]) -> None:
        for schema in tables:
            step = found.get(schema.table.table, "")
            if step.startswith("capture"):
                name = str(schema.table) if step == "capture, named" else None
                raise NeedsUserError("it may not be captured", code="RPL-2", hint="own it", table=name)
        capture(self, tables)

    monkeypatch.setattr(SqliteRegistry, "describe_table", describe_table)
    monkeypatch.setattr(SqliteReader, "capture", capture_tables)
    return found


def offset_moves(shop: Shop) -> bool:
    before = shop.status()["offset"]
    shop.sql("INSERT INTO notes VALUES ('one more')", "INSERT INTO notes VALUES ('and one more')")
    with pytest.raises(NeedsUserError):
        shop.run()
    return bool(shop.status()["offset"] != before)


def test_a_named_table_that_is_dropped_stops_only_itself(shop: Shop) -> None:
    fill(shop)
    shop.document["tables"] = [CUSTOMERS, NOTES]
    shop.run()
    shop.sql("INSERT INTO customers VALUES (70, 'last')", "DROP TABLE customers", "INSERT INTO notes VALUES ('x')")
    with pytest.raises(NeedsUserError, match=r"RPL-2001.*customers"):
        shop.run()
    shop.assert_equal("notes")
    assert len(in_memory_target.STORAGE.rows("customers")) == 21, "its last changes are read from the log"
    assert codes(shop) == {"customers": "RPL-2001"}
    assert offset_moves(shop)
    shop.assert_equal("notes")
    shop.sql("CREATE TABLE customers (id INTEGER PRIMARY KEY, other TEXT)", "INSERT INTO customers VALUES (1, 'new')")
    shop.run()
    shop.assert_equal()


def test_a_named_table_that_comes_back_joins_a_run_at_work(shop: Shop) -> None:
    fill(shop)
    shop.document |= {"tables": [CUSTOMERS, NOTES], "newTablesIntervalSeconds": 0.2}
    shop.run()
    shop.sql("DROP TABLE customers")
    stop, progress = threading.Event(), Progress()
    thread = threading.Thread(target=lambda: shop.run(until_current=False, stop=stop, progress=progress))
    thread.start()
    try:
        _wait(lambda: any("RPL-2001" in t.error for t in progress.snapshot().tables))
        shop.sql("CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT)", "INSERT INTO customers VALUES (1, 'a')")
        _wait(lambda: all(t.state == "REPLICATING" for t in progress.snapshot().tables))
    finally:
        stop.set()
        thread.join(120)
    shop.run()
    shop.assert_equal()


def test_the_only_table_that_is_dropped_ends_the_run_with_its_name(shop: Shop) -> None:
    fill(shop)
    shop.document["tables"] = [CUSTOMERS]
    shop.run()
    shop.sql("INSERT INTO customers VALUES (70, 'last')", "DROP TABLE customers")
    for _ in range(2):
        with pytest.raises(NeedsUserError, match=r"RPL-2001.*customers"):
            shop.run()
    assert len(in_memory_target.STORAGE.rows("customers")) == 21


def test_the_reason_why_the_only_table_stopped_is_kept(shop: Shop, refused: dict[str, str]) -> None:
    shop.document["tables"] = [{"table": "c*"}]
    refused["customers"] = "describe"
    with pytest.raises(NeedsUserError, match=r"RPL-1.*main\.customers"):
        shop.run()


@pytest.mark.parametrize("step", ["describe", "capture", "capture, named"])
def test_a_new_table_that_cannot_be_taken_in_holds_nothing_and_joins_after_its_repair(
    shop: Shop, refused: dict[str, str], step: str
) -> None:
    fill(shop)
    shop.run()
    shop.sql("CREATE TABLE late (id INTEGER PRIMARY KEY)", "INSERT INTO late VALUES (1)")
    refused["late"] = step
    with pytest.raises(NeedsUserError, match=r"RPL-[12].*main\.late"):
        shop.run()
    shop.assert_equal("customers", "notes")
    assert states(shop) == {"customers": "REPLICATING", "notes": "REPLICATING", "late": "FAILING"}
    assert offset_moves(shop)
    shop.assert_equal("customers", "notes")
    refused.clear()
    shop.sql("INSERT INTO late VALUES (2)")
    for i in (3, 4):
        shop.run()
        shop.assert_equal("customers", "notes", "late")
        shop.sql(f"INSERT INTO late VALUES ({i})")


@pytest.mark.parametrize("step", ["describe", "capture", "capture, named"])
def test_a_table_refused_at_the_first_start_is_tried_again_although_new_ones_are_ignored(
    shop: Shop, refused: dict[str, str], step: str
) -> None:
    shop.document["newTables"] = "ignore"
    fill(shop)
    refused["customers"] = step
    with pytest.raises(NeedsUserError, match=r"RPL-[12].*main\.customers"):
        shop.run()
    shop.assert_equal("notes")
    assert offset_moves(shop)
    refused.clear()
    shop.run()
    shop.assert_equal()


def test_a_known_table_that_cannot_be_captured_any_more_goes_on_after_its_repair(
    shop: Shop, refused: dict[str, str]
) -> None:
    fill(shop)
    shop.run()
    copied = loads("customers")
    refused["customers"] = "capture, named"
    shop.sql("INSERT INTO customers VALUES (80, 'meanwhile')", "INSERT INTO notes VALUES ('meanwhile')")
    with pytest.raises(NeedsUserError, match=r"RPL-2.*main\.customers"):
        shop.run()
    shop.assert_equal("notes")
    refused.clear()
    shop.run()
    shop.assert_equal()
    assert not copied


@pytest.mark.parametrize("is_gone", [False, True])
def test_a_table_for_which_the_reader_fails_stops_alone_and_its_changes_are_kept(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, is_gone: bool
) -> None:
    """Also one that the catalogue lists no more, whose last changes only the log holds."""
    fill(shop)
    shop.run()
    run, list_tables = SqliteReader.run, SqliteRegistry.list_tables
    bad = True

    def read(self: SqliteReader) -> None:
        if bad and any(table.table == "customers" for table in self._definition.tables):
            raise NeedsUserError("its changes cannot be read", code="RPL-3", hint="repair it", table="main.customers")
        run(self)

    def listed(self: SqliteRegistry) -> Any:
        return [one for one in list_tables(self) if not (bad and is_gone and one.table.table == "customers")]

    monkeypatch.setattr(SqliteReader, "run", read)
    monkeypatch.setattr(SqliteRegistry, "list_tables", listed)
    for number in range(3):
        shop.sql(f"INSERT INTO customers VALUES (9{number}, 'kept')", f"INSERT INTO notes (text) VALUES ('{number}')")
        shop.sql(f"ALTER TABLE notes ADD COLUMN n{number} TEXT DEFAULT 'x'")
        with pytest.raises(NeedsUserError, match=r"RPL-3.*main\.customers"):
            shop.run()
        shop.assert_equal("notes")
    bad = False
    for number in range(3):
        shop.run()
        shop.assert_equal()
        shop.sql(f"INSERT INTO customers VALUES (8{number}, 'later')")


@pytest.mark.parametrize("minutes", [None, 0.000001])
def test_a_failing_table_keeps_no_rows_in_memory(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, minutes: float | None
) -> None:
    """Its error is kept for as long as it fails; the traceback must not keep the batch that was refused."""
    fill(shop)
    shop.document["failingTables"] = {"laneAfterMinutes": minutes, "maxCopyDelaySeconds": 600}
    shop.run()
    apply, batches = InMemoryConsumer.apply_batch, []

    def refuse(self: InMemoryConsumer, changes: TableChanges) -> None:
        rows = _Rows()
        if changes.table.table == "notes":
            batches.append(weakref.ref(rows))
            raise DataError("a value is too large", code="RPL-5001", table="main.notes")
        apply(self, changes)

    monkeypatch.setattr(InMemoryConsumer, "apply_batch", refuse)
    with at_work(shop):
        shop.sql("INSERT INTO notes VALUES ('refused')")
        _wait(lambda: bool(batches) and (minutes is None or bool(files(shop))), 60)
        shop.sql("INSERT INTO customers VALUES (900, 'at work')")
        _wait(lambda: count("customers") == 21, 60)
        _wait(lambda: gc.collect() >= 0 and not any(batch() for batch in batches), 60)


def test_with_stop_a_table_that_cannot_be_described_stops_the_run(shop: Shop, refused: dict[str, str]) -> None:
    shop.document["onTableError"] = "stop"
    fill(shop)
    refused["customers"] = "describe"
    with pytest.raises(NeedsUserError, match="RPL-1"):
        shop.run()
    assert not [t for t in in_memory_target.STORAGE.tables.values() if t.rows]


def test_a_run_refused_for_every_table_says_so_once(shop: Shop, refused: dict[str, Any]) -> None:
    refused |= {"customers": "capture", "notes": "capture"}
    with pytest.raises(NeedsUserError, match="RPL-2"):
        shop.run()
