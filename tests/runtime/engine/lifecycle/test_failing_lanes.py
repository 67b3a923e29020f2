"""A lane of a failing table begins only where the target works otherwise, loses nothing when it is refused, and follows commands and edits."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
import structlog

from replicator_runtime.cli.commands.status import _about
from replicator_runtime.config.model import FailingTablesConfig
from replicator_runtime.engine.run_state import retry_budget
from replicator_sdk.errors import DataError, RetryableError
from replicator_source_sqlite.streaming.reader import SqliteReader
from replicator_state import OutcomeState
from tests.runtime.engine import in_memory_target
from tests.runtime.engine.apply.test_rejoining import at_work, count, fails
from tests.runtime.engine.lifecycle.test_long_failures import SOON, away, fail_once, failing, too_large, works
from tests.runtime.engine.preparation.test_selection_edits import states
from tests.runtime.engine.requests import requests
from tests.runtime.engine.stream.test_paused_tables import alone, change_more, files, three_runs, view
from tests.runtime.engine.structure.test_held_changes import decide, policies, waiting
from tests.runtime.engine.test_run import Shop, _wait, fill, shop

if TYPE_CHECKING:
    from collections.abc import Callable

    from replicator_sdk import TableId

__all__ = ["failing", "shop"]


def unreachable(*steps: str, table: str = "") -> Callable[[str, TableId], None]:
    def fault(step: str, where: TableId) -> None:
        if step in steps and table in ("", where.table):
            raise RetryableError("the target does not answer", code="RPL-4001", table=str(where))

    return fault


def stored_bytes(shop: Shop) -> int:
    return sum(file.stat().st_size for file in files(shop))


# --- when it begins


def test_a_table_that_fails_gets_a_lane_after_ten_minutes_unless_the_pipeline_says_otherwise() -> None:
    assert FailingTablesConfig().lane_after_minutes == 10
    assert FailingTablesConfig.model_validate({"laneAfterMinutes": None}).lane_after_minutes is None


@pytest.mark.parametrize("changed", ["one", "two"])
def test_no_lane_begins_for_a_target_that_is_away_although_a_table_without_changes_counts_as_working(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, changed: str
) -> None:
    monkeypatch.setattr(retry_budget, "_FIRST_WAIT_SECONDS", 0.1)
    shop.sql("CREATE TABLE quiet (id INTEGER PRIMARY KEY)")
    fill(shop)
    shop.document["failingTables"] = {"laneAfterMinutes": 0.001}
    shop.run()
    held = shop.status()["offset"]
    with structlog.testing.capture_logs() as logged, at_work(shop) as progress:
        shop.sql("INSERT INTO quiet VALUES (1)")
        _wait(lambda: count("quiet") == 1)
        _wait(lambda: shop.status()["offset"] != held)
        held = shop.status()["offset"]
        in_memory_target.STORAGE.fault = unreachable("before", "progress")
        shop.sql("INSERT INTO notes VALUES ('late')")
        if changed == "two":
            shop.sql("INSERT INTO customers VALUES (900, 'late')")
        failing_now = {"notes"} if changed == "one" else {"notes", "customers"}
        _wait(lambda: {t.table.table for t in progress.snapshot().tables if t.state == "FAILING"} == failing_now)
        until = time.monotonic() + 2
        while time.monotonic() < until:
            assert files(shop) == []
            time.sleep(0.1)
        assert shop.status()["offset"] == held
        works()
        _wait(lambda: count("notes") == 21)
    refused = [entry for entry in logged if entry["event"] == "table.has_no_lane"]
    assert bool(refused) == (changed == "one"), "of several that fail none is asked about"
    three_runs(shop)


def test_a_table_that_the_target_cannot_be_asked_about_has_a_lane_where_others_are_written(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retry_budget, "_FIRST_WAIT_SECONDS", 0.1)
    fill(shop)
    shop.document["failingTables"] = {"laneAfterMinutes": 0.001}
    shop.run()
    held = shop.status()["offset"]
    in_memory_target.STORAGE.fault = unreachable("before", "progress", table="notes")
    number = 900
    with at_work(shop):
        shop.sql("INSERT INTO notes VALUES ('late')")
        while not files(shop):
            number += 1
            shop.sql(f"INSERT INTO customers VALUES ({number}, 'works')", f"INSERT INTO notes VALUES ('{number}')")
            time.sleep(0.2)
            assert number < 1200
        _wait(lambda: shop.status()["offset"] != held)
    assert count("notes") == 20
    works()
    three_runs(shop)
    assert files(shop) == []


def test_a_table_whose_changes_the_source_cannot_read_gives_the_log_up_as_without_a_lane(
    failing: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its lane takes nothing. That it is empty at each start must not make the failure look new."""
    works()
    emit = SqliteReader._emit_changes

    def refuse(reader: SqliteReader, database: Any, heads: Any) -> None:
        read = [reader._selection.schema(reader._versions[head[1]]) for head in heads]
        if any(schema is not None and schema.table.table == "notes" for schema in read):
            raise DataError("a value is too large", code="RPL-5001", table="main.notes")
        emit(reader, database, heads)

    failing.document["stages"][0]["plugin"]["properties"]["batchRows"] = 1
    failing.sql("INSERT INTO notes VALUES ('unreadable')")
    with monkeypatch.context() as patch:
        patch.setattr(SqliteReader, "_emit_changes", refuse)
        for _ in range(2):
            with pytest.raises(DataError):
                failing.run()
        since = view(failing, "notes")["failingSince"]
        assert count("notes") == 20
        assert view(failing, "notes")["copyAgainAt"] is not None
        assert "are in its lane; the source's log is held" in " ".join(_about(view(failing, "notes")))
        with pytest.raises(DataError):
            failing.run()
        assert view(failing, "notes")["failingSince"] == since
        failing.document["failingTables"] = {**SOON, "holdLogHours": 0.0000001}
        with pytest.raises(DataError):
            failing.run()
    three_runs(failing)
    assert files(failing) == []


