"""A plan says what an edit does; a run does a safe one at once, and any other only after it was approved."""

from __future__ import annotations

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from replicator_runtime import stored_forms
from replicator_runtime.config import build_pipeline
from replicator_runtime.engine import worker
from replicator_runtime.engine.control.control import carry_out_alone
from replicator_runtime.engine.control.reset import reset
from replicator_runtime.engine.planning.approvals import APPROVE, Approvals
from replicator_runtime.engine.planning.plan import StepKind
from replicator_runtime.engine.planning.planner import stored_plan
from replicator_sdk.errors import NeedsUserError, SchemaDriftError
from replicator_source_sqlite.catalogue import SqliteRegistry
from replicator_state import ReplicatorDirectory, RequestFolder
from tests.runtime.engine import in_memory_target
from tests.runtime.engine.apply.test_rejoining import at_work
from tests.runtime.engine.requests import requests
from tests.runtime.engine.test_run import Host, Shop, shop

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from replicator_runtime.engine.planning.plan import Plan

__all__ = ["shop"]

CUSTOMERS = {"database": "main", "table": "customers"}
NOTES = {"database": "main", "table": "notes"}


@pytest.fixture
def asking(shop: Shop) -> Shop:
    """A shop whose runs ask, and whose customers have another column."""
    del shop.document["edits"]
    shop.sql("ALTER TABLE customers ADD COLUMN card TEXT")
    fill_cards(shop)
    return shop


def fill_cards(shop: Shop) -> None:
    for number in range(20):
        shop.sql(f"INSERT INTO customers VALUES ({number}, 'n{number}', 'c')", "INSERT INTO notes VALUES ('t')")


def plan(shop: Shop) -> Plan:
    directory = ReplicatorDirectory(shop.document["offsetBasePath"], "default", "shop")
    return stored_plan(build_pipeline(shop.document, host=Host()), directory)  # type: ignore[arg-type]


def approve(shop: Shop) -> str:
    plan_id = plan(shop).plan_id
    requests(shop).record(APPROVE, {"plan": plan_id})
    return plan_id


def stored(shop: Shop) -> tuple[object, dict[str, bytes | None]]:
    """The saved offset and all values of the engine."""
    directory = ReplicatorDirectory(shop.document["offsetBasePath"], "default", "shop")
    states = directory.states().scoped("runtime")
    saved = directory.offsets().latest()
    assert saved is not None
    return saved.fields, {key: states.get(key) for key in stored_forms._FORMS}


def refused(shop: Shop) -> SchemaDriftError:
    """A run that is refused changes neither state nor target, and its status says so."""
    rows, before = {t: in_memory_target.STORAGE.rows(t) for t in ("customers", "notes")}, stored(shop)
    with pytest.raises(SchemaDriftError) as error:
        shop.run()
    assert rows == {t: in_memory_target.STORAGE.rows(t) for t in ("customers", "notes")}
    assert stored(shop) == before
    assert shop.status()["sourceError"]["code"] == error.value.code
    assert error.value.exit_code == 6
    return error.value


def test_everything_is_new_to_a_pipeline_that_never_ran(asking: Shop) -> None:
    found = plan(asking)
    assert found.is_first
    assert {(s.kind, s.subject) for s in found.steps} == {
        (StepKind.TABLE_IN, "main.customers"),
        (StepKind.TABLE_IN, "main.notes"),
    }
    assert not found.asking
    asking.run()
    assert plan(asking).steps == ()


EDITS: Mapping[str, tuple[Mapping[str, Any], Mapping[str, Any], StepKind, bool]] = {
    "a table out": ({}, {"tables": [NOTES]}, StepKind.TABLE_OUT, False),
    "a table excluded": ({}, {"tables": [{**CUSTOMERS, "exclude": True}]}, StepKind.TABLE_OUT, False),
    "a column out": ({}, {"tables": [{**CUSTOMERS, "columns": ["name"]}, NOTES]}, StepKind.COLUMNS, True),
    "a column in": ({"tables": [{**CUSTOMERS, "columns": ["name"]}, NOTES]}, {}, StepKind.COLUMNS, True),
    "an operation out": (
        {},
        {"tables": [{**CUSTOMERS, "dmlBlacklist": ["DELETE"]}, NOTES]},
        StepKind.OPERATIONS,
        False,
    ),
    "an operation in": (
        {"tables": [{**CUSTOMERS, "dmlBlacklist": ["UPDATE"]}, NOTES]},
        {},
        StepKind.OPERATIONS,
        True,
    ),
    "truncates out": (
        {},
        {"tables": [{**CUSTOMERS, "ddlBlacklist": ["TRUNCATE_TABLE"]}, NOTES]},
        StepKind.OPERATIONS,
        False,
    ),
}


