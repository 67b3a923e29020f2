"""A run measures its tables by the pipeline's objective; what fails of that fails no run."""

from __future__ import annotations

import json
import threading
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from replicator_runtime.config import build_pipeline
from replicator_runtime.engine.run_state.progress import Progress
from replicator_runtime.engine.run_state.run import Run
from replicator_runtime.engine.run_state.spark_handle import SparkHandle
from replicator_runtime.engine.schedule import freshness
from replicator_runtime.engine.tables.table_state import TableState
from replicator_runtime.freshness.history import load, save
from replicator_runtime.freshness.measurement import Measurement
from replicator_runtime.freshness.objective import Objectives
from replicator_runtime.observed.objectives import stored_figures
from replicator_runtime.stored_forms import FRESHNESS, FRESHNESS_DAYS, TOTALS
from replicator_sdk import TableId
from replicator_sdk.errors import NeedsUserError
from replicator_state import ReplicatorDirectory, StateStore
from tests.runtime.engine import in_memory_target
from tests.runtime.engine.test_run import Host, Shop, fill

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

CUSTOMERS, NOTES = TableId("main", "customers"), TableId("main", "notes")


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    in_memory_target.STORAGE = in_memory_target.TargetStorage()
    made = Shop(tmp_path)
    made.document["slo"] = {"minutes": 5}
    fill(made)
    return made


def stored(shop: Shop) -> StateStore:
    return ReplicatorDirectory(str(shop.path.parent / "state"), "default", "shop").states().scoped("runtime")


