"""A table that fails for a while waits alone: the others go on however long it takes to read the log again."""

from __future__ import annotations

import contextlib
import errno
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from replicator_runtime.engine.apply.rejoining import Rejoining
from replicator_runtime.engine.run_state.progress import Progress
from replicator_sdk.errors import DataError, NeedsUserError, RetryableError, TableHistoryLostError
from replicator_source_sqlite.plugin import SqliteSource
from replicator_source_sqlite.streaming.reader import SqliteReader
from tests.runtime.engine import in_memory_target
from tests.runtime.engine.preparation.test_selection_edits import CUSTOMERS, NOTES, loads, states
from tests.runtime.engine.test_run import Shop, _wait, fill, shop

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from replicator_sdk import TableId

__all__ = ["shop"]


@contextlib.contextmanager
def at_work(shop: Shop) -> Iterator[Progress]:
    """An endless run."""
    stop, progress = threading.Event(), Progress()
    thread = threading.Thread(target=lambda: shop.run(until_current=False, stop=stop, progress=progress))
    thread.start()
    try:
        yield progress
    finally:
        stop.set()
        thread.join(120)


def fails(step: str, table: str, error: Callable[[], Exception], calls: list[float] | None = None) -> None:
    """From now on `step` of `table` fails."""

    def fault(at: str, where: TableId) -> None:
        if (at, where.table) == (step, table):
            if calls is not None:
                calls.append(time.monotonic())
            raise error()

    in_memory_target.STORAGE.fault = fault


def count(table: str) -> int:
    tables = list(in_memory_target.STORAGE.tables.values())  # a run may add some meanwhile
    return sum(t.rows.total() for t in tables if t.schema.table.table == table)