@pytest.mark.parametrize("edit", EDITS)
def test_what_cannot_be_taken_back_is_done_after_an_approval_and_once(edit: str, asking: Shop) -> None:
    before, after, kind, copies = EDITS[edit]
    asking.document.update(before)
    asking.run()
    for key in before:
        del asking.document[key]
    asking.document.update(after)
    [step] = plan(asking).steps
    assert (step.kind, step.subject, step.needs_approval, step.copies) == (kind, "main.customers", True, copies)
    assert step.rows is None or step.copies
    error = refused(asking)
    assert error.code == "RPL-1260"
    assert f"replicator approve shop {plan(asking).plan_id} --base {asking.document['offsetBasePath']}" in error.hint
    assert plan(asking).steps == (step,), "the same difference is the same plan"
    approve(asking)
    loaded = loads("customers")
    for number in range(3):
        asking.sql(f"INSERT INTO notes VALUES ('later {number}')")
        asking.run()
        assert plan(asking).steps == ()
    asking.assert_equal("notes")
    assert bool(loaded) is copies


def loads(table: str) -> list[str]:
    """The loads of `table` from now on."""
    found: list[str] = []

    def fault(step: str, where: Any) -> None:
        if step == "load" and where.table == table:
            found.append(step)

    in_memory_target.STORAGE.fault = fault
    return found


SAFE: Mapping[str, tuple[Mapping[str, Any], Mapping[str, Any], int]] = {
    "a table in": ({"tables": [NOTES]}, {"tables": [NOTES, CUSTOMERS]}, 1),
    "the same columns in other words": ({}, {"tables": [{**CUSTOMERS, "columns": ["name", "card"]}, NOTES]}, 0),
    "operations of structure": ({}, {"ddlBlacklist": ["DROP_TABLE", "ALTER_TABLE"]}, 2),
    "tables that appear later": ({}, {"newTables": "ignore"}, 1),
    "how much is gathered": ({}, {"batch": {"maxRows": 10}}, 0),
    "a setting of the source": ({}, {"pollIntervalSeconds": 0.25}, 1),
}


@pytest.mark.parametrize("edit", SAFE)
def test_what_can_be_taken_back_is_done_at_once(edit: str, asking: Shop) -> None:
    before, after, steps = SAFE[edit]
    asking.document.update(before)
    asking.run()
    asking.document |= {k: v for k, v in after.items() if k != "pollIntervalSeconds"}
    asking.document["stages"][0]["plugin"]["properties"] |= {
        k: v for k, v in after.items() if k == "pollIntervalSeconds"
    }
    found = plan(asking)
    assert (len(found.steps), found.asking) == (steps, ())
    asking.run()
    asking.assert_equal()
    assert plan(asking).steps == ()


def test_a_table_that_comes_back_is_copied_in_place_after_an_approval(asking: Shop) -> None:
    asking.run()
    asking.document["tables"] = [NOTES]
    out = approve(asking)
    asking.run()
    asking.sql("DELETE FROM customers WHERE id = 3")
    asking.document["tables"] = []
    [step] = plan(asking).steps
    assert (step.kind, step.needs_approval, step.copies) == (StepKind.TABLE_IN, True, True)
    refused(asking)
    assert approve(asking) != out
    asking.run()
    asking.assert_equal()


def test_an_approval_of_another_plan_is_said_and_changes_nothing(asking: Shop) -> None:
    asking.run()
    asking.document["tables"] = [NOTES]
    old = approve(asking)
    asking.document["tables"] = [{**CUSTOMERS, "columns": ["name"]}, NOTES]
    error = refused(asking)
    assert error.code == "RPL-1261"
    assert old in error.message
    assert plan(asking).plan_id in error.message
    asking.document["tables"] = [NOTES]
    asking.run()
    assert plan(asking).steps == ()


def test_an_approval_is_good_until_a_plan_is_applied(asking: Shop) -> None:
    """Also over runs in which nothing is edited: they may be of the machine that is to be replaced."""
    asking.run()
    narrow = [{**CUSTOMERS, "columns": ["name"]}, NOTES]
    asking.document["tables"] = narrow
    first = approve(asking)
    asking.document["tables"] = []
    asking.run()
    asking.document["tables"] = narrow
    asking.run()
    asking.document["tables"] = []
    approve(asking)
    asking.run()
    asking.document["tables"] = narrow
    assert plan(asking).plan_id == first, "the same difference again"
    assert refused(asking).code == "RPL-1260"


def test_an_approval_is_used_up_by_a_plan_that_needs_none(asking: Shop) -> None:
    asking.run()
    narrow = [{**CUSTOMERS, "columns": ["name"]}, NOTES]
    asking.document["tables"] = narrow
    approve(asking)
    asking.document |= {"tables": [], "newTables": "ignore"}
    asking.run()
    asking.document["tables"] = narrow
    assert refused(asking).code == "RPL-1260"