def test_a_bounded_run_counts_its_end_and_the_time_since_the_run_before(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.run()
    assert set(load(stored(shop)).tables) == {CUSTOMERS, NOTES}
    clock = time.time
    monkeypatch.setattr(time, "time", lambda: clock() + 3600)
    shop.run()
    history = load(stored(shop))
    for one in (history.whole, history.tables[CUSTOMERS], history.tables[NOTES]):
        assert one is not None
        counts = one.days.values()
        assert 50 <= sum(broken for _, broken in counts) <= 56, "of an hour without a run, five minutes were fresh"


def test_the_ratio_can_be_read_from_the_run_and_a_dropped_table_is_measured_no_more(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(freshness, "_MINUTE", 0.05)
    runs: list[Run] = []
    made = Run.__post_init__

    def kept(run: Run, spark_begun: SparkHandle | None) -> None:
        made(run, spark_begun)
        runs.append(run)

    monkeypatch.setattr(Run, "__post_init__", kept)
    stop, ended = threading.Event(), threading.Event()

    def ratios() -> dict[TableId | None, float]:
        return (
            {one.table: one.ratio for one in runs[0].freshness.figures}
            if runs and runs[0].freshness is not None
            else {}
        )

    def work() -> None:
        shop.run(until_current=False, stop=stop)
        ended.set()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        wait_for(lambda: ratios() == {None: 1.0, CUSTOMERS: 1.0, NOTES: 1.0})
        shop.sql("DROP TABLE notes")
        wait_for(lambda: ratios() == {None: 1.0, CUSTOMERS: 1.0})
    finally:
        stop.set()
        thread.join(60)
    assert ended.is_set()


def wait_for(is_so: Any, seconds: float = 60.0) -> None:
    until = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < until
        time.sleep(0.02)


def test_a_store_that_refuses_fails_no_run(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    refused: list[int] = []

    def refuse(*_: object, **__: object) -> None:
        refused.append(1)
        raise NeedsUserError("full", code="RPL-7103", hint="free some space")

    monkeypatch.setattr(Measurement, "_save", refuse)
    assert shop.run().reached_goal
    assert refused
    shop.assert_equal()


def test_without_an_objective_nothing_is_written_and_what_was_counted_is_forgotten(shop: Shop) -> None:
    del shop.document["slo"]
    shop.run()
    assert stored(shop).get(FRESHNESS) is None
    shop.document["slo"] = {}
    shop.run()
    assert load(stored(shop)).until is not None
    del shop.document["slo"]
    shop.run()
    assert load(stored(shop)).until is None


def write(shop: Shop, key: str, content: Mapping[str, Any]) -> None:
    directory = ReplicatorDirectory(str(shop.path.parent / "state"), "default", "shop")
    lease = directory.acquire("writes")
    directory.states(lease).scoped("runtime").put(key, json.dumps({"version": 1, "release": "1", **content}).encode())
    lease.release()


@pytest.mark.parametrize("what", ["files", "form"])
def test_damaged_counts_are_set_aside_and_the_days_before_go_on(
    shop: Shop, what: str, caplog: pytest.LogCaptureFixture
) -> None:
    shop.run()
    day = int(time.time() // 86_400) - 3
    write(shop, FRESHNESS_DAYS, {"whole": [[day, 700, 40]], "tables": [[["main", "notes", ""], [[day, 700, 40]]]]})
    if what == "form":
        write(shop, FRESHNESS, {"until": 5})
    for file in shop.path.parent.glob(f"state/**/state-runtime%2E{FRESHNESS}.*") if what == "files" else ():
        file.write_bytes(b"junk")
    assert [one.broken for one in stored_figures(stored(shop))] == [40, 40], (
        "a command changes nothing, and fails for nothing"
    )
    for codes in (["RPL-7124"], []):
        caplog.clear()
        shop.run()
        assert [code for record in caplog.records if (code := record.__dict__.get("code"))] == codes
    history = load(stored(shop))
    assert history.until is not None
    assert set(history.tables) == {CUSTOMERS, NOTES}
    assert history.tables[NOTES].days[day] == (700, 40)
    assert len(history.tables[NOTES].days) >= 2, "the present day counts again"
    assert list(shop.path.parent.glob(f"state/**/damaged-state-runtime%2E{FRESHNESS}"))


def test_a_run_goes_on_without_what_it_has_counted_where_that_is_damaged(shop: Shop) -> None:
    shop.run()
    for file in shop.path.parent.glob(f"state/**/state-runtime%2E{TOTALS}.*"):
        file.write_bytes(b"junk")
    shop.sql("INSERT INTO customers VALUES (900, 'x')")
    assert shop.run().reached_goal
    shop.assert_equal()
    assert stored(shop).get(TOTALS), "it is written again"


def test_a_renamed_table_keeps_its_minutes(shop: Shop) -> None:
    shop.run()
    directory = ReplicatorDirectory(str(shop.path.parent / "state"), "default", "shop")
    lease = directory.acquire("counts")
    store = directory.states(lease).scoped("runtime")
    history = load(store)
    [day] = history.tables[NOTES].days
    history.tables[NOTES].days[day] = (500, 7)
    save(history, store, with_days=False)
    lease.release()
    shop.sql("ALTER TABLE notes RENAME TO remarks")
    shop.run()
    tables = load(stored(shop)).tables
    assert NOTES not in tables
    renamed = tables[TableId("main", "remarks")].days.values()
    assert sum(fresh for fresh, _ in renamed) >= 500
    assert sum(broken for _, broken in renamed) == 7


def test_each_state_of_a_table_is_measured_as_it_is() -> None:
    """What the thread reads of the progress, once."""
    seen: list[Any] = []

    class Kept:
        def measure(self, now: float, lags: Any, *, is_whole: bool) -> None:
            seen.append((lags, is_whole))

    progress = Progress()
    run: Any = type("R", (), {"progress": progress})()
    work = freshness._Work(run, Kept())  # type: ignore[arg-type]
    assert work.measure()
    progress.set_table(CUSTOMERS, TableState.REPLICATING)
    progress.set_table(NOTES, TableState.SNAPSHOTTING)
    progress.read(True, -1)
    progress.set_phase("streaming")
    assert work.measure()
    assert seen == [({}, False), ({CUSTOMERS: (True, 0.0), NOTES: (False, None)}, True)]


def test_a_renamed_table_keeps_its_minutes_although_its_counts_cannot_be_stored(tmp_path: Path) -> None:
    lease_of = ReplicatorDirectory(str(tmp_path), "default", "shop")
    lease = lease_of.acquire("run1")
    try:
        made = Shop(tmp_path)
        made.document["slo"] = {}
        pipeline = build_pipeline(made.document, host=Host())  # type: ignore[arg-type]
        measurement = Measurement(
            Objectives(pipeline.config, pipeline.selection), lease_of.states(lease).scoped("runtime")
        )
        measurement.measure(time.time(), {CUSTOMERS: (True, 0.0)}, is_whole=True)

        def full(_: object) -> None:
            raise NeedsUserError("the store is full", code="RPL-7103", hint="free space")

        run: Any = SimpleNamespace(progress=Progress(), totals=SimpleNamespace(rename=full), freshness=measurement)
        with pytest.raises(NeedsUserError):
            Run.rename_tables(run, {CUSTOMERS: NOTES})
        measurement.measure(time.time() + 60, {NOTES: (True, 0.0)}, is_whole=True)
    finally:
        lease.release()
    assert [(one.table, one.fresh) for one in measurement.figures] == [(None, 2), (NOTES, 2)]