def test_a_table_that_keeps_failing_does_not_keep_the_others_from_passing_what_is_read_again(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To read the held part of the log takes far longer than the wait between two tries."""
    fill(shop)
    shop.run()
    shop.document["stages"][0]["plugin"]["properties"]["batchRows"] = 1
    emit = SqliteReader._emit_changes

    def slowly(self: SqliteReader, *arguments: Any) -> None:
        time.sleep(0.02)
        emit(self, *arguments)

    monkeypatch.setattr(SqliteReader, "_emit_changes", slowly)
    calls: list[float] = []
    fails("before", "notes", lambda: OSError("locked"), calls)
    shop.sql("INSERT INTO notes VALUES ('held')")
    for i in range(100, 250):
        shop.sql(f"INSERT INTO customers VALUES ({i}, 'n{i}')")
    with at_work(shop):
        _wait(lambda: count("customers") == 170)
        tries = len(calls)
        _wait(lambda: len(calls) > tries)
        in_memory_target.STORAGE.fault = lambda at, where: None
        _wait(lambda: count("notes") == 21)
    shop.run()
    shop.assert_equal()


@pytest.mark.parametrize("step", ["load", "finished"])
def test_a_copy_that_fails_for_a_while_is_tried_again_alone(shop: Shop, step: str) -> None:
    fill(shop)
    calls: list[float] = []
    fails(step, "notes", lambda: OSError("locked"), calls)
    with at_work(shop) as progress:
        _wait(lambda: any(t.state == "REPLICATING" for t in progress.snapshot().tables))
        for i in range(30, 35):
            shop.sql(f"INSERT INTO customers VALUES ({i}, 'n{i}')")
            _wait(lambda wanted=i - 9: count("customers") == wanted)
        assert len(calls) > 1
        assert [t.state for t in progress.snapshot().tables if t.table.table == "notes"] != ["REPLICATING"]
        in_memory_target.STORAGE.fault = lambda at, where: None
        _wait(lambda: all(t.state == "REPLICATING" for t in progress.snapshot().tables))
    shop.run()
    shop.assert_equal()


def test_a_copy_that_fails_for_the_whole_budget_stops_its_table_alone(shop: Shop) -> None:
    shop.document["retries"] = {"maxDurationSeconds": 0.5, "delaySeconds": 0.1}
    fill(shop)
    fails("load", "notes", lambda: OSError(errno.EIO, "locked"))
    with pytest.raises(Exception, match="locked"):
        shop.run()
    shop.assert_equal("customers")
    assert states(shop) == {"customers": "REPLICATING", "notes": "FAILING"}
    in_memory_target.STORAGE.fault = lambda at, where: None
    shop.run()
    shop.assert_equal()


@pytest.mark.parametrize("error", [OSError("unreachable"), DataError("its log is damaged", code="RPL-5002")])
def test_a_table_whose_progress_cannot_be_read_stops_alone(shop: Shop, error: Exception) -> None:
    fill(shop)
    shop.run()
    shop.sql("INSERT INTO notes VALUES ('held')", "INSERT INTO customers VALUES (50, 'goes on')")
    calls: list[float] = []
    fails("progress", "notes", lambda: error, calls)
    with at_work(shop):
        _wait(lambda: count("customers") == 21)
        if isinstance(error, OSError):
            _wait(lambda: len(calls) > 2)
    in_memory_target.STORAGE.fault = lambda at, where: None
    shop.run()
    shop.assert_equal()


def test_progress_that_cannot_be_read_of_any_table_is_the_targets_failure(shop: Shop) -> None:
    fill(shop)
    shop.run()
    shop.document["retries"] = {"maxDurationSeconds": 0.5, "delaySeconds": 0.1}

    def fault(at: str, where: TableId) -> None:
        if at == "progress":
            raise RetryableError("the target is away", code="RPL-4999", hint="wait")

    in_memory_target.STORAGE.fault = fault
    with pytest.raises(RetryableError, match="RPL-4999"):
        shop.run()


@pytest.mark.parametrize("on_error", ["isolate", "stop"])
@pytest.mark.parametrize("tables", [[CUSTOMERS, NOTES], [CUSTOMERS]])
@pytest.mark.parametrize("place", ["reader", "capture", "apply"])
def test_a_table_whose_history_is_lost_is_copied_again_at_the_next_start(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, place: str, tables: list[Any], on_error: str
) -> None:
    """The user repairs the cause between two runs; that the log missed changes must not be forgotten."""
    fill(shop)
    shop.document |= {"tables": tables, "onTableError": on_error}
    shop.run()
    shop.sql("INSERT INTO customers VALUES (90, 'seen')", "INSERT INTO notes VALUES ('seen')")

    def lost() -> TableHistoryLostError:
        return TableHistoryLostError("it left the publication", code="RPL-3", hint="add it", table="main.customers")

    def broken(self: SqliteReader, *_: Any) -> None:
        raise lost()

    with monkeypatch.context() as patch:
        if place == "apply":
            fails("before", "customers", lost)
        else:
            patch.setattr(SqliteReader, {"reader": "_emit_changes", "capture": "capture"}[place], broken)
        for _ in range(1 if place == "apply" else 2):
            with pytest.raises(TableHistoryLostError):
                shop.run()
    copied = loads("customers")
    shop.run()
    assert copied, "copied again"
    shop.assert_equal(*(t["table"] for t in tables))
    copied.clear()
    shop.sql("UPDATE customers SET name = 'x' WHERE id = 1")
    shop.run()
    assert not copied
    shop.assert_equal(*(t["table"] for t in tables))


def test_a_source_without_snapshots_cannot_copy_a_table_again(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """The table stops with an error that says so, instead of being tried again and again."""
    from replicator_sdk.errors import SnapshotNeededError

    monkeypatch.setattr(SqliteSource, "create_snapshot_reader", lambda *_: None)
    shop.run()
    fill(shop)
    calls: list[float] = []
    fails("before", "customers", lambda: SnapshotNeededError("old values cannot be found", code="RPL-5403"), calls)
    with pytest.raises(NeedsUserError, match=r"RPL-3490.*customers"):
        shop.run()
    assert len(calls) == 1
    shop.assert_equal("notes")


def test_the_time_that_first_copies_take_does_not_delay_tables_that_join_later(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only what is read again counts: the copies are not made again."""
    fill(shop)
    loaded: list[float] = []
    in_memory_target.STORAGE.fault = lambda at, where: loaded.append(time.monotonic()) if at == "load" else None
    began: list[float] = []
    init = Rejoining.__init__

    def note(self: Rejoining, at: float, watermarks: Any) -> None:
        began.append(at)
        init(self, at, watermarks)

    monkeypatch.setattr(Rejoining, "__init__", note)
    shop.run()
    assert began[0] >= max(loaded)