def test_an_approval_of_a_former_generation_is_used_up(asking: Shop) -> None:
    asking.run()
    narrow = [{**CUSTOMERS, "columns": ["name"]}, NOTES]
    asking.document["tables"] = narrow
    first = approve(asking)
    asking.run()
    asking.document["tables"] = []
    reset(build_pipeline(asking.document, host=Host()))  # type: ignore[arg-type]
    asking.run()
    asking.document["tables"] = narrow
    assert plan(asking).plan_id != first
    with pytest.raises(SchemaDriftError, match="RPL-126"):
        asking.run()
    approve(asking)
    asking.run()
    assert plan(asking).steps == ()


def test_an_edit_that_needs_an_approval_only_after_a_pause_waits_for_it(asking: Shop) -> None:
    """Whether columns are the same is known of the moment at which the source is asked."""
    both = [{**CUSTOMERS, "columns": ["name", "card"]}, NOTES]
    asking.document["tables"] = both
    asking.run()
    requests(asking).submit("pause", {})
    carry_out_alone(build_pipeline(asking.document, host=Host()))  # type: ignore[arg-type]
    asking.document["tables"] = []
    assert not plan(asking).asking
    loaded, errors = loads("customers"), list[BaseException]()

    def work() -> None:
        try:
            asking.run(until_current=False)
        except BaseException as error:  # noqa: BLE001 - looked at below
            errors.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    wait_for(lambda: asking.status()["phase"] == "paused")
    asking.sql("ALTER TABLE customers ADD COLUMN later TEXT")
    requests(asking).submit("resume", {})
    thread.join(120)
    assert not thread.is_alive()
    [error] = errors
    assert isinstance(error, SchemaDriftError)
    assert (error.code, loaded) == ("RPL-1260", [])
    approve(asking)
    asking.run()
    assert plan(asking).steps == ()
    asking.assert_equal()


