"""A log read in slices: equal to the source however it is cut, tables follow its schemas, and one failing table stops alone."""

from __future__ import annotations

import itertools
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
import structlog

from replicator_runtime.engine.batching.batch_interval import BatchInterval
from replicator_runtime.engine.maintenance.table_locks import Held, TableLocks
from replicator_runtime.engine.run_state.progress import Progress
from replicator_runtime.engine.slices import slice_size
from replicator_runtime.engine.slices.distributed_stream import DistributedStream
from replicator_runtime.engine.tables.table_state import TableState
from replicator_sdk import DDLOperation, failpoint
from replicator_sdk.distributed.slices import SliceChanges, SliceOutcome
from replicator_sdk.errors import DataError, NeedsUserError, ReplicatorError
from replicator_sdk.testing.histories.history import Step
from replicator_sdk.testing.histories.values import difference
from replicator_sdk.testing.in_memory.partitioned import FolderLog, PartitionedSource
from replicator_sdk.testing.in_memory.target import MemoryConsumer, MemoryStore, MemoryTarget
from tests.runtime.engine.partitioned_shop import PartitionedShop, run_pipeline

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from replicator_runtime.engine.worker import RunResult
    from replicator_sdk import DDLEvent

PLACES = sorted(
    {
        "engine.slice.planned",
        "engine.slice.applied",
        "engine.slice.schema_announced",
        "engine.slice.schema_applied",
        "engine.offset.before_save",
        "engine.offset.after_save",
        "state.put.before",
        "state.put.between",
        "state.put.after",
    }
)


class Pair:
    """A shop and its copy in memory."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.store = str(folder)
        self.shop = PartitionedShop(folder, seed)
        self.settings: dict[str, Any] = {}

    @property
    def target(self) -> MemoryStore:
        return MemoryStore.of(self.store)

    def run(self, **more: Any) -> RunResult:
        document = self.shop.document("memory", {"store": self.store}, **self.settings)
        return run_pipeline(document, MemoryTarget, **more)

    def assert_equal(self, but: str = "") -> None:
        for schema in self.shop.schemas:
            if schema.table.table != but:
                found = self.target.rows(schema.table)
                assert difference(schema, self.shop.rows(schema.table), found) == ""


@pytest.fixture(autouse=True)
def _small_slices(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Four records of each partition at the beginning, so that short histories have many slices."""
    monkeypatch.setattr(slice_size, "_FIRST_BYTES", 1600)
    monkeypatch.setattr(slice_size, "_LEAST_BYTES", 1600)
    monkeypatch.setattr(slice_size, "_STEP", 1.5)
    yield
    failpoint.arm("")


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    yield Pair(tmp_path, 1)
    MemoryStore.forget(str(tmp_path))


def grown(pair: Pair) -> None:
    """Trade with everything in it: columns that come in the middle, and a table."""
    shop = pair.shop
    shop.trade(40)
    shop.grow()
    shop.trade(20)
    shop.open_late_table()
    shop.grow()
    shop.trade(30)


@pytest.mark.parametrize("seed", range(4))
def test_slices_end_as_the_source(tmp_path: Path, seed: int) -> None:
    pair = Pair(tmp_path, seed)
    pair.shop.trade(10)
    pair.run()
    pair.assert_equal()
    grown(pair)
    result = pair.run()
    pair.assert_equal()
    assert result.reached_goal
    assert result.offset == str(pair.shop.log.end())


