"""A copy belongs to the run: what happens to the stream or to other tables meanwhile does not begin it again."""

from __future__ import annotations

import itertools
import threading
import time
from concurrent.futures import wait
from typing import TYPE_CHECKING, Any

import pytest

from replicator_runtime.engine.apply import rejoining
from replicator_runtime.engine.preparation.discovery import discover
from replicator_runtime.engine.run_state.progress import Progress
from replicator_runtime.engine.run_state.retry_budget import RetryBudget
from replicator_runtime.engine.tables.table_state import TableState
from replicator_sdk.distributed.stopping import stopped
from replicator_sdk.errors import DataError, RetryableError
from replicator_source_sqlite.snapshots.snapshot import SqliteSnapshotReader
from replicator_source_sqlite.streaming.reader import SqliteReader
from tests.runtime.engine import in_memory_target
from tests.runtime.engine.in_memory_target import InMemoryConsumer
from tests.runtime.engine.preparation.test_selection_edits import CUSTOMERS, NOTES, states
from tests.runtime.engine.test_run import Shop, _wait, fill, shop
from tests.services.threads import beside

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from replicator_sdk import ChunkReader, SnapshotChunk, TableId, TableSchema, TableSnapshot

__all__ = ["shop"]

_CHUNKS = 22  # of 21 rows: the first and the last are open, for rows that come before a copy is resumed


class Copying:
    """A second run that copies one table in six commits of four chunks or less, while the reader of the log fails.

    The first commit of the copy waits until the reader has failed for the last time, so the copy is always under way.
    """

    def __init__(self, shop: Shop, patch: pytest.MonkeyPatch, table: str) -> None:
        self.opened: list[str] = []
        self.loaded: list[int] = []
        self._loading, self._failed = threading.Event(), threading.Event()
        self._patch = patch
        fill(shop)
        shop.document["stages"][0]["plugin"]["properties"]["chunkRows"] = 1
        shop.document["tables"] = [NOTES if table == "customers" else CUSTOMERS]
        shop.run()
        shop.document["tables"] = [CUSTOMERS, NOTES]
        shop.sql("INSERT INTO customers VALUES (70, 'meanwhile')", "INSERT INTO notes VALUES ('meanwhile')")
        self._watch_copies()

    def _watch_copies(self) -> None:
        true_open, true_load = SqliteSnapshotReader.open, InMemoryConsumer.load_chunks

        def opened(
            reader: SqliteSnapshotReader, schema: TableSchema, chunks: Sequence[SnapshotChunk] = ()
        ) -> TableSnapshot:
            self.opened.append(schema.table.table)
            return true_open(reader, schema, chunks)

        def load(
            consumer: InMemoryConsumer,
            schema: TableSchema,
            snapshot_id: str,
            chunks: Sequence[SnapshotChunk],
            read: ChunkReader,
        ) -> int:
            self._loading.set()
            self._failed.wait(120)
            time.sleep(0.3)
            self.loaded += [chunk.index for chunk in chunks]
            return true_load(consumer, schema, snapshot_id, chunks, read)

        self._patch.setattr(SqliteSnapshotReader, "open", opened)
        self._patch.setattr(InMemoryConsumer, "load_chunks", load)

    def fail_reader(self, times: int, error: Callable[[], Exception]) -> None:
        true_run, calls = SqliteReader.run, [0]

        def read(reader: Any) -> None:
            calls[0] += 1
            if calls[0] > times:
                true_run(reader)
                return
            self._loading.wait(120)
            failure = error()
            if calls[0] == times:
                self._failed.set()
            raise failure

        self._patch.setattr(SqliteReader, "run", read)


def drop_while_copied(shop: Shop, copying: Copying) -> None:
    """The reader fails once, when `notes`, which is being copied, got a last row and was dropped."""
    shop.document["tables"] = [{"table": "c*"}, {"table": "n*"}]

    def drop() -> RetryableError:
        shop.sql("INSERT INTO notes VALUES ('last')", "DROP TABLE notes", "INSERT INTO customers VALUES (71, 'later')")
        return RetryableError("the log is away", code="RPL-3")

    copying.fail_reader(1, drop)


