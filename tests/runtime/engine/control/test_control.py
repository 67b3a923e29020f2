"""What operators ask for is done once, also beside a run, after crashes, and without a run; what is refused changes nothing."""

from __future__ import annotations

import contextlib
import threading
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from replicator_runtime.config import build_pipeline
from replicator_runtime.engine.control import control
from replicator_runtime.engine.control.control import carry_out_alone
from replicator_runtime.engine.control.table_names import parse_name
from replicator_runtime.engine.lifecycle.table_lifecycle import TableLifecycle
from replicator_runtime.engine.run_state import request_watch
from replicator_sdk.errors import DataError, FencedError, NeedsUserError, ReplicatorError
from replicator_source_sqlite.catalogue import SqliteRegistry
from replicator_source_sqlite.plugin import SqliteSource
from replicator_source_sqlite.snapshots.snapshot import SqliteSnapshotReader
from replicator_state import Outcome, OutcomeState, ReplicatorDirectory, Request, RequestFolder
from tests.runtime.engine import in_memory_target
from tests.runtime.engine.apply.test_rejoining import at_work, count, fails
from tests.runtime.engine.preparation.test_selection_edits import states
from tests.runtime.engine.requests import requests
from tests.runtime.engine.test_run import Host, Shop, _wait, change, fill, shop

if TYPE_CHECKING:
    from replicator_sdk import TableId, TableSchema, TableSummary

__all__ = ["shop"]

POINTS = ("engine.request.begun", "engine.request.carried_out", "engine.request.finished")