@pytest.mark.parametrize("passes", [1, 3])
@pytest.mark.parametrize("place", PLACES)
def test_the_next_run_recovers_from_a_crash_at_any_place(
    tmp_path: Path, place: str, passes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run that follows knows only what state and target hold, and cuts slices otherwise."""
    pair = Pair(tmp_path, passes)
    pair.shop.trade(15)
    pair.run()
    grown(pair)
    pair.settings = {"retries": {"maxDurationSeconds": 0}}
    failpoint.arm(f"{place}=raise@{passes}")
    crashed = False
    try:
        pair.run()
    except ReplicatorError:
        crashed = True
    failpoint.arm("")
    assert crashed or passes > 1, f"{place} is never passed"
    pair.shop.trade(15)
    monkeypatch.setattr(slice_size, "_FIRST_BYTES", 2400)
    pair.settings = {}
    pair.run()
    pair.assert_equal()


@pytest.mark.parametrize("failing", ["customers", "stock"])
def test_a_table_that_fails_is_replayed_alone_and_all_positions_form_one_chain(
    pair: Pair, failing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`PartitionedOffset` refuses to compare offsets off one chain: a slice that crossed a table's end would fail."""
    pair.shop.trade(20)
    pair.run()
    grown(pair)
    apply = MemoryConsumer.apply_batch
    calls: list[int] = []

    def refuse(self: MemoryConsumer, changes: Any) -> None:
        if changes.table.table == failing:
            calls.append(1)
            if len(calls) > 2:
                raise DataError("it does not fit", code="RPL-5001", table=str(changes.table))
        apply(self, changes)

    with monkeypatch.context() as broken:
        broken.setattr(MemoryConsumer, "apply_batch", refuse)
        with pytest.raises(DataError):
            pair.run()
    pair.assert_equal(but=failing)
    pair.shop.trade(20)
    monkeypatch.setattr(slice_size, "_FIRST_BYTES", 3000)
    pair.run()
    pair.assert_equal()


def test_a_table_that_fails_for_a_while_comes_back_in_the_same_run(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    pair.shop.trade(60)
    apply = MemoryConsumer.apply_batch
    failed: list[int] = []

    def fail(self: MemoryConsumer, changes: Any) -> None:
        apply(self, changes)
        if changes.table.table == "customers" and len(failed) < 2:
            failed.append(1)
            raise OSError("the answer was lost")  # the commit was not

    monkeypatch.setattr(MemoryConsumer, "apply_batch", fail)
    pair.run()
    assert failed == [1, 1]
    pair.assert_equal()


def test_unreadable_records_stop_their_table_only(pair: Pair) -> None:
    pair.shop.trade(40)
    pair.shop.log.spoil(2, pair.shop.schemas[0].table)
    pair.shop.trade(20)
    progress = Progress()
    with pytest.raises(DataError, match="RPL-9112"):
        pair.run(progress=progress)
    states = {t.table.table: t.state for t in progress.snapshot().tables}
    assert states == {"customers": TableState.FAILING, "stock": TableState.REPLICATING, "notes": TableState.REPLICATING}
    pair.assert_equal(but="customers")


def test_a_table_that_fails_for_long_holds_the_offset_until_it_works(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log without snapshots cannot copy it again: nothing is given up, and that is logged once."""
    pair.settings = {"failingTables": {"holdLogHours": 0.000001}}
    apply, stop, progress = MemoryConsumer.apply_batch, threading.Event(), Progress()

    def refuse(self: MemoryConsumer, changes: Any) -> None:
        if changes.table.table == "customers":
            raise DataError("it does not fit", code="RPL-5001", table=str(changes.table))
        apply(self, changes)

    pair.shop.trade(20)
    with monkeypatch.context() as broken, structlog.testing.capture_logs() as said:
        broken.setattr(MemoryConsumer, "apply_batch", refuse)
        thread = threading.Thread(target=lambda: pair.run(until_current=False, stop=stop, progress=progress))
        thread.start()
        try:
            deadline = time.monotonic() + 120
            while time.monotonic() < deadline and not any(entry["event"] == "table.holds_log" for entry in said):
                time.sleep(0.05)
            pair.shop.trade(20)
        finally:
            stop.set()
            thread.join(120)
    assert [entry["table"] for entry in said if entry["event"] == "table.holds_log"] == [
        str(pair.shop.schemas[0].table)
    ]
    pair.run()
    pair.assert_equal()


def test_one_reader_does_not_go_on_in_the_middle_of_a_slice(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some tables have it and some have not; what one reader reads at a time ends elsewhere."""
    pair.shop.trade(40)
    pair.settings = {"retries": {"maxDurationSeconds": 0}}
    failpoint.arm("engine.slice.applied=raise@2")
    with pytest.raises(ReplicatorError):
        pair.run()
    failpoint.arm("")
    with monkeypatch.context() as one_reader:
        one_reader.setattr(PartitionedSource, "create_distributed_log", lambda self, definition, context: None)
        with pytest.raises(NeedsUserError, match="RPL-4102"):
            pair.run()
    pair.run()
    pair.assert_equal()


def advances(patch: pytest.MonkeyPatch) -> list[float]:
    """When the stream turned to each next slice, before it looks at the clock itself."""
    found: list[float] = []
    advance = DistributedStream._advance

    def advancing(stream: DistributedStream, goal: Any) -> None:
        found.append(time.monotonic())
        advance(stream, goal)

    patch.setattr(DistributedStream, "_advance", advancing)
    return found


def test_slices_begin_as_often_as_the_target_allows(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a backlog each slice is followed by that wait; the next one is planned after it, and has what arrived meanwhile."""
    planned: list[tuple[float, bool]] = []
    true_plan, advanced = FolderLog.plan, advances(monkeypatch)

    def plan(self: FolderLog, start: Any, limit_bytes: int, end: Any = None) -> Any:
        piece = true_plan(self, start, limit_bytes, end)
        if piece is not None:
            planned.append((advanced[-1], piece.estimated_bytes * 2 > limit_bytes))
        return piece

    monkeypatch.setattr(FolderLog, "plan", plan)
    monkeypatch.setattr(MemoryConsumer, "slice_interval", 0.5)
    monkeypatch.setattr(slice_size, "_STEP", 1.0)
    pair.shop.trade(80)
    pair.run()
    pauses = [after - before for (before, is_full), (after, _) in itertools.pairwise(planned) if is_full]
    assert len(pauses) >= 3
    assert min(pauses) > 0.4
    pair.assert_equal()


@pytest.mark.parametrize("alone", [True, False])
def test_slices_that_fail_begin_as_often_as_the_target_allows(
    pair: Pair, monkeypatch: pytest.MonkeyPatch, *, alone: bool
) -> None:
    """Each attempt begins with a slice: the wait goes on from one to the next, whether one table fails or all."""
    pair.settings = {"retries": {"delaySeconds": 0.01}}
    began: list[float] = []
    stop = threading.Event()
    true_apply, advanced = MemoryConsumer.apply_slice, advances(monkeypatch)

    def apply(self: MemoryConsumer, changes: SliceChanges) -> SliceOutcome:
        began.append(advanced[-1])
        if len(began) == 4:
            stop.set()
        if not alone:
            raise OSError
        return true_apply(self, changes)

    def fail(self: MemoryConsumer, changes: Any) -> None:
        raise OSError

    monkeypatch.setattr(MemoryConsumer, "slice_interval", 0.5)
    pair.shop.trade(20)
    with monkeypatch.context() as broken, structlog.testing.capture_logs():  # errors in full take longer than the wait
        broken.setattr(MemoryConsumer, "apply_slice", apply)
        broken.setattr(MemoryConsumer, "apply_batch", fail)
        pair.run(until_current=False, stop=stop)
    assert min(after - before for before, after in itertools.pairwise(began)) > 0.4
    monkeypatch.setattr(MemoryConsumer, "slice_interval", 0.0)
    pair.run()
    pair.assert_equal()


def test_slices_without_a_change_leave_the_time_quiet(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    pair.shop.trade(20)
    document = pair.shop.document("memory", {"store": pair.store}, tables=[{"table": "notes"}])
    run_pipeline(document, MemoryTarget)
    applied: list[int] = []
    monkeypatch.setattr(BatchInterval, "applied", lambda self, rows: applied.append(rows))
    offset = pair.shop.log.end()
    pair.shop.execute(Step("insert", "stock", {"rows": [{"place": "here", "item": 77, "n": 1}]}))
    assert run_pipeline(document, MemoryTarget).offset == str(pair.shop.log.end()) != str(offset)
    assert applied == []
    pair.shop.execute(Step("insert", "notes", {"rows": [{"text": "b"}]}))
    run_pipeline(document, MemoryTarget)
    assert applied == [1]


@pytest.mark.parametrize(("left_out", "lacks"), [("DELETE", False), ("INSERT", True), ("UPDATE", True)])
def test_a_slice_names_the_tables_that_lack_rows(
    pair: Pair, monkeypatch: pytest.MonkeyPatch, left_out: str, *, lacks: bool
) -> None:
    seen, true_apply = [], MemoryConsumer.apply_slice

    def apply(self: MemoryConsumer, changes: SliceChanges) -> SliceOutcome:
        seen.append(changes.lacking_rows == (changes.tables.keys() if lacks else set()))
        return true_apply(self, changes)

    monkeypatch.setattr(MemoryConsumer, "apply_slice", apply)
    pair.settings = {"dmlBlacklist": [left_out]}
    pair.shop.trade(5)
    pair.run()
    assert all(seen)


def test_operations_on_the_blacklist_are_left_out_where_the_log_is_read(pair: Pair) -> None:
    pair.settings = {"dmlBlacklist": ["DELETE"]}
    pair.shop.trade(60)
    pair.run()
    [customers] = [s for s in pair.shop.schemas if s.table.table == "customers"]
    kept = {row["id"] for row in pair.target.rows(customers.table)}
    assert kept > {row["id"] for row in pair.shop.rows(customers.table)}


def test_no_maintenance_runs_beside_a_schema_change(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[TableLocks] = []
    free: list[bool] = []
    init, apply_ddl = TableLocks.__init__, MemoryConsumer.apply_ddl

    def making(locks: TableLocks) -> None:
        init(locks)
        made.append(locks)

    def applying(consumer: MemoryConsumer, event: DDLEvent) -> None:
        if (
            event.operation is DDLOperation.ALTER_TABLE
        ):  # tables are created before a stream, and so before any maintenance
            with made[-1].hold_soon(event.table, 0.01, Held.STRUCTURE) as held:
                free.append(held)
        apply_ddl(consumer, event)

    monkeypatch.setattr(TableLocks, "__init__", making)
    monkeypatch.setattr(MemoryConsumer, "apply_ddl", applying)
    pair.shop.trade(10)
    pair.run()
    grown(pair)
    pair.run()
    assert free
    assert not any(free)


def test_an_endless_run_follows_and_stops_when_asked(pair: Pair) -> None:
    pair.shop.trade(10)
    stop, progress = threading.Event(), Progress()
    thread = threading.Thread(target=lambda: pair.run(until_current=False, stop=stop, progress=progress))
    thread.start()
    try:
        for _ in range(3):
            pair.shop.trade(20)
            deadline = time.monotonic() + 60
            while time.monotonic() < deadline and progress.snapshot().lag_seconds != 0.0:
                time.sleep(0.02)
    finally:
        stop.set()
        thread.join(120)
    assert not thread.is_alive()
    pair.run()
    pair.assert_equal()


def test_the_source_gets_only_offsets_that_were_saved_before(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    logs: list[FolderLog] = []
    made = FolderLog.initialize

    def initialize(self: FolderLog, offset: Any) -> Any:
        logs.append(self)
        return made(self, offset)

    monkeypatch.setattr(FolderLog, "initialize", initialize)
    pair.shop.trade(60)
    result = pair.run()
    [log] = logs
    assert log.committed_offsets == sorted(log.committed_offsets)
    assert len(log.committed_offsets) > 2
    assert str(log.committed_offsets[-1]) < result.offset


def test_how_far_all_partitions_are_read_is_reported_when_all_took_part(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcomes: list[SliceOutcome] = []
    apply = MemoryConsumer.apply_slice

    def keep(self: MemoryConsumer, changes: SliceChanges) -> SliceOutcome:
        outcomes.append(apply(self, changes))
        return outcomes[-1]

    monkeypatch.setattr(MemoryConsumer, "apply_slice", keep)
    pair.shop.log.heartbeat(5)
    pair.shop.trade(1)
    pair.run()
    assert outcomes[0].valid_through == 5
    assert outcomes[-1].valid_through in {5, -1}
