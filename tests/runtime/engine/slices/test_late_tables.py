"""A log in slices keeps the changes of a paused table, which is read by itself when it is resumed, and gets them once."""

from __future__ import annotations

import json
import random
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from replicator_runtime.cli.commands.status import _about
from replicator_runtime.config import build_pipeline
from replicator_runtime.engine.control.control import carry_out_alone
from replicator_runtime.engine.run_state.progress import Progress
from replicator_runtime.engine.tables.table_store import TableStore
from replicator_sdk import SliceChanges, SliceOutcome, TableId, failpoint
from replicator_sdk.errors import DataError, NeedsUserError, ReplicatorError, RetryableError, TableHistoryLostError
from replicator_sdk.testing.in_memory.partitioned import FolderLog, PartitionedOffset, PartitionedSource
from replicator_sdk.testing.in_memory.target import MemoryConsumer, MemoryStore, MemoryTarget
from replicator_state import OutcomeState, ReplicatorDirectory
from tests.runtime.engine.partitioned_shop import Host
from tests.runtime.engine.slices.test_distributed_stream import Pair, _small_slices, pair
from tests.runtime.engine.test_run import _wait

if TYPE_CHECKING:
    from pathlib import Path

    from replicator_sdk import LogSlice, Offset
    from replicator_state import Outcome, Request, RequestFolder

__all__ = ["_small_slices", "pair"]

NOTES, CUSTOMERS = (TableId("shop", name, "public") for name in ("notes", "customers"))


@pytest.fixture(autouse=True)
def _refuses_older_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    """The target fails a table that is before what the runtime knew of it, as Delta does (RPL-4113)."""
    apply = MemoryConsumer.apply_slice

    def checked(self: MemoryConsumer, changes: SliceChanges) -> SliceOutcome:
        found = {table: self.progress(table) for table in changes.follows}
        gone = {t for t, at in changes.follows.items() if (have := found[t]) is None or not at <= have.position}
        outcome = apply(self, replace(changes, tables={t: s for t, s in changes.tables.items() if t not in gone}))
        errors = {t: RetryableError("an older copy", code="RPL-4113", table=str(t), hint="again") for t in gone}
        return replace(outcome, failures={**outcome.failures, **errors})

    monkeypatch.setattr(MemoryConsumer, "apply_slice", checked)


def requests(pair: Pair) -> RequestFolder:
    return ReplicatorDirectory(str(pair.shop.folder / "state"), "default", "shop").requests()


def ask(pair: Pair, command: str, *tables: str) -> Request:
    return requests(pair).submit(f"table.{command}", {"tables": list(tables)})


def alone(pair: Pair, command: str, *tables: str) -> Outcome:
    """Ask for a command, and carry it out without a run."""
    request = ask(pair, command, *tables)
    document = pair.shop.document("memory", {"store": pair.store}, **pair.settings)
    carry_out_alone(build_pipeline(document, host=Host(MemoryTarget)))  # type: ignore[arg-type]
    found = requests(pair).outcome(request.request_id)
    assert found is not None
    return found


def states(pair: Pair) -> dict[str, str]:
    progress = Progress()
    pair.run(progress=progress)
    return {t.table.table: t.state.value for t in progress.snapshot().tables}


def view(pair: Pair, name: str) -> dict[str, Any]:
    """The table in the status."""
    [path] = pair.shop.folder.glob("state/default/shop/*/state.json")
    [found] = [table for table in json.loads(path.read_text())["tables"] if table["table"].endswith(name)]
    return dict(found)


def passed_while_paused(pair: Pair, table: str, changes: int) -> None:
    """The table is paused at the end of the log, and the saved offset passes so many later changes."""
    pair.shop.trade(20)
    pair.run()
    alone(pair, "pause", table)
    pair.shop.trade(changes)
    pair.run()


def three_runs(pair: Pair) -> None:
    """Changes, and a column, between the runs that follow."""
    for _ in range(3):
        pair.run()
        pair.assert_equal()
        pair.shop.trade(15)
        pair.shop.grow()
    pair.run()
    pair.assert_equal()