@pytest.fixture
def copies(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The tables whose rows were read, in order."""
    opened, found = SqliteSnapshotReader.open, []

    def noted(self: SqliteSnapshotReader, schema: TableSchema, *more: Any) -> Any:
        found.append(schema.table.table)
        return opened(self, schema, *more)

    monkeypatch.setattr(SqliteSnapshotReader, "open", noted)
    return found


def ask(shop: Shop, command: str, *tables: str, **more: Any) -> Request:
    return requests(shop).submit(f"table.{command}", {"tables": list(tables), **more})


def outcome(shop: Shop, request: Request) -> Outcome:
    found = requests(shop).outcome(request.request_id)
    assert found is not None
    return found


def alone(shop: Shop) -> None:
    carry_out_alone(build_pipeline(shop.document, host=Host()))  # type: ignore[arg-type]


def works() -> None:
    in_memory_target.STORAGE.fault = lambda step, table: None


def damage(table: str) -> None:
    """Another program deletes rows of the target."""
    kept = next(t for name, t in list(in_memory_target.STORAGE.tables.items()) if name.table == table)
    kept.rows.clear()


def test_a_table_is_copied_again_beside_a_run(shop: Shop, copies: list[str]) -> None:
    fill(shop)
    shop.run()
    damage("notes")
    copies.clear()
    with at_work(shop):
        request = ask(shop, "resync", "notes", inPlace=True)
        _wait(lambda: requests(shop).outcome(request.request_id) is not None)
        shop.sql("INSERT INTO notes VALUES ('beside')")
        _wait(lambda: count("notes") == 21)
    assert copies == ["notes"]
    assert outcome(shop, request).lines == (
        "main.notes will be copied again by the run that goes on, once it finds it at the source",
    )
    for _ in range(3):
        shop.sql("INSERT INTO notes VALUES ('z')", "ALTER TABLE customers ADD COLUMN x TEXT" if _ == 1 else "SELECT 1")
        shop.run()
        shop.assert_equal()
    assert copies == ["notes"]


@pytest.mark.parametrize("order", ["before", "between"])
def test_a_table_is_copied_again_by_the_next_run_when_none_goes_on(shop: Shop, copies: list[str], order: str) -> None:
    fill(shop)
    shop.run()
    damage("customers")
    copies.clear()
    request = ask(shop, "resync", "main.customers", inPlace=True)
    if order == "before":
        alone(shop)
        assert outcome(shop, request).state is OutcomeState.DONE
        assert copies == []
    shop.sql("ALTER TABLE customers ADD COLUMN later TEXT", "INSERT INTO customers VALUES (900, 'n', 'l')")
    shop.run()
    assert outcome(shop, request).state is OutcomeState.DONE
    assert copies == ["customers"]
    shop.assert_equal()


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("by_itself", [True, False])
def test_a_request_that_is_carried_out_again_after_a_kill_copies_once(
    shop: Shop, copies: list[str], monkeypatch: pytest.MonkeyPatch, point: str, by_itself: bool
) -> None:
    fill(shop)
    shop.run()
    copies.clear()
    request = ask(shop, "resync", "notes", inPlace=True)
    died: list[str] = []

    def dies(name: str) -> None:
        if name == point and not died:
            died.append(name)
            raise FencedError("the process dies", code="RPL-8001")

    monkeypatch.setattr(control, "failpoint", dies)
    with pytest.raises(FencedError):
        alone(shop) if by_itself else shop.run()
    assert died
    for number in range(3):
        shop.sql(f"ALTER TABLE customers ADD COLUMN c{number} TEXT", f"INSERT INTO notes VALUES ('{number}')")
        shop.run()
        shop.assert_equal()
    assert copies == ["notes"]
    assert outcome(shop, request).state is OutcomeState.DONE
    assert requests(shop).waiting() == []


def test_two_requests_for_one_table_copy_it_for_each_run_that_finds_them(shop: Shop, copies: list[str]) -> None:
    fill(shop)
    shop.run()
    copies.clear()
    made = [ask(shop, "resync", "notes", inPlace=True) for _ in range(2)]
    shop.run()
    assert copies == ["notes"]
    assert {outcome(shop, request).state for request in made} == {OutcomeState.DONE}
    shop.assert_equal()


def test_a_failing_table_is_tried_again_at_once(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its error is final: without the request it would stay until the next start."""
    monkeypatch.setattr(RequestFolder, "look_seconds", 0.2)
    fill(shop)
    shop.run()
    fails("before", "notes", lambda: DataError("a value is too large", code="RPL-5001", table="main.notes"))
    shop.sql("INSERT INTO notes VALUES ('held')")
    with at_work(shop):
        _wait(lambda: states(shop).get("notes") == "FAILING")
        works()
        time.sleep(1)
        assert count("notes") == 20
        request = ask(shop, "retry", "notes")
        _wait(lambda: count("notes") == 21)
    assert outcome(shop, request).lines == ("main.notes will be tried again by the run that goes on",)
    shop.run()
    shop.assert_equal()


def test_a_table_that_gave_the_log_up_is_copied_at_once(shop: Shop, copies: list[str]) -> None:
    """Without the request its copy would wait for a minute."""
    fill(shop)
    shop.document["failingTables"] = {"holdLogHours": 0.5 / 3600, "maxCopyDelaySeconds": 600}
    shop.run()
    copies.clear()
    fails("before", "notes", lambda: DataError("a value is too large", code="RPL-5001", table="main.notes"))
    shop.sql("INSERT INTO notes VALUES ('held')")
    with at_work(shop):
        before = shop.status()["offset"]
        _wait(lambda: states(shop).get("notes") == "FAILING")
        shop.sql("INSERT INTO customers (name) VALUES ('later')")
        _wait(lambda: shop.status()["offset"] != before)
        works()
        request = ask(shop, "retry", "notes")
        _wait(lambda: count("notes") == 21)
    assert copies == ["notes"]
    assert outcome(shop, request).lines == ("main.notes will be copied again by the run that goes on",)


def test_a_wait_before_the_next_try_ends_when_an_operator_asks(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.document["retries"] = {"maxDurationSeconds": 600, "delaySeconds": 300}
    fill(shop)
    shop.run()
    away = threading.Event()
    away.set()
    latest = SqliteSource.create_table_registry

    def unreachable(self: SqliteSource) -> Any:
        if away.is_set():
            raise OSError(5, "the source is away")
        return latest(self)

    monkeypatch.setattr(SqliteSource, "create_table_registry", unreachable)
    shop.sql("INSERT INTO notes VALUES ('x')")
    with at_work(shop) as progress:
        _wait(lambda: progress.snapshot().phase == "retrying")
        away.clear()
        began = time.monotonic()
        ask(shop, "resync", "notes", inPlace=True)
        _wait(lambda: count("notes") == 21)
        assert time.monotonic() - began < 200


REFUSED = [
    ("retry", ("notes",), {}, "RPL-1221"),
    ("retry", ("nots",), {}, "RPL-1220"),
    ("resync", ("customers", "nots"), {"inPlace": True}, "RPL-1220"),
    ("resync", ("other.notes",), {"inPlace": True}, "RPL-1220"),
    ("resync", ("notes",), {}, "RPL-1223"),
    ("explode", ("notes",), {}, "RPL-1224"),
]


@pytest.mark.parametrize(("command", "tables", "arguments", "code"), REFUSED)
def test_what_is_refused_changes_nothing(
    shop: Shop, copies: list[str], command: str, tables: tuple[str, ...], arguments: dict[str, Any], code: str
) -> None:
    fill(shop)
    shop.run()
    copies.clear()
    request = ask(shop, command, *tables, **arguments)
    shop.run()
    found = outcome(shop, request)
    assert (found.state, found.code) == (OutcomeState.REFUSED, code)
    assert found.message
    assert found.hint
    assert copies == []
    shop.assert_equal()


def test_a_source_without_snapshots_keeps_its_copy(
    shop: Shop, copies: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(shop)
    shop.run()
    copies.clear()
    request = ask(shop, "resync", "notes", inPlace=True)
    with monkeypatch.context() as none:
        none.setattr(SqliteSource, "create_snapshot_reader", lambda *_: None)
        alone(shop)
    assert outcome(shop, request).code == "RPL-1222"
    shop.run()
    assert copies == []


def test_a_damaged_request_is_refused_and_the_next_is_done(shop: Shop, copies: list[str]) -> None:
    fill(shop)
    shop.run()
    copies.clear()
    bad, good = ask(shop, "resync", "customers", inPlace=True), ask(shop, "resync", "notes", inPlace=True)
    requests(shop)._folder.replace(f"{bad.request_id}.request", b"{")
    shop.run()
    assert outcome(shop, bad).code == "RPL-1225"
    assert outcome(shop, good).state is OutcomeState.DONE
    assert copies == ["notes"]


@pytest.mark.parametrize("arguments", [{}, {"tables": "notes"}, {"tables": []}, {"tables": None}])
def test_a_request_without_tables_is_refused(shop: Shop, copies: list[str], arguments: dict[str, Any]) -> None:
    fill(shop)
    shop.run()
    copies.clear()
    request = requests(shop).submit("table.resync", {"inPlace": True, **arguments})
    shop.run()
    assert outcome(shop, request).code == "RPL-1225"
    assert copies == []


def test_a_command_with_a_fault_fails_once_and_holds_up_nothing(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(shop)
    shop.run()
    tries: list[str] = []

    def faulty(_: object, request: Request) -> list[str]:
        tries.append(request.request_id)
        raise ZeroDivisionError("a row's value")

    monkeypatch.setattr(control, "COMMANDS", {**control.COMMANDS, "table.retry": faulty})
    request, later = ask(shop, "retry", "notes"), ask(shop, "resync", "notes", inPlace=True)
    for _ in range(3):
        shop.sql("INSERT INTO notes VALUES ('x')")
        shop.run()
        shop.assert_equal()
    found = outcome(shop, request)
    assert found.state is OutcomeState.FAILED
    assert "a row's value" not in found.message
    assert len(tries) == 1
    assert outcome(shop, later).state is OutcomeState.DONE


@pytest.mark.parametrize("chunk_rows", [2, 1000])
@pytest.mark.parametrize("table", ["customers", "notes"])
def test_a_table_whose_copy_runs_is_copied_from_the_beginning(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, table: str, chunk_rows: int
) -> None:
    monkeypatch.setattr(RequestFolder, "look_seconds", 0.1)
    shop.document["stages"][0]["plugin"]["properties"]["chunkRows"] = chunk_rows
    fill(shop)
    loading, go_on = threading.Event(), threading.Event()

    def slow(step: str, where: TableId) -> None:
        if step == "loaded" and where.table == table and not go_on.is_set():
            loading.set()
            go_on.wait(120)

    in_memory_target.STORAGE.fault = slow
    with at_work(shop):
        assert loading.wait(120)
        request = ask(shop, "resync", table, inPlace=True)
        shop.sql("UPDATE customers SET name = 'meanwhile' WHERE id < 9", "DELETE FROM notes WHERE text = 't1'")
        time.sleep(1)
        go_on.set()
        _wait(lambda: requests(shop).outcome(request.request_id) is not None)
        change(shop)
        _wait(lambda: count("customers") == len(shop.source_rows("customers")))
        _wait(lambda: count("notes") == len(shop.source_rows("notes")))
    for number in range(3):
        shop.sql("INSERT INTO notes VALUES ('z')", f"ALTER TABLE customers ADD COLUMN c{number} TEXT")
        shop.run()
        shop.assert_equal()


def test_a_request_that_was_withdrawn_is_not_done(shop: Shop, copies: list[str]) -> None:
    fill(shop)
    shop.run()
    copies.clear()
    request = ask(shop, "resync", "notes", inPlace=True)
    requests(shop)._decide(request.request_id, "withdrawn")  # who withdrew it was killed before the outcome
    shop.run()
    assert outcome(shop, request).state is OutcomeState.WITHDRAWN
    assert copies == []


def test_a_run_that_starts_while_a_command_has_the_lease_waits_for_a_moment(shop: Shop) -> None:
    fill(shop)
    shop.run()
    lease = ReplicatorDirectory(shop.document["offsetBasePath"], "default", "shop").acquire("command")
    timer = threading.Timer(0.5, lease.release)
    timer.start()
    shop.run()
    timer.join()
    shop.assert_equal()


def test_beside_a_run_no_other_process_carries_requests_out(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RequestFolder, "look_seconds", 600.0)
    fill(shop)
    with at_work(shop):
        _wait(lambda: count("notes") == 20)
        request = ask(shop, "retry", "notes")
        with pytest.raises(ReplicatorError, match="RPL-7130"):
            alone(shop)
        assert requests(shop).outcome(request.request_id) is None


def test_a_request_that_cannot_be_begun_holds_up_no_data(
    shop: Shop, copies: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RequestFolder, "look_seconds", 0.1)
    monkeypatch.setattr(request_watch, "_AGAIN_SECONDS", 3600.0)
    fill(shop)
    shop.run()
    copies.clear()
    tries: list[str] = []

    def full(self: RequestFolder, request_id: str, by: str) -> bool:
        tries.append(request_id)
        raise OSError(28, "no space left")

    with at_work(shop):
        with monkeypatch.context() as broken:
            broken.setattr(RequestFolder, "begin", full)
            request = ask(shop, "resync", "notes", inPlace=True)
            _wait(lambda: bool(tries))
            for number in range(21, 31):
                shop.sql("INSERT INTO notes VALUES ('x')")
                _wait(lambda number=number: count("notes") == number)
            assert len(tries) <= 3  # each ends an attempt
        monkeypatch.setattr(request_watch, "_AGAIN_SECONDS", 0.1)
        _wait(lambda: requests(shop).outcome(request.request_id) is not None)
        _wait(lambda: copies == ["notes"])


def test_a_run_goes_on_while_requests_cannot_be_listed(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RequestFolder, "look_seconds", 0.1)
    fill(shop)
    logged: list[str] = []
    monkeypatch.setattr(request_watch.log, "warning", lambda event, **_: logged.append(event))
    with at_work(shop):
        _wait(lambda: count("notes") == 20)
        with monkeypatch.context() as broken:
            broken.setattr(RequestFolder, "waiting", lambda _: 1 / 0)
            _wait(lambda: "request.not_read" in logged)
            shop.sql("INSERT INTO notes VALUES ('x')")
            _wait(lambda: count("notes") == 21)


@pytest.mark.parametrize("by_itself", [True, False])
def test_a_table_that_the_source_has_dropped_still_gets_its_last_changes(shop: Shop, by_itself: bool) -> None:
    fill(shop)
    shop.run()
    shop.sql("DELETE FROM customers WHERE id < 10", "DROP TABLE customers")
    request = ask(shop, "resync", "customers", inPlace=True)
    if by_itself:
        alone(shop)
    for number in range(3):
        shop.sql(f"INSERT INTO notes VALUES ('{number}')")
        shop.run()
    assert outcome(shop, request).state is OutcomeState.DONE
    assert sorted(row["id"] for row in in_memory_target.STORAGE.rows("customers")) == list(range(10, 20))
    assert sorted(states(shop)) == ["notes"]


@pytest.mark.parametrize("tables", [["customers"], ["customers", "notes"]])
def test_a_table_that_the_catalogue_leaves_out_for_a_moment_is_copied_when_it_is_there(
    shop: Shop, copies: list[str], monkeypatch: pytest.MonkeyPatch, tables: list[str]
) -> None:
    shop.document["tables"] = [{"database": "main", "table": table} for table in tables]
    fill(shop)
    shop.run()
    copies.clear()
    damage("customers")
    looks: list[int] = []
    listed = SqliteRegistry.list_tables

    def away(self: SqliteRegistry) -> list[TableSummary]:
        looks.append(1)
        return [one for one in listed(self) if len(looks) > 2 or one.table.table != "customers"]

    request = ask(shop, "resync", "customers", inPlace=True)
    with monkeypatch.context() as gap:
        gap.setattr(SqliteRegistry, "list_tables", away)
        shop.sql("INSERT INTO customers VALUES (100, 'meanwhile')")
        with contextlib.suppress(ReplicatorError):
            shop.run()
    shop.run()
    assert outcome(shop, request).state is OutcomeState.DONE
    assert copies == ["customers"]
    shop.assert_equal(*tables)


def test_a_request_that_cannot_be_stored_is_no_refusal_and_is_done_later(
    shop: Shop, copies: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(shop)
    shop.run()
    copies.clear()
    request = ask(shop, "resync", "notes", inPlace=True)

    def full(*_: object) -> None:
        raise NeedsUserError("the store is full", code="RPL-7103", hint="free space")

    with monkeypatch.context() as broken:
        broken.setattr(TableLifecycle, "save", full)
        with pytest.raises(NeedsUserError, match="RPL-7103"):
            alone(shop)
    assert requests(shop).waiting() == [request.request_id]
    assert requests(shop).outcome(request.request_id) is None
    shop.run()
    assert outcome(shop, request).state is OutcomeState.DONE
    assert copies == ["notes"]


def test_a_copy_that_fails_again_and_again_is_tried_at_once(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is stored of its state is older than its last failure."""
    monkeypatch.setattr(RequestFolder, "look_seconds", 0.2)
    shop.document["retries"] = {"maxDurationSeconds": 600, "delaySeconds": 2}
    fill(shop)
    calls: list[float] = []
    fails("load", "notes", lambda: OSError(16, "locked"), calls)
    with at_work(shop):
        _wait(lambda: len(calls) >= 3)
        time.sleep(0.5)
        works()
        request = ask(shop, "retry", "notes")
        _wait(lambda: requests(shop).outcome(request.request_id) is not None)
        assert outcome(shop, request).lines == ("main.notes will be copied again by the run that goes on",)
        _wait(lambda: count("notes") == 20)


def test_a_table_without_snapshots_is_tried_and_not_copied(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(shop)
    shop.run()
    fails("before", "notes", lambda: DataError("too large", code="RPL-5001", table="main.notes"))
    shop.sql("INSERT INTO notes VALUES ('held')")
    with pytest.raises(DataError):
        shop.run()
    request = ask(shop, "retry", "notes")
    with monkeypatch.context() as none:
        none.setattr(SqliteSource, "create_snapshot_reader", lambda *_: None)
        alone(shop)
    assert outcome(shop, request).lines == ("main.notes will be tried again by the next run",)


def test_old_requests_are_deleted_while_a_run_goes_on(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RequestFolder, "look_seconds", 0.1)
    monkeypatch.setattr(request_watch, "_PRUNE_SECONDS", 0.1)
    monkeypatch.setattr(request_watch, "_KEPT", timedelta(0))
    fill(shop)
    shop.run()
    ask(shop, "retry", "nothing")
    with at_work(shop):
        _wait(lambda: requests(shop).history() == [])


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("orders", ("orders",)),
        ("public.orders", ("public", "orders")),
        ("shop.public.orders", ("shop", "public", "orders")),
        ('"my.shop"."or""ders"', ("my.shop", 'or"ders')),
        ("`my.shop`.orders", ("my.shop", "orders")),
        ("", None),
        (".orders", None),
        ("orders.", None),
        ('"open', None),
        ('"a"b', None),
    ],
)
def test_names_are_split_as_in_sql(text: str, parts: tuple[str, ...] | None) -> None:
    assert parse_name(text) == parts