@pytest.mark.parametrize("error", [too_large, away])
def test_a_resumed_table_whose_lane_the_target_refuses_has_it_go_on(
    failing: Shop, error: Callable[[], Exception]
) -> None:
    """It holds the log like any table that fails, and for no longer: its changes go to the lane that it has."""
    works()
    alone(failing, "pause", "notes")
    change_more(failing, 0)
    failing.run()
    kept = files(failing)
    fails("before", "notes", error)
    alone(failing, "resume", "notes")
    failing.document["retries"] = {"maxDurationSeconds": 0.5, "delaySeconds": 0.1}
    offsets = set()
    for number in range(1, 4):
        fail_once(failing, number) if error is too_large else fail_away(failing, number)
        offsets.add(failing.status()["offset"])
    assert len(offsets) == 3
    assert set(kept) < set(files(failing))
    assert (states(failing)["notes"], view(failing, "notes")["pause"]["failed"]) == ("FAILING", True)
    works()
    three_runs(failing)
    assert files(failing) == []


def fail_away(shop: Shop, seed: int) -> None:
    change_more(shop, seed)
    with pytest.raises(RetryableError):
        shop.run()


# --- how it is drained


@pytest.mark.parametrize("step", ["before", "after"])
def test_a_drain_that_fails_halfway_goes_on_after_what_the_target_has(failing: Shop, step: str) -> None:
    """In the second commit, before it or after it. What the target has of the lane takes no space any more."""
    failing.document["batch"] = {"maxIntervalSeconds": 0.05, "maxRows": 1}
    for number in range(4):
        fail_once(failing, number)
    stored, commits = len(files(failing)), 0

    def fault(at: str, table: TableId) -> None:
        nonlocal commits
        commits += at == step and table.table == "notes"
        if at == step and table.table == "notes" and commits >= 2:
            raise too_large()

    in_memory_target.STORAGE.fault = fault
    with pytest.raises(DataError):
        failing.run()
    assert count("notes") != 20
    fails("before", "notes", too_large)
    with pytest.raises(DataError):
        failing.run()
    assert len(files(failing)) < stored
    shown = view(failing, "notes")["pause"]
    assert shown["laneBytes"] == stored_bytes(failing)
    works()
    three_runs(failing)
    assert files(failing) == []


def test_a_table_that_fails_again_in_each_drain_waits_longer_each_time_and_its_lane_has_each_change_once(
    failing: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retry_budget, "_FIRST_WAIT_SECONDS", 0.3)
    fail_once(failing, 0)
    with structlog.testing.capture_logs() as logged, at_work(failing):

        def tries() -> list[float]:
            return [entry["seconds"] for entry in logged if entry["event"] == "table.failing"]

        _wait(lambda: len(tries()) >= 4, 90)
        since = view(failing, "notes")["failingSince"]
        failing.sql("INSERT INTO notes VALUES ('one more')")
        _wait(lambda: view(failing, "notes")["pause"]["laneRows"] == 4)
        shown = view(failing, "notes")
        assert shown["state"] == "FAILING"
        assert shown["failingSince"] == since
        assert shown["lagSeconds"] > 0
        assert shown["pause"]["failed"]
        assert shown["pause"]["laneSince"] is not None
        assert any(
            "the source's log is not held" in text or "are given to the target" in text for text in _about(shown)
        )
    assert tries() == sorted(tries())
    assert tries()[-1] >= 4 * tries()[0]
    works()
    three_runs(failing)


# --- commands


def test_a_retry_gives_the_target_the_lane_at_once(failing: Shop) -> None:
    fail_once(failing, 0)
    with at_work(failing):
        failing.sql("INSERT INTO customers VALUES (900, 'at work')")
        _wait(lambda: count("customers") == 22)
        _wait(lambda: view(failing, "notes")["pause"]["triedAgainAt"] is not None)
        works()
        request = requests(failing).submit("table.retry", {"tables": ["notes"]})
        _wait(lambda: count("notes") == 21)
        outcome = requests(failing).outcome(request.request_id)
        assert outcome is not None
        assert outcome.state is OutcomeState.DONE
    three_runs(failing)
    assert files(failing) == []