@pytest.mark.parametrize("edits", ["ask", "apply"])
def test_a_copy_that_follows_only_since_the_plan_was_accepted_waits_for_an_approval(
    asking: Shop, edits: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The source is altered before the run looks at it: the table was copied again, of which no plan had said anything."""
    asking.document |= {"tables": [{**CUSTOMERS, "columns": ["name", "card"]}, NOTES], "edits": edits}
    asking.run()
    asking.document["tables"] = []
    assert not plan(asking).asking
    loaded, accept = loads("customers"), worker._Attempts._accept_edits

    def accept_then_alter(attempts: worker._Attempts) -> None:
        accept(attempts)
        monkeypatch.setattr(worker._Attempts, "_accept_edits", accept)
        asking.sql("ALTER TABLE customers ADD COLUMN later TEXT")

    monkeypatch.setattr(worker._Attempts, "_accept_edits", accept_then_alter)
    if edits == "ask":
        with pytest.raises(SchemaDriftError, match="RPL-1260"):
            asking.run()
        assert loaded == []
        assert refused(asking).code == "RPL-1260"
        approve(asking)
    for number in range(3):
        asking.run()
        assert plan(asking).steps == ()
        asking.assert_equal()
        asking.sql(f"INSERT INTO customers (id, name, card) VALUES ({90 + number}, 'n', 'c')")


def test_two_approvals_at_once_are_one(asking: Shop) -> None:
    asking.run()
    asking.document["tables"] = [NOTES]
    plan_id = plan(asking).plan_id
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: requests(asking).record(APPROVE, {"plan": plan_id}), range(8)))
    asking.run()
    asking.document["tables"] = []
    assert refused(asking).code == "RPL-1260"


def test_an_approval_that_is_cut_off_is_none_and_nothing_waits(asking: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    asking.run()
    asking.document["tables"] = [NOTES]

    def cut_off(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as broken:
        broken.setattr(RequestFolder, "_create", cut_off)
        with pytest.raises(KeyboardInterrupt):
            approve(asking)
    assert refused(asking).code == "RPL-1260"
    assert requests(asking).waiting() == []
    approve(asking)
    asking.run()


def test_a_refused_edit_uses_no_approval_up(asking: Shop) -> None:
    asking.document["tables"] = [{**CUSTOMERS, "dmlBlacklist": ["DELETE"]}, NOTES]
    asking.run()
    asking.document["tables"] = [{**CUSTOMERS, "dmlBlacklist": ["DELETE", "INSERT"]}, NOTES]
    approve(asking)
    asking.document["tables"] = [CUSTOMERS, NOTES]
    with pytest.raises(NeedsUserError, match="RPL-2006"):
        asking.run()
    asking.document["tables"] = [{**CUSTOMERS, "dmlBlacklist": ["DELETE", "INSERT"]}, NOTES]
    asking.run()
    assert plan(asking).steps == ()


def test_a_plan_is_made_beside_a_run_which_goes_on(asking: Shop) -> None:
    asking.run()
    with at_work(asking) as progress:
        wait_for(lambda: progress.phase == "streaming")
        asking.document["tables"] = [NOTES]
        assert [step.kind for step in plan(asking).steps] == [StepKind.TABLE_OUT]
        plan_id = approve(asking)
        asking.sql("INSERT INTO customers VALUES (900, 'meanwhile', 'c')")
        wait_for(lambda: any(row["id"] == 900 for row in in_memory_target.STORAGE.rows("customers")))
    assert plan(asking).plan_id == plan_id
    asking.run()
    assert plan(asking).steps == ()


def wait_for(done: Callable[[], bool]) -> None:
    until = time.monotonic() + 120
    while not done():
        assert time.monotonic() < until
        time.sleep(0.05)


def test_steps_that_an_approved_run_left_undone_are_not_asked_for_again(
    asking: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    asking.run()
    asking.document["tables"] = [{**CUSTOMERS, "columns": ["name"]}, NOTES]
    approve(asking)
    found, states = plan(asking), ReplicatorDirectory(asking.document["offsetBasePath"], "default", "shop").states()

    def ends(*_: object) -> None:
        raise NeedsUserError("it ends here", code="TST-0001")

    with monkeypatch.context() as broken:
        broken.setattr(worker, "store_settings", ends)
        with pytest.raises(NeedsUserError, match="TST-0001"):
            asking.run()
    assert plan(asking) == found
    assert Approvals(states.scoped("runtime"), requests(asking)).missing(found) == ()
    asking.document["tables"] = [{**CUSTOMERS, "columns": ["card"]}, NOTES]
    assert refused(asking).code == "RPL-1260", "another edit meanwhile needs an approval of its own"
    asking.document["tables"] = [{**CUSTOMERS, "columns": ["name"]}, NOTES]
    asking.run()
    assert plan(asking).steps == ()


def test_an_edit_that_a_table_cannot_follow_is_refused_by_the_table_alone(asking: Shop) -> None:
    asking.document["tables"] = [{**CUSTOMERS, "dmlBlacklist": ["DELETE"]}, NOTES]
    asking.run()
    asking.document["tables"] = []
    [step] = plan(asking).steps
    assert (step.refused, step.code, step.needs_approval) == (True, "RPL-2006", False)
    asking.sql("INSERT INTO notes VALUES ('meanwhile')")
    with pytest.raises(NeedsUserError, match="RPL-2006"):
        asking.run()
    asking.assert_equal("notes")


def test_changes_of_the_source_are_no_part_of_a_plan(asking: Shop) -> None:
    asking.run()
    asking.sql(
        "ALTER TABLE customers RENAME COLUMN card TO other",
        "CREATE TABLE orders (id INTEGER PRIMARY KEY)",
        "DROP TABLE notes",
    )
    assert plan(asking).steps == ()
    asking.run()
    assert plan(asking).steps == ()


def test_a_run_without_edits_does_not_ask_the_source_for_its_plan(
    asking: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    asking.run()
    opened: list[object] = []
    true_init = SqliteRegistry.__init__

    def init(self: SqliteRegistry, *arguments: Any, **named: Any) -> None:
        opened.append(self)
        true_init(self, *arguments, **named)

    monkeypatch.setattr(SqliteRegistry, "__init__", init)
    asking.run()
    unedited = len(opened)
    asking.document["tables"] = [{**CUSTOMERS, "columns": ["name", "card"]}, NOTES]
    opened.clear()
    asking.run()
    assert len(opened) == unedited + 1


def test_a_pipeline_that_says_so_is_followed_without_an_approval(asking: Shop) -> None:
    asking.run()
    asking.document |= {"tables": [{**CUSTOMERS, "columns": ["name"]}, NOTES], "edits": "apply"}
    assert plan(asking).asking
    asking.run()
    assert plan(asking).steps == ()


def test_the_estimate_of_the_source_is_a_cost_and_no_part_of_the_id(asking: Shop) -> None:
    asking.run()
    asking.document["tables"] = [{**CUSTOMERS, "columns": ["name"]}, NOTES]
    first = plan(asking)
    asking.sql("INSERT INTO customers VALUES (900, 'later', 'c')")
    second = plan(asking)
    assert first.plan_id == second.plan_id
    assert "how long that takes is not known" in first.steps[0].cost
    assert json.dumps([step.to_json() for step in first.steps])