def test_a_paused_table_stays_and_holds_no_offset_and_gets_everything_when_it_is_resumed(pair: Pair) -> None:
    pair.shop.trade(40)
    pair.run()
    before = pair.target.rows(CUSTOMERS)
    assert alone(pair, "pause", "customers").lines == ("public.customers is paused",)
    for _ in range(3):
        pair.shop.trade(20)
        pair.shop.grow()
        assert pair.run().offset == str(pair.shop.log.end())
        pair.assert_equal(but="customers")
        assert pair.target.rows(CUSTOMERS) == before
    assert states(pair) == {"customers": "PAUSED", "stock": "REPLICATING", "notes": "REPLICATING"}
    shown = view(pair, "customers")
    assert shown["pause"]["inLog"]
    assert shown["pause"]["laneRows"] >= 60
    assert "records (" in (text := " ".join(_about(shown)))
    assert "wait for it in the source's log" in text
    assert alone(pair, "resume", "customers").lines == ("public.customers will be resumed by the next run",)
    pair.run()
    pair.assert_equal()
    assert set(states(pair).values()) == {"REPLICATING"}
    three_runs(pair)


def test_a_table_is_paused_and_resumed_beside_a_run(pair: Pair) -> None:
    pair.shop.trade(20)
    pair.run()
    stop, progress = threading.Event(), Progress()
    thread = threading.Thread(target=lambda: pair.run(until_current=False, stop=stop, progress=progress))
    thread.start()

    def state() -> str:
        return next((t.state.value for t in progress.snapshot().tables if t.table == CUSTOMERS), "")

    try:
        ask(pair, "pause", "customers")
        _wait(lambda: state() == "PAUSED", 60)
        before = pair.target.rows(CUSTOMERS)
        for _ in range(3):
            pair.shop.trade(20)
        _wait(lambda: progress.snapshot().lag_seconds == 0.0, 60)
        assert pair.target.rows(CUSTOMERS) == before
        ask(pair, "resume", "customers")
        pair.shop.trade(20)
        _wait(lambda: state() == "REPLICATING", 60)
        pair.shop.trade(20)
    finally:
        stop.set()
        thread.join(60)
    three_runs(pair)


POINTS = (
    "engine.request.carried_out",
    "engine.late_table.left",
    "engine.late_table.applied",
    "engine.late_table.reached",
    "engine.late_table.joined",
    "engine.slice.planned",
    "engine.slice.applied",
    "engine.slice.schema_announced",
    "engine.slice.schema_applied",
    "engine.offset.before_save",
    "engine.offset.after_save",
    "state.put.after",
)


@pytest.mark.parametrize("seed", range(6))
def test_a_random_history_of_pauses_ends_and_changes_makes_the_target_equal(tmp_path: Path, seed: int) -> None:
    """A record is one change of a table without a key, so what is applied twice or left out is seen."""
    chance, pair = random.Random(seed), Pair(tmp_path, seed)
    pair.shop.trade(15)
    pair.run()
    for _ in range(9):
        for table in ("customers", "stock", "notes"):
            if chance.random() < 0.4:
                ask(pair, chance.choice(["pause", "resume"]), table)
        pair.shop.trade(chance.randrange(25))
        if chance.random() < 0.4:
            pair.shop.grow()
        pair.settings = {"retries": {"maxDurationSeconds": 0}}
        failpoint.arm(f"{chance.choice(POINTS)}=raise@{chance.randrange(1, 7)}")
        try:
            pair.run()
        except ReplicatorError:
            pass
        finally:
            failpoint.arm("")
            pair.settings = {}
    ask(pair, "resume", "customers", "stock", "notes")
    for table in ("customers", "stock", "notes"):
        ask(pair, "resume", table)
    three_runs(pair)
    MemoryStore.forget(pair.store)


def _refusing(monkeypatch: pytest.MonkeyPatch, table: str, error: type[Exception] = DataError) -> None:
    apply = MemoryConsumer.apply_batch

    def refuse(self: MemoryConsumer, changes: Any) -> None:
        if changes.table.table == table:
            if error is DataError:
                raise DataError("it does not fit", code="RPL-5001", table=str(changes.table))
            raise error
        apply(self, changes)

    monkeypatch.setattr(MemoryConsumer, "apply_batch", refuse)