@pytest.mark.parametrize("large", ["customers", "notes"])
def test_the_first_tables_that_are_copied_stream_while_a_large_one_is_copied(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, large: str
) -> None:
    """At the first start, too: the other table waits for no copy but its own. Afterwards both are equal to the source."""
    monkeypatch.setattr(rejoining, "JOIN_SECONDS", 0.3)
    fill(shop)
    asked: list[str] = []
    true_progress = InMemoryConsumer.progress

    def progress_of(consumer: InMemoryConsumer, table: TableId) -> Any:
        asked.append(table.table)
        return true_progress(consumer, table)

    monkeypatch.setattr(InMemoryConsumer, "progress", progress_of)
    [small] = {"customers", "notes"} - {large}
    go_on, progress = threading.Event(), Progress()

    def block(step: str, where: TableId) -> None:
        if (step, where.table) == ("load", large):
            _wait(go_on.is_set)

    in_memory_target.STORAGE.fault = block
    with beside(lambda stop: shop.run(until_current=False, stop=stop, progress=progress)):
        try:
            _wait(lambda: progress.phase == "streaming")
            shop.sql("INSERT INTO customers (name) VALUES ('x')", "INSERT INTO notes (text) VALUES ('x')")
            _wait(lambda: len(in_memory_target.STORAGE.rows(small)) == 21)
            assert in_memory_target.STORAGE.rows(large) == []
            shown = {view.table.table: view.state for view in progress.snapshot().tables}
            assert shown == {small: TableState.REPLICATING, large: TableState.SNAPSHOTTING}
            go_on.set()
            _wait(lambda: len(in_memory_target.STORAGE.rows(large)) == 21)
            assert asked == [], "what a copy leaves is known"
        finally:
            go_on.set()
    for number in range(3):
        shop.run()
        shop.assert_equal()
        shop.sql(
            f"ALTER TABLE notes ADD COLUMN n{number} TEXT DEFAULT 'x'", f"INSERT INTO notes (text) VALUES ('{number}')"
        )
        shop.sql(f"INSERT INTO customers (name) VALUES ('{number}')")


@pytest.mark.parametrize("table", ["customers", "notes"])
def test_errors_of_the_stream_let_a_copy_go_on(shop: Shop, monkeypatch: pytest.MonkeyPatch, table: str) -> None:
    """Also of a table without a key, whose copy cannot be resumed."""
    copying = Copying(shop, monkeypatch, table)
    copying.fail_reader(3, lambda: RetryableError("the log is away", code="RPL-3"))
    shop.run()
    shop.assert_equal()
    assert copying.opened == [table]
    assert copying.loaded == list(range(_CHUNKS))


