"""A change of structure that an operator is asked about holds its table alone, and the decision holds for that change."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

from replicator_runtime.config import build_pipeline
from replicator_runtime.engine.apply import lane_drains
from replicator_runtime.engine.control import control
from replicator_runtime.engine.control.control import carry_out_alone
from replicator_runtime.engine.lanes import lane as lane_module
from replicator_runtime.engine.lifecycle import deciding
from replicator_runtime.engine.run_state import run as run_module
from replicator_runtime.engine.run_state.open_run import open_run
from replicator_runtime.engine.stream import schema_changes
from replicator_runtime.engine.structure import decided_drops
from replicator_sdk.errors import FencedError, NeedsUserError, ReplicatorError, SchemaDriftError
from replicator_state import Outcome, OutcomeState, Request
from tests.follows import follows
from tests.runtime.engine import in_memory_target
from tests.runtime.engine.apply.test_rejoining import at_work, count
from tests.runtime.engine.preparation.test_selection_edits import states
from tests.runtime.engine.requests import requests
from tests.runtime.engine.stream.test_paused_tables import alone, ask, change_more, files, three_runs, view
from tests.runtime.engine.test_run import Host, Shop, _wait, fill, shop

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["shop"]


def policies(shop: Shop, **kinds: str) -> None:
    shop.document["ddlPolicies"] = kinds


def waiting(shop: Shop) -> list[dict[str, Any]]:
    """What `ddl list` shows."""
    from replicator_runtime.cli.state_lookup import find_state
    from replicator_runtime.observed.schema_changes import waiting_changes

    return waiting_changes(find_state("shop", "default", shop.document["offsetBasePath"]).directory)


def submit(shop: Shop, command: str, ids: Iterable[str]) -> Request:
    return requests(shop).submit(f"ddl.{command}", {"changes": list(ids)})


def decide(shop: Shop, command: str, *ids: str) -> Outcome:
    """Give the command for all changes that wait, or for these, and carry it out without a run."""
    request = submit(shop, command, ids or [change["id"] for change in waiting(shop)])
    carry_out_alone(build_pipeline(shop.document, host=Host()))  # type: ignore[arg-type]
    found = requests(shop).outcome(request.request_id)
    assert found is not None
    return found


def started(shop: Shop, **kinds: str) -> None:
    policies(shop, **kinds)
    fill(shop)
    shop.run()


def change_held(shop: Shop, number: int) -> None:
    shop.sql(
        f"INSERT INTO customers (name) VALUES ('more {number}')",
        f"INSERT INTO notes VALUES ('{number}', 5), ('{number}', NULL)",
        "DELETE FROM notes WHERE rowid IN (SELECT rowid FROM notes LIMIT 1)",
    )


ALTER = "ALTER TABLE notes ADD COLUMN size INTEGER DEFAULT 4"


def test_a_held_change_holds_its_table_alone_and_is_applied_when_it_is_approved(shop: Shop) -> None:
    started(shop, addColumn="ask")
    shop.sql("INSERT INTO notes VALUES ('before')", ALTER)
    shop.run()
    offsets = set()
    for number in range(2):
        change_held(shop, number)
        assert shop.run().reached_goal
        shop.assert_equal("customers")
        assert count("notes") == 21
        offsets.add(shop.status()["offset"])
    assert len(offsets) == 2
    [change] = waiting(shop)
    assert (change["text"], change["name"], states(shop)["notes"]) == ("ADD COLUMN size int64", "main.notes", "PAUSED")
    assert view(shop, "notes")["pause"]["asks"] == f"ADD COLUMN size int64 ({change['id']})"
    assert decide(shop, "approve").state is OutcomeState.DONE
    shop.run()
    shop.assert_equal()
    assert (waiting(shop), view(shop, "notes")["pause"]) == ([], None)
    policies(shop)
    three_runs(shop)
    assert files(shop) == []


@follows("RPL-1297")
def test_each_of_several_changes_is_asked_about_and_the_target_gets_them_in_order(shop: Shop) -> None:
    started(shop, addColumn="ask", renameColumn="ask")
    shop.sql("ALTER TABLE customers ADD COLUMN city TEXT DEFAULT 'Ulm'")
    shop.run()
    shop.sql("INSERT INTO customers VALUES (30, 'n', 'B')", "ALTER TABLE customers RENAME COLUMN city TO town")
    shop.run()
    shop.sql("INSERT INTO customers VALUES (31, 'n', 'C')")
    shop.run()
    texts = [change["text"] for change in waiting(shop)]
    assert texts == ["ADD COLUMN city string", "RENAME COLUMN city TO town"]
    assert decide(shop, "reject", waiting(shop)[0]["id"]).code == "RPL-1297"
    assert decide(shop, "approve", waiting(shop)[0]["id"]).state is OutcomeState.DONE
    shop.run()
    assert (states(shop)["customers"], count("customers")) == ("PAUSED", 20)
    decide(shop, "approve")
    shop.run()
    shop.assert_equal()
    policies(shop)
    three_runs(shop)


@pytest.mark.parametrize("made_again", [True, False])
@pytest.mark.parametrize("approved", [True, False])
def test_a_held_drop_keeps_the_table_until_it_is_decided(shop: Shop, approved: bool, made_again: bool) -> None:
    in_memory_target.STORAGE.drops = True
    started(shop, dropTable="ask")
    shop.sql("INSERT INTO notes VALUES ('last')", "DROP TABLE notes")
    shop.run()
    if made_again:
        shop.sql("CREATE TABLE notes (text TEXT, more TEXT)", "INSERT INTO notes VALUES ('a', 'b')")
    for number in range(2):
        shop.sql(f"INSERT INTO customers (name) VALUES ('m{number}')")
        shop.run()
        shop.assert_equal("customers")
        assert (count("notes"), [change["text"] for change in waiting(shop)]) == (21, ["DROP TABLE"])
    assert decide(shop, "approve" if approved else "reject").state is OutcomeState.DONE
    shop.run()
    if made_again:
        three_runs(shop)
    else:
        left = {table.table for table in in_memory_target.STORAGE.tables}
        assert left == ({"customers"} if approved else {"customers", "notes"})
        assert states(shop) == {"customers": "REPLICATING"}
    assert waiting(shop) == []


def test_the_only_table_may_be_dropped_and_is_dropped_at_the_target_when_that_is_approved(shop: Shop) -> None:
    in_memory_target.STORAGE.drops = True
    shop.document["tables"] = [{"table": "notes"}]
    started(shop, dropTable="ask")
    shop.sql("DROP TABLE notes")
    with pytest.raises(NeedsUserError):
        shop.run()
    assert count("notes") == 20
    decide(shop, "approve")
    with pytest.raises(NeedsUserError):
        shop.run()
    assert in_memory_target.STORAGE.tables == {}


def test_a_change_that_needs_a_copy_waits_without_a_lane_and_is_copied_when_it_is_approved(shop: Shop) -> None:
    started(shop, dropColumn="ask")
    shop.sql("ALTER TABLE customers ADD COLUMN phone TEXT")
    shop.run()
    triggers = "SELECT name FROM sqlite_schema WHERE type = 'trigger' AND tbl_name = 'customers'"
    names = [row[0] for row in _rows(shop, triggers)]
    shop.sql(*(f'DROP TRIGGER "{name}"' for name in names), "ALTER TABLE customers DROP COLUMN phone")
    shop.sql("INSERT INTO customers VALUES (50, 'n')")
    shop.run()
    [change] = waiting(shop)
    assert change["onlyApproved"]
    assert decide(shop, "reject").code == "RPL-1297"
    assert count("customers") == 20
    decide(shop, "approve")
    policies(shop)
    three_runs(shop)


def _rows(shop: Shop, query: str) -> list[Any]:
    import sqlite3

    with sqlite3.connect(shop.path) as database:
        return database.execute(query).fetchall()


@follows("RPL-1294")
def test_a_change_in_the_lane_of_a_paused_table_is_asked_about_and_the_pause_stays(shop: Shop) -> None:
    started(shop, addColumn="ask")
    alone(shop, "pause", "notes")
    shop.sql("INSERT INTO notes VALUES ('x')", ALTER, "INSERT INTO notes VALUES ('y', 5)")
    shop.run()
    assert alone(shop, "resume", "notes").code == "RPL-1294"
    assert decide(shop, "approve").state is OutcomeState.DONE
    shop.run()
    assert (states(shop)["notes"], count("notes")) == ("PAUSED", 20)
    alone(shop, "resume", "notes")
    policies(shop)
    three_runs(shop)


def test_a_change_that_comes_while_the_lane_is_given_to_the_target_is_asked_about(shop: Shop) -> None:
    started(shop, addColumn="ask")
    alone(shop, "pause", "notes")
    change_more(shop, 1)
    shop.run()
    shop.sql(ALTER)
    alone(shop, "resume", "notes")
    shop.run()
    shop.sql("INSERT INTO notes VALUES ('y', 5)")
    shop.run()
    assert (states(shop)["notes"], count("notes"), len(waiting(shop))) == ("PAUSED", 21, 1)
    decide(shop, "approve")
    policies(shop)
    three_runs(shop)


def test_changes_are_held_and_approved_beside_a_run(shop: Shop) -> None:
    started(shop, addColumn="ask")
    with at_work(shop):
        shop.sql(ALTER)
        _wait(lambda: len(waiting(shop)) == 1)
        shop.sql("INSERT INTO customers VALUES (900, 'beside')", "INSERT INTO notes VALUES ('after', 5)")
        _wait(lambda: count("customers") == 21)
        assert count("notes") == 20
        submit(shop, "approve", [waiting(shop)[0]["id"]])
        _wait(lambda: count("notes") == 21)
    policies(shop)
    three_runs(shop)


def test_what_does_not_wait_or_was_decided_is_refused_and_changes_nothing(shop: Shop) -> None:
    started(shop, addColumn="ask")
    assert decide(shop, "approve", "0123456789").code == "RPL-1295"
    shop.sql(ALTER, "INSERT INTO notes VALUES ('after', 5)")
    shop.run()
    [change] = waiting(shop)
    for command, code in (("pause", "RPL-1290"), ("resume", "RPL-1294"), ("retry", "RPL-1221")):
        assert alone(shop, command, "notes").code == code
    assert decide(shop, "approve", change["id"], "0123456789").code == "RPL-1295"
    assert len(waiting(shop)) == 1
    assert decide(shop, "approve", change["id"]).state is OutcomeState.DONE
    assert decide(shop, "approve", change["id"]).lines == (f"main.notes: {change['id']} is approved already",)
    assert decide(shop, "reject", change["id"]).code == "RPL-1296"
    policies(shop)
    three_runs(shop)


def test_a_change_of_a_table_that_is_dropped_meanwhile_is_out_of_date(shop: Shop) -> None:
    in_memory_target.STORAGE.drops = True
    started(shop, addColumn="ask")
    shop.sql(ALTER)
    shop.run()
    [before] = waiting(shop)
    shop.sql("DROP TABLE notes")
    shop.run()
    [now] = waiting(shop)
    assert (now["text"], count("notes")) == ("DROP TABLE", 20)
    assert decide(shop, "approve", before["id"]).code == "RPL-1295"
    decide(shop, "approve", now["id"])
    shop.run()
    assert {table.table for table in in_memory_target.STORAGE.tables} == {"customers"}


def test_fail_stops_the_table_until_the_pipeline_lets_the_change_in(shop: Shop) -> None:
    started(shop, addColumn="fail")
    shop.sql(ALTER, "INSERT INTO customers VALUES (50, 'n')")
    with pytest.raises(SchemaDriftError):
        shop.run()
    assert (states(shop)["notes"], view(shop, "notes")["error"]["code"]) == ("FAILING", "RPL-6003")
    shop.assert_equal("customers")
    policies(shop)
    three_runs(shop)


def test_a_drop_that_is_ignored_keeps_the_table(shop: Shop) -> None:
    in_memory_target.STORAGE.drops = True
    started(shop, dropTable="ignore")
    shop.sql("INSERT INTO notes VALUES ('last')", "DROP TABLE notes")
    for _ in range(2):
        shop.run()
        assert (count("notes"), states(shop)) == (21, {"customers": "REPLICATING"})


POINTS = {
    "engine.request.carried_out": control,
    "engine.lane.before_write": lane_module,
    "engine.lane.after_write": lane_module,
    "engine.offset.before_save": run_module,
    "engine.offset.after_save": run_module,
    "engine.lane.before_step": lane_drains,
    "engine.lane.after_step": lane_drains,
    "engine.lane.ended": lane_drains,
    "engine.hold.before_save": deciding,
    "engine.hold.after_save": deciding,
    "engine.ddl.before_apply": schema_changes,
    "engine.ddl.after_apply": schema_changes,
    "engine.drop.applied": decided_drops,
}


@pytest.mark.parametrize("seed", range(3))
def test_a_random_history_of_changes_decisions_pauses_and_ends_makes_the_target_equal(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """The twin is the source itself: at the end all are approved, and the target has each change once, in order."""
    chance = random.Random(seed)
    in_memory_target.STORAGE.drops = True
    shop.document["batch"] = {"maxIntervalSeconds": 0.02, "maxRows": 5}
    started(shop, addColumn="ask", dropTable="ask")
    for number in range(9):
        _live(shop, chance, number)
        _die(shop, monkeypatch, chance.choice(list(POINTS)), chance.randrange(1, 8))
    for _ in range(9):
        _resume_all(shop)
        for change in waiting(shop):
            submit(shop, "approve", [change["id"]])
        shop.run()
        if not waiting(shop):
            break
    _resume_all(shop)
    shop.run()
    shop.assert_equal()
    policies(shop)
    three_runs(shop)
    assert files(shop) == []


def _resume_all(shop: Shop) -> None:
    for table in ("customers", "notes"):
        ask(shop, "resume", table)


def _live(shop: Shop, chance: random.Random, number: int) -> None:
    """Some decisions, commands, rows and changes of structure."""
    for change in waiting(shop):
        if chance.random() < 0.6:
            submit(shop, "approve", [change["id"]])
    if chance.random() < 0.3:
        ask(shop, chance.choice(["pause", "resume"]), chance.choice(["customers", "notes"]))
    for _ in range(chance.randrange(3)):
        change_more(shop, chance.randrange(1000) * 1000 + number)
    if chance.random() < 0.4:
        shop.sql(f"ALTER TABLE customers ADD COLUMN c{number} TEXT DEFAULT 'd{number}'")
    if chance.random() < 0.3:
        shop.sql(f"ALTER TABLE notes ADD COLUMN c{number} INTEGER DEFAULT 4", "INSERT INTO notes (text) VALUES ('a')")
    if chance.random() < 0.2:
        shop.sql("DROP TABLE notes", "CREATE TABLE notes (text TEXT)", f"INSERT INTO notes VALUES ('{number}')")


def _die(shop: Shop, monkeypatch: pytest.MonkeyPatch, point: str, times: int) -> None:
    """A run that ends where it passes `point` for that time, if it does."""
    left = times

    def dies(name: str) -> None:
        nonlocal left
        left -= name == point
        if name == point and left == 0:
            raise FencedError("the process dies", code="RPL-8001")

    with monkeypatch.context() as patch:
        for module in set(POINTS.values()):
            patch.setattr(module, "failpoint", dies)
        try:
            shop.run()
        except FencedError:
            assert left == 0


@pytest.mark.parametrize(
    ("blacklist", "kinds"),
    [
        (["ALTER_TABLE"], {"dropColumn": "ask"}),
        (["TRUNCATE_TABLE"], {"truncate": "fail"}),
        (["DROP_TABLE"], {"dropTable": "ignore"}),
    ],
    ids=str,
)
def test_a_policy_for_what_a_blacklist_leaves_out_is_refused(
    shop: Shop, blacklist: list[str], kinds: dict[str, str]
) -> None:
    shop.document |= {"ddlBlacklist": blacklist, "ddlPolicies": kinds}
    with pytest.raises(ReplicatorError, match="take one of them away"):
        build_pipeline(shop.document, host=Host())  # type: ignore[arg-type]


def test_ignoring_what_later_rows_do_not_fit_without_is_refused(shop: Shop) -> None:
    policies(shop, renameColumn="ignore")
    with pytest.raises(ReplicatorError, match=r"ddlPolicies\.renameColumn"):
        build_pipeline(shop.document, host=Host())  # type: ignore[arg-type]


def test_decisions_of_a_paused_table_hold_until_it_is_resumed_however_old_they_are(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its lane has changes of before the oldest offset that is kept."""
    started(shop, addColumn="ask")
    for alter in (ALTER, "ALTER TABLE notes ADD COLUMN more INTEGER DEFAULT 5"):
        shop.sql(alter)
        shop.run()
        shop.sql("INSERT INTO notes (text) VALUES ('after')", "INSERT INTO customers (name) VALUES ('after')")
        shop.run()
    first, second = (change["id"] for change in waiting(shop))
    monkeypatch.setattr(run_module.Run, "oldest_offset", lambda run: run.saved_offset)
    decide(shop, "approve", first)
    assert [change["id"] for change in waiting(shop)] == [second]
    decide(shop, "approve", second)
    assert waiting(shop) == []
    policies(shop)
    three_runs(shop)
    assert files(shop) == []


def test_decisions_that_nothing_reads_again_are_forgotten(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table that is truncated each night would have one more of them each day, for ever."""
    started(shop, truncate="ask")
    monkeypatch.setattr(run_module.Run, "oldest_offset", lambda run: run.saved_offset)
    kept = []
    for number in range(4):
        shop.sql("DELETE FROM notes", f"INSERT INTO notes VALUES ('{number}')")
        shop.run()
        decide(shop, "approve")
        shop.run()
        shop.assert_equal()
        with open_run(build_pipeline(shop.document, host=Host())) as opened:  # type: ignore[arg-type]
            opened.table_store.load()
            [notes] = [record for record in opened.table_store.records.values() if record.table.table == "notes"]
            kept.append(len(notes.decisions))
    assert max(kept) <= 2
    policies(shop)
    three_runs(shop)
