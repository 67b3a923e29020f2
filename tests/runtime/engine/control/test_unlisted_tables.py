"""A table that is to be copied again, and that the source does not list, says so in the status, and is copied once it is listed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from replicator_runtime.engine.control.table_names import find_table
from replicator_runtime.engine.preparation import discovery
from replicator_sdk import TableId
from replicator_sdk.errors import NeedsUserError
from replicator_source_sqlite.catalogue import SqliteRegistry
from replicator_state import RequestFolder
from tests.runtime.engine.apply.test_rejoining import at_work, count
from tests.runtime.engine.control.test_control import ask, copies, damage, outcome
from tests.runtime.engine.requests import requests
from tests.runtime.engine.test_run import Shop, _wait, fill, shop

if TYPE_CHECKING:
    from replicator_runtime.engine.run_state.progress import Progress
    from replicator_sdk import TableSummary

__all__ = ["copies", "shop"]


def waits_for(progress: Progress, table: str) -> str:
    [found] = [view for view in progress.snapshot().tables if view.table.table == table]
    return found.waits_for


@pytest.mark.parametrize("new_tables", ["include", "ignore"])
def test_the_status_says_that_it_waits_and_a_run_that_goes_on_copies_it_once_it_is_listed(
    shop: Shop, copies: list[str], monkeypatch: pytest.MonkeyPatch, new_tables: str
) -> None:
    monkeypatch.setattr(RequestFolder, "look_seconds", 0.1)
    shop.document["newTables"] = new_tables
    shop.document["newTablesIntervalSeconds"] = 0.2
    fill(shop)
    shop.run()
    damage("notes")
    copies.clear()
    listed, hidden = SqliteRegistry.list_tables, {"notes"}

    def left_out(self: SqliteRegistry) -> list[TableSummary]:
        return [one for one in listed(self) if one.table.table not in hidden]

    monkeypatch.setattr(SqliteRegistry, "list_tables", left_out)
    with at_work(shop) as progress:
        request = ask(shop, "resync", "notes", inPlace=True)
        _wait(lambda: requests(shop).outcome(request.request_id) is not None)
        [line] = outcome(shop, request).lines
        assert line == "main.notes will be copied again by the run that goes on, once it finds it at the source"
        _wait(lambda: waits_for(progress, "notes") != "")
        assert waits_for(progress, "notes") == discovery.WAITS_FOR_SOURCE
        assert waits_for(progress, "customers") == ""
        _wait(lambda: {t["table"]: t["waitsFor"] for t in shop.status()["tables"]}.get("notes") is not None)
        assert copies == []
        hidden.clear()
        _wait(lambda: count("notes") == 20)
        _wait(lambda: waits_for(progress, "notes") == "")
    assert copies == ["notes"]
    shop.run()
    shop.assert_equal()


def test_after_a_reset_a_table_command_says_that_a_run_comes_first() -> None:
    with pytest.raises(NeedsUserError, match=r"RPL-1220.*not known yet.*replicator run"):
        find_table("notes", [])
    some: list[Any] = [TableId("d", "other")]
    with pytest.raises(NeedsUserError, match=r"RPL-1220.*no table of the pipeline"):
        find_table("notes", some)


def test_a_table_is_found_by_the_name_that_errors_print() -> None:
    plain, dotted = TableId("d", "b", "a"), TableId("d", 'my.odd "one', "a")
    for table in (plain, dotted):
        assert find_table(str(table), [plain, dotted]) == table
    clash = TableId("a", "c", "b"), TableId("d", "b.c", "a")  # `a.b.c` is the first one's full name
    assert find_table("a.b.c", clash) == clash[0]