def test_a_change_of_structure_that_an_operator_is_asked_about_ends_the_drain_and_pauses_the_table(
    failing: Shop,
) -> None:
    policies(failing, addColumn="ask")
    fails("before", "customers", too_large)
    fail_once(failing, 0)
    failing.sql("ALTER TABLE customers ADD COLUMN city TEXT DEFAULT 'Ulm'")
    with pytest.raises(DataError):
        failing.run()
    works()
    failing.run()
    assert states(failing)["customers"] == "PAUSED"
    assert count("customers") == 21
    assert len(waiting(failing)) == 1
    decide(failing, "approve")
    policies(failing, addColumn="apply")
    three_runs(failing)
    assert files(failing) == []


def test_a_lane_that_is_dropped_with_a_change_that_is_not_decided_pauses_the_table_until_it_is(failing: Shop) -> None:
    """The copy that follows brings the change, so it waits for the operator."""
    fail_once(failing, 0)
    policies(failing, addColumn="ask")
    failing.sql("ALTER TABLE notes ADD COLUMN size INTEGER", "INSERT INTO notes VALUES ('at once', 1)")
    works()
    failing.run()
    assert states(failing)["notes"] == "PAUSED"
    kept = count("notes")
    failing.run()
    assert (count("notes"), files(failing)) == (kept, [])
    decide(failing, "approve")
    policies(failing, addColumn="apply")
    three_runs(failing)


# --- edits


def test_a_lane_that_has_begun_goes_on_when_the_setting_is_taken_away(failing: Shop) -> None:
    fail_once(failing, 0)
    failing.document["failingTables"] = {"laneAfterMinutes": None}
    before = failing.status()["offset"]
    fail_once(failing, 1)
    assert failing.status()["offset"] != before
    assert view(failing, "notes")["pause"]["laneRows"] == 6
    works()
    failing.run()
    failing.assert_equal()
    fails("before", "notes", too_large)
    fail_once(failing, 2)
    assert files(failing) == []
    works()
    three_runs(failing)


def test_with_one_error_for_all_the_run_ends_with_the_tables_error_and_the_lane_is_kept(failing: Shop) -> None:
    fail_once(failing, 0)
    failing.document["onTableError"] = "stop"
    kept = files(failing)
    for number in range(2):
        fail_once(failing, number)
        assert set(kept) <= set(files(failing))
    works()
    three_runs(failing)
    assert files(failing) == []


def test_a_table_that_is_not_selected_any_more_is_forgotten_with_its_lane(failing: Shop) -> None:
    fail_once(failing, 0)
    failing.document["tables"] = [{"table": "customers"}]
    failing.run()
    assert files(failing) == []
    works()
    del failing.document["tables"]
    three_runs(failing)


# --- changes of structure at the source


@pytest.mark.parametrize("created", [True, False])
def test_a_table_that_the_source_drops_stays_at_the_target_and_one_created_later_is_copied(
    failing: Shop, created: bool
) -> None:
    fail_once(failing, 0)
    failing.sql("INSERT INTO notes VALUES ('last')", "DROP TABLE notes", "INSERT INTO customers VALUES (900, 'n')")
    if created:
        failing.sql("CREATE TABLE notes (text TEXT, more TEXT)", "INSERT INTO notes VALUES ('a', 'b')")
    try:
        failing.run()
    except DataError:
        assert count("notes") == 20
    works()
    if created:
        three_runs(failing)
    else:
        failing.run()
        assert states(failing) == {"customers": "REPLICATING"}
        failing.assert_equal("customers")
        assert count("notes") == 20
    assert files(failing) == []


def test_a_table_that_is_renamed_is_copied_under_its_new_name(failing: Shop) -> None:
    fail_once(failing, 0)
    failing.sql("INSERT INTO notes VALUES ('last')", "ALTER TABLE notes RENAME TO remarks")
    works()
    failing.run()
    failing.run()
    failing.assert_equal("customers", "remarks")
    assert files(failing) == []
    failing.sql("INSERT INTO remarks VALUES ('latest')", "ALTER TABLE remarks ADD COLUMN more TEXT")
    failing.run()
    failing.assert_equal("customers", "remarks")


def test_changes_of_structure_in_the_lane_are_applied_in_order_with_the_rows(failing: Shop) -> None:
    fails("before", "customers", too_large)
    fail_once(failing, 0)
    failing.sql(
        "ALTER TABLE customers ADD COLUMN city TEXT DEFAULT 'Ulm'", "INSERT INTO customers VALUES (30, 'n', 'Bonn')"
    )
    with pytest.raises(DataError):
        failing.run()
    failing.sql("ALTER TABLE customers RENAME COLUMN city TO town", "DELETE FROM customers WHERE id < 9")
    with pytest.raises(DataError):
        failing.run()
    assert len(files(failing)) > 2
    assert in_memory_target.STORAGE.ddl == []
    works()
    with structlog.testing.capture_logs() as logged:
        three_runs(failing)
    assert not any(entry.get("code") == "RPL-4130" for entry in logged)
    assert files(failing) == []
