"""A table that the pipeline does not select any more is dropped once, at the target and in the state, whatever is cut off."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from replicator_runtime.engine.control import control, table_drop
from replicator_sdk.errors import FencedError, NeedsUserError, RetryableError
from replicator_source_sqlite.plugin import SqliteSource
from replicator_state import OutcomeState
from tests.runtime.engine import in_memory_target
from tests.runtime.engine.apply.test_rejoining import at_work, count
from tests.runtime.engine.control.test_control import alone, ask, copies, outcome, works
from tests.runtime.engine.requests import requests
from tests.runtime.engine.test_run import Shop, _wait, fill, shop

if TYPE_CHECKING:
    from replicator_sdk import TableId
    from replicator_state import Outcome

__all__ = ["copies", "shop"]

POINTS = (
    "engine.request.begun",
    "engine.drop.before",
    "engine.drop.deleted",
    "engine.drop.forgotten",
    "engine.request.carried_out",
    "engine.request.finished",
)


def there(table: str = "notes") -> bool:
    """Whether the target has a table of that name."""
    return any(name.table == table for name in in_memory_target.STORAGE.tables)


def leave_notes_out(shop: Shop) -> None:
    shop.document["tables"] = [{"table": "*"}, {"table": "notes", "exclude": True}]


def take_notes_in(shop: Shop) -> None:
    shop.document["tables"] = [{"table": "*"}]


def dropped(shop: Shop, **more: Any) -> Outcome:
    request = ask(shop, "drop", "notes", **more)
    alone(shop)
    return outcome(shop, request)


def test_a_table_is_dropped_and_is_copied_from_the_beginning_when_it_is_selected_again(
    shop: Shop, copies: list[str]
) -> None:
    fill(shop)
    shop.run()
    leave_notes_out(shop)
    assert dropped(shop).lines == (
        "main.notes is no table of the replicator any more; its copy at the target is deleted",
    )
    assert not there()
    for number in range(2):
        shop.sql("INSERT INTO notes VALUES ('meanwhile')", f"INSERT INTO customers VALUES ({900 + number}, 'later')")
        shop.run()
        shop.assert_equal("customers")
        assert not there()
    assert dropped(shop).state is OutcomeState.DONE  # it is gone already
    take_notes_in(shop)
    copies.clear()
    for _ in range(3):
        shop.sql("INSERT INTO notes VALUES ('again')")
        shop.run()
        shop.assert_equal()
    assert copies == ["notes"]


def test_beside_a_run_a_table_is_dropped_and_the_others_go_on(shop: Shop) -> None:
    fill(shop)
    shop.run()
    leave_notes_out(shop)
    with at_work(shop):
        request = ask(shop, "drop", "main.notes")
        _wait(lambda: requests(shop).outcome(request.request_id) is not None)
        shop.sql("INSERT INTO customers VALUES (900, 'later')", "INSERT INTO notes VALUES ('later')")
        _wait(lambda: count("customers") == 21)
    assert outcome(shop, request).state is OutcomeState.DONE
    assert not there()


@pytest.mark.parametrize("by_itself", [True, False])
def test_a_table_that_the_pipeline_selects_is_refused_and_stays(shop: Shop, copies: list[str], by_itself: bool) -> None:
    fill(shop)
    shop.run()
    copies.clear()
    request = ask(shop, "drop", "notes")
    alone(shop) if by_itself else shop.run()
    found = outcome(shop, request)
    assert (found.state, found.code) == (OutcomeState.REFUSED, "RPL-1234")
    assert "`exclude`" in found.hint
    shop.sql("INSERT INTO notes VALUES ('x')")
    shop.run()
    shop.assert_equal()
    assert copies == []


def test_the_copy_stays_where_that_is_asked_for(shop: Shop) -> None:
    fill(shop)
    shop.run()
    leave_notes_out(shop)
    assert dropped(shop, keepTarget=True).lines == (
        "main.notes is no table of the replicator any more; its copy at the target stays as it is",
    )
    assert count("notes") == 20


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("by_itself", [True, False])
def test_a_drop_that_is_cut_off_anywhere_is_done_by_whoever_is_next(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, point: str, by_itself: bool
) -> None:
    fill(shop)
    shop.run()
    leave_notes_out(shop)
    request = ask(shop, "drop", "notes")
    died: list[str] = []

    def dies(name: str) -> None:
        if name == point and not died:
            died.append(name)
            raise FencedError("the process dies", code="RPL-8001")

    for module in (control, table_drop):
        monkeypatch.setattr(module, "failpoint", dies)
    with pytest.raises(FencedError):
        alone(shop) if by_itself else shop.run()
    assert died
    for number in range(3):
        shop.sql(f"ALTER TABLE customers ADD COLUMN c{number} TEXT", "INSERT INTO notes VALUES ('x')")
        shop.run()
        shop.assert_equal("customers")
        assert not there()
    assert outcome(shop, request).state is OutcomeState.DONE
    take_notes_in(shop)
    shop.run()
    shop.assert_equal()


@pytest.mark.parametrize("kind", [NeedsUserError, RetryableError])
def test_a_target_that_does_not_delete_it_keeps_the_table_known_and_the_run_going(
    shop: Shop, kind: type[NeedsUserError | RetryableError]
) -> None:
    fill(shop)
    shop.run()
    leave_notes_out(shop)

    def fault(step: str, table: TableId) -> None:
        if step == "delete":
            raise kind("no right to delete", code="RPL-9198")

    in_memory_target.STORAGE.fault = fault
    request = ask(shop, "drop", "notes")
    shop.sql("INSERT INTO customers VALUES (900, 'later')")
    shop.run()
    shop.assert_equal("customers")
    found = outcome(shop, request)
    assert (found.state, found.code) == (OutcomeState.REFUSED, "RPL-1235")
    assert "RPL-9198" in found.message
    assert count("notes") == 20
    works()
    assert dropped(shop).state is OutcomeState.DONE
    assert not there()


def test_a_superseded_process_deletes_nothing(shop: Shop) -> None:
    fill(shop)
    shop.run()
    leave_notes_out(shop)
    [kept] = [t for name, t in in_memory_target.STORAGE.tables.items() if name.table == "notes"]
    assert kept.progress is not None
    object.__setattr__(kept.progress, "epoch", 10**12)
    ask(shop, "drop", "notes")
    with pytest.raises(FencedError):
        alone(shop)
    assert count("notes") == 20


def test_an_unknown_table_is_refused(shop: Shop) -> None:
    fill(shop)
    shop.run()
    request = ask(shop, "drop", "nots")
    alone(shop)
    assert outcome(shop, request).code == "RPL-1220"


def test_of_a_source_without_snapshots_it_is_refused_when_it_is_selected_again(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing could make it whole."""
    fill(shop)
    shop.run()
    leave_notes_out(shop)
    with monkeypatch.context() as none:
        none.setattr(SqliteSource, "create_snapshot_reader", lambda *_: None)
        assert dropped(shop).state is OutcomeState.DONE
        take_notes_in(shop)
        with pytest.raises(NeedsUserError, match="RPL-2005"):
            shop.run()