def test_an_error_of_another_table_lets_a_copy_go_on(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """The table that the reader names stops, and the stream begins again without it."""
    shop.sql("CREATE TABLE other (id INTEGER PRIMARY KEY)", "INSERT INTO other VALUES (1)")
    copying = Copying(shop, monkeypatch, "notes")
    shop.document["tables"] = [CUSTOMERS, NOTES, {"table": "other"}]
    copying.fail_reader(1, lambda: DataError("a value does not fit", code="RPL-5001", table="main.customers"))
    with pytest.raises(DataError, match="RPL-5001"):
        shop.run()
    shop.assert_equal("notes", "other")
    assert copying.opened.count("notes") == 1
    assert states(shop) == {"customers": "FAILING", "notes": "REPLICATING", "other": "REPLICATING"}


def test_a_table_that_is_dropped_while_it_is_copied_gets_its_last_changes(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The attempts after the drop do not find it at the source, but hold the offset until its copy has joined."""
    copying = Copying(shop, monkeypatch, "notes")
    drop_while_copied(shop, copying)
    shop.run()  # its goal may be before the drop
    shop.run()
    shop.assert_equal("customers")
    assert copying.opened == ["notes"]
    texts = [row["text"] for row in in_memory_target.STORAGE.rows("notes")]
    assert (len(texts), texts.count("meanwhile"), texts.count("last")) == (22, 1, 1)
    assert states(shop) == {"customers": "REPLICATING"}


def test_a_table_that_stops_while_it_is_copied_has_its_copy_ended(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    copying = Copying(shop, monkeypatch, "notes")
    copying.fail_reader(1, lambda: DataError("a value does not fit", code="RPL-5001", table="main.notes"))
    with pytest.raises(DataError, match="RPL-5001"):
        shop.run()
    shop.assert_equal("customers")
    assert states(shop) == {"customers": "REPLICATING", "notes": "FAILING"}
    assert 0 < len(copying.loaded) < _CHUNKS
    shop.run()
    shop.assert_equal()


def test_a_copy_that_ends_with_the_run_goes_on_in_the_next(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.document["onTableError"] = "stop"
    copying = Copying(shop, monkeypatch, "customers")
    copying.fail_reader(1, lambda: DataError("a value does not fit", code="RPL-5001", table="main.notes"))
    with pytest.raises(DataError, match="RPL-5001"):
        shop.run()
    assert 0 < len(copying.loaded) < _CHUNKS
    shop.run()
    shop.assert_equal()
    assert sorted(copying.loaded) == list(range(_CHUNKS)), "no chunk was read twice"


@pytest.mark.parametrize("late", [False, True], ids=["during", "at the end of"])
def test_a_table_whose_copy_ends_while_another_attempt_begins_gets_its_last_changes(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, late: bool
) -> None:
    """It was dropped meanwhile: the source does not list it, and its copy may end just after it was looked for."""
    drop_while_copied(shop, Copying(shop, monkeypatch, "notes"))
    calls = itertools.count(1)

    def discovered(lifecycle: Any) -> Any:
        found = discover(lifecycle)
        if late and next(calls) == 2:
            wait([future for _, future in lifecycle.copies._copies.values()])
        return found

    monkeypatch.setattr("replicator_runtime.engine.attempt.discover", discovered)
    with beside(lambda stop: shop.run(until_current=False, stop=stop)):
        until(lambda: "last" in texts("notes"))
    assert states(shop) == {"customers": "REPLICATING"}


def test_a_source_that_fails_while_a_table_is_copied_is_asked_more_and_more_rarely(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows of the copy keep the run, and are no progress of what fails."""
    fill(shop)
    shop.document["stages"][0]["plugin"]["properties"]["chunkRows"] = 1
    shop.document["tables"] = [CUSTOMERS]
    shop.run()
    shop.document["tables"] = [CUSTOMERS, NOTES]
    shop.document["retries"] = {"maxDurationSeconds": 60, "delaySeconds": 0.1}
    loaded, failed, failures = threading.Semaphore(0), threading.Semaphore(0), itertools.count(1)
    counts: list[int] = []
    true_load, true_run, true_delay = InMemoryConsumer.load_chunks, SqliteReader.run, RetryBudget.next_delay

    def load(consumer: InMemoryConsumer, *arguments: Any) -> int:
        rows = true_load(consumer, *arguments)
        loaded.release()
        if len(counts) < 4:
            failed.acquire(timeout=120)
        return rows

    def read(reader: Any) -> None:
        if next(failures) > 4:
            true_run(reader)
            return
        loaded.acquire(timeout=120)  # each failure comes after another commit of the copy
        raise RetryableError("the log is away", code="RPL-3")

    def next_delay(budget: RetryBudget) -> float | None:
        found = true_delay(budget)
        counts.append(budget.attempts)
        failed.release()
        return found

    monkeypatch.setattr(InMemoryConsumer, "load_chunks", load)
    monkeypatch.setattr(SqliteReader, "run", read)
    monkeypatch.setattr(RetryBudget, "next_delay", next_delay)
    shop.run()
    shop.assert_equal()
    assert counts == [1, 2, 3, 4]


def texts(table: str) -> list[str]:
    """None as long as the target has no such table."""
    found = [t for name, t in list(in_memory_target.STORAGE.tables.items()) if name.table == table]
    return [row["text"] for row in in_memory_target.STORAGE.rows(table)] if found else []


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_a_copy_whose_work_is_cancelled_as_the_run_stops_is_no_failure_and_goes_on(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(shop)
    stop, true_load = threading.Event(), InMemoryConsumer.load_chunks

    def load(consumer: InMemoryConsumer, *given: Any) -> int:
        if given[0].table.table != "notes":
            return true_load(consumer, *given)
        stop.set()
        assert consumer._context.is_stopping
        raise stopped()

    monkeypatch.setattr(InMemoryConsumer, "load_chunks", load)
    assert not shop.run(until_current=False, stop=stop).reached_goal
    assert "FAILING" not in {table["state"] for table in shop.status()["tables"]}
    monkeypatch.undo()
    shop.run()
    shop.assert_equal()