@pytest.mark.parametrize("failing", ["customers", "notes"])
def test_a_table_that_fails_for_long_does_not_hold_the_offset_and_gets_everything_when_it_works(
    pair: Pair, failing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair.settings = {"failingTables": {"laneAfterMinutes": 1e-9}}
    pair.shop.trade(20)
    pair.run()
    with monkeypatch.context() as broken:
        _refusing(broken, failing)
        for number in range(3):
            pair.shop.trade(20)
            if number == 1:
                pair.shop.grow()
            with pytest.raises(DataError):
                pair.run()
            pair.assert_equal(but=failing)
        shown = view(pair, failing)
        assert (shown["pause"]["failed"], shown["pause"]["inLog"]) == (True, True)
        assert "the target is given them again" in " ".join(_about(shown))
        assert alone(pair, "retry", failing).state is OutcomeState.DONE
        assert alone(pair, "resume", failing).code == "RPL-1289"
        offset = ReplicatorDirectory(str(pair.shop.folder / "state"), "default", "shop").offsets().latest()
        assert offset is not None
        assert str(type(pair.shop.log.end()).from_fields(offset.fields)) == str(pair.shop.log.end())
    three_runs(pair)


def test_a_resumed_table_that_fails_holds_no_offset_and_goes_on_when_it_works(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    passed_while_paused(pair, "customers", 40)
    alone(pair, "resume", "customers")
    with monkeypatch.context() as broken:
        _refusing(broken, "customers")
        for _ in range(2):
            pair.shop.trade(20)
            with pytest.raises(DataError):
                pair.run()
            pair.assert_equal(but="customers")
    three_runs(pair)


def test_a_table_whose_changes_the_log_lost_while_it_was_paused_stops_for_good_and_alone(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    passed_while_paused(pair, "notes", 40)

    def lost(log: FolderLog, table: TableId, *rest: Any) -> None:
        raise TableHistoryLostError("retention deleted them", code="RPL-3985", table=str(table))

    monkeypatch.setattr(FolderLog, "plan_table", lost)
    for code in ("RPL-3985", "RPL-2005"):
        with pytest.raises(ReplicatorError) as found:
            pair.run()
        assert found.value.code == code
        pair.assert_equal(but="notes")
        pair.shop.trade(10)


def test_one_reader_does_not_go_on_where_a_table_is_left_in_the_log(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    passed_while_paused(pair, "notes", 10)
    with monkeypatch.context() as one_reader:
        one_reader.setattr(PartitionedSource, "create_distributed_log", lambda self, definition, context: None)
        with pytest.raises(NeedsUserError, match="RPL-4102"):
            pair.run()
        assert alone(pair, "pause", "customers").code == "RPL-1292"
    alone(pair, "resume", "notes")
    three_runs(pair)


def test_a_table_that_is_not_selected_while_it_is_paused_is_refused_when_it_is_selected_again(pair: Pair) -> None:
    """What came meanwhile is in the log, and was not read for it."""
    passed_while_paused(pair, "notes", 30)
    pair.settings = {"tables": [{"table": "customers"}, {"table": "stock"}]}
    pair.run()
    pair.settings = {}
    with pytest.raises(NeedsUserError, match="RPL-2005"):
        pair.run()
    pair.assert_equal(but="notes")


@pytest.mark.parametrize("command", ["pause", "retry", "resync"])
def test_what_does_not_fit_a_paused_table_is_refused(pair: Pair, command: str) -> None:
    pair.shop.trade(20)
    pair.run()
    assert alone(pair, "resume", "notes").code == "RPL-1291"
    alone(pair, "pause", "notes")
    pair.shop.trade(10)
    pair.run()
    codes = {"pause": "RPL-1290", "retry": "RPL-1221", "resync": "RPL-1222"}
    assert alone(pair, command, "notes").code == codes[command]
    assert alone(pair, "resume", "notes").state is OutcomeState.DONE
    three_runs(pair)


def test_a_table_that_is_paused_again_while_it_is_late_goes_on_from_where_it_was(pair: Pair) -> None:
    passed_while_paused(pair, "notes", 60)
    alone(pair, "resume", "notes")
    failpoint.arm("engine.late_table.applied=raise@2")
    pair.settings = {"retries": {"maxDurationSeconds": 0}}
    with pytest.raises(ReplicatorError):
        pair.run()
    failpoint.arm("")
    pair.settings = {}
    alone(pair, "pause", "notes")
    pair.shop.trade(20)
    pair.run()
    alone(pair, "resume", "notes")
    three_runs(pair)


def _left_in_the_middle(pair: Pair, monkeypatch: pytest.MonkeyPatch, table: str) -> Offset:
    """An attempt ends while a late table is read; returns how far it was."""
    alone(pair, "resume", table)
    planned: list[LogSlice | None] = []
    plan = FolderLog.plan_table

    def noted(log: FolderLog, late: TableId, start: Offset, limit_bytes: int, end: Offset) -> LogSlice | None:
        piece = plan(log, late, start, limit_bytes, end)
        planned.extend([piece] if limit_bytes < 1 << 40 else [])  # not what only looks
        return piece

    with monkeypatch.context() as noting:
        noting.setattr(FolderLog, "plan_table", noted)
        failpoint.arm("engine.late_table.applied=raise@3")
        pair.settings = {"retries": {"maxDurationSeconds": 0}}
        with pytest.raises(ReplicatorError):
            pair.run()
        failpoint.arm("")
        pair.settings = {}
    assert planned[2] is not None
    return planned[2].end


@pytest.mark.parametrize(("table", "then"), [("notes", "pause"), ("late", "pause"), ("late", "go on")])
def test_a_late_table_is_not_read_again_from_before_what_it_has(
    pair: Pair, monkeypatch: pytest.MonkeyPatch, table: str, then: str
) -> None:
    """The log may have deleted that meanwhile. Also where nothing in it was of the table."""
    pair.shop.open_late_table()
    passed_while_paused(pair, table, 60)
    has, plan = _left_in_the_middle(pair, monkeypatch, table), FolderLog.plan_table

    def shortened(log: FolderLog, late: TableId, start: Offset, *rest: Any) -> LogSlice | None:
        if start < has:
            raise TableHistoryLostError("retention deleted them", code="RPL-3985", table=str(late))
        return plan(log, late, start, *rest)

    monkeypatch.setattr(FolderLog, "plan_table", shortened)
    if then == "pause":
        alone(pair, "pause", table)
        pair.shop.trade(20)
        pair.run()
        alone(pair, "resume", table)
    three_runs(pair)


def test_a_late_table_that_was_not_selected_is_refused_also_after_the_offset_went_back(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An offset that is before it in one partition may be after it in another."""
    passed_while_paused(pair, "notes", 60)
    _left_in_the_middle(pair, monkeypatch, "notes")
    pair.settings = {"tables": [{"table": "customers"}, {"table": "stock"}]}
    pair.run()
    pair.settings = {}
    directory = ReplicatorDirectory(str(pair.shop.folder / "state"), "default", "shop")
    tables = TableStore(directory.states().scoped("runtime"), PartitionedOffset.from_fields)
    tables.load()
    monkeypatch.setattr(PartitionedOffset, "__lt__", lambda one, other: any(map(int.__lt__, one.read, other.read)))
    assert not tables.records[NOTES].goes_on_at(PartitionedOffset((0, *[1_000_000] * 3)))
    with pytest.raises(NeedsUserError, match="RPL-2005"):
        pair.run()


def test_a_log_that_deletes_what_was_committed_refuses_a_pause(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would not have a table's changes any more when the table is resumed."""
    pair.shop.trade(20)
    pair.run()
    alone(pair, "pause", "customers")
    monkeypatch.setattr(FolderLog, "reads_tables_alone", False)
    assert alone(pair, "pause", "notes").code == "RPL-1292"
    for _ in range(2):  # what was paused before holds the offset
        pair.shop.trade(20)
        pair.run()
        pair.assert_equal(but="customers")
    alone(pair, "resume", "customers")
    three_runs(pair)
