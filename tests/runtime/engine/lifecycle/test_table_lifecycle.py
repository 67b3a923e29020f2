"""Decisions on single tables: what each sets, stores and shows, and that an impossible one changes nothing."""

from __future__ import annotations

import math
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from replicator_runtime.config import build_pipeline
from replicator_runtime.engine.lifecycle.table_lifecycle import TableLifecycle
from replicator_runtime.engine.lifecycle.transitions import Cause
from replicator_runtime.engine.run_state.progress import Progress
from replicator_runtime.engine.run_state.retry_budget import RetryBudget
from replicator_runtime.engine.run_state.run import Run
from replicator_runtime.engine.tables.pause import Pause
from replicator_runtime.engine.tables.table_scope import TableScope
from replicator_runtime.engine.tables.table_state import TableState
from replicator_runtime.engine.tables.table_store import SnapshotRecord, TableStore
from replicator_runtime.observability.lineage import Lineage
from replicator_runtime.observability.metrics import MetricsRegistry
from replicator_sdk import Position, TableId
from replicator_sdk.errors import (
    BugError,
    DataError,
    FencedError,
    NeedsUserError,
    ReplicatorError,
    RetryableError,
    SchemaDriftError,
    TableHistoryLostError,
)
from replicator_state import ReplicatorDirectory
from tests.runtime.engine.log_model import Place, table
from tests.runtime.engine.test_run import Host, Shop

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from replicator_runtime.engine.tables.table_store import TableRecord

A, B = TableId("db", "a"), TableId("db", "b")


@pytest.fixture
def lifecycle(tmp_path: Path) -> Iterator[TableLifecycle]:
    """Two tables that replicate, in real stores."""
    pipeline = build_pipeline(Shop(tmp_path).document, host=Host())  # type: ignore[arg-type]
    directory = ReplicatorDirectory(str(tmp_path / "state"), "default", "shop")
    lease = directory.acquire("r")
    run = Run(
        pipeline=pipeline,
        run_id="r",
        generation=directory.generation,
        lease=lease,
        offsets=directory.offsets(lease),
        store=directory.states(lease).scoped("runtime"),
        requests=directory.requests(),
        lanes=directory.lanes(lease),
        letter_files=directory.dead_letters(lease),
        archive_stage=directory.archive_stage(lease),
        stop=threading.Event(),
        progress=Progress(),
        metrics=MetricsRegistry("lake"),
        lineage=Lineage(),
    )
    run.table_store = TableStore(run.store, Place.from_fields)
    found = TableLifecycle(run)
    for name in ("a", "b"):
        record = found.take_in(TableId("db", name))
        record.learn(None, table(name))
        record.snapshot = SnapshotRecord("s", (), Place(1), Place(1), done=True)
        found.join(record)
    yield found
    lease.release()


def stored(lifecycle: TableLifecycle) -> dict[TableId, TableRecord]:
    again = TableStore(lifecycle.run.store, Place.from_fields)
    again.load()
    return again.records


def shown(lifecycle: TableLifecycle) -> dict[TableId, TableState]:
    return {view.table: view.state for view in lifecycle.run.progress.snapshot().tables}


def test_a_copy_that_never_began_cannot_end(lifecycle: TableLifecycle) -> None:
    record = lifecycle.records[A]
    lifecycle.copy_again(record)
    record.snapshot = SnapshotRecord("s", (), Place(1), Place(1))
    with pytest.raises(BugError, match=r"RPL-9014.*db\.a"):
        lifecycle.end_copy(record)
    assert record.state is TableState.PENDING
    assert not record.snapshot.done


def test_a_copied_table_is_stored_as_copied(lifecycle: TableLifecycle) -> None:
    record = lifecycle.records[A]
    lifecycle.copy_again(record)
    assert stored(lifecycle)[A].needs_snapshot
    lifecycle.begin_copy(record)
    assert shown(lifecycle)[A] is TableState.SNAPSHOTTING
    record.snapshot = SnapshotRecord("t", (), Place(2), Place(2))
    lifecycle.end_copy(record)
    assert not stored(lifecycle)[A].needs_snapshot
    assert stored(lifecycle)[A].state is TableState.REPLICATING


def test_a_failure_that_may_pass_is_tried_again_and_holds_the_offset(
    lifecycle: TableLifecycle, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RetryBudget, "next_delay", lambda _: 600.0)
    record = lifecycle.records[A]
    assert lifecycle.fail(record, RetryableError("away", code="RPL-4999"))
    assert lifecycle.is_waiting(record)
    assert lifecycle.next_retry({B}) < math.inf
    assert lifecycle.holds_offset({B})
    lifecycle.join(record)
    assert not lifecycle.is_waiting(record)
    assert not lifecycle.holds_offset({A, B})


def test_a_failure_that_stays_stops_the_table_until_the_next_start(lifecycle: TableLifecycle) -> None:
    record = lifecycle.records[A]
    assert not lifecycle.fail(record, DataError("too long", code="RPL-5001", table="db.a"))
    assert list(lifecycle.stopped) == [A]
    assert lifecycle.next_retry({B}) == math.inf
    kept = stored(lifecycle)[A]
    assert kept.state is TableState.FAILING
    assert kept.error is not None
    assert kept.error["code"] == "RPL-5001"


@pytest.mark.parametrize("kind", [DataError, SchemaDriftError])
def test_rows_or_columns_that_fail_without_a_name_stop_the_table_alone(
    lifecycle: TableLifecycle, kind: type[ReplicatorError]
) -> None:
    error = kind("a value that no one can read", code="ACME-1")
    assert not lifecycle.fail(lifecycle.records[A], error)
    assert error.table == "db.a"
    assert shown(lifecycle) == {A: TableState.FAILING, B: TableState.REPLICATING}


def test_what_a_user_must_do_without_a_table_stops_the_run(lifecycle: TableLifecycle) -> None:
    with pytest.raises(NeedsUserError):
        lifecycle.fail(lifecycle.records[A], NeedsUserError("the password is wrong", code="ACME-2"))


def test_the_last_table_that_works_does_not_stop_alone(lifecycle: TableLifecycle) -> None:
    lifecycle.fail(lifecycle.records[A], DataError("too long", code="RPL-5001", table="db.a"))
    with pytest.raises(DataError, match="RPL-5002"):
        lifecycle.fail(lifecycle.records[B], DataError("too long", code="RPL-5002", table="db.b"))
    assert lifecycle.records[B].state is TableState.REPLICATING


@pytest.mark.parametrize("keeps", [False, True])
def test_where_errors_of_tables_end_the_run_only_a_table_that_is_copied_again_goes_past_its_place(
    lifecycle: TableLifecycle, keeps: bool
) -> None:
    """One that keeps rows which the source has deleted is not: it would fail there for good, beside tables that go on."""
    config = lifecycle.run.config
    lifecycle.run.pipeline = replace(
        lifecycle.run.pipeline, config=config.model_copy(update={"on_table_error": "stop"})
    )
    record = lifecycle.records[A]
    record.scope = TableScope(None, frozenset({"DELETE"} if keeps else ()))
    error = SchemaDriftError("it cannot be read", code="RPL-3750", table="db.a")
    if keeps:
        with pytest.raises(SchemaDriftError, match="RPL-3750"):
            lifecycle.fail(record, error, read_to=Place(0))
        assert not lifecycle.stopped
    else:
        assert not lifecycle.fail(record, error, read_to=Place(0))
        assert stored(lifecycle)[A].released
    with pytest.raises(DataError, match="RPL-5001"):
        lifecycle.fail(lifecycle.records[B], DataError("too long", code="RPL-5001", table="db.b"), read_to=Place(2))


def test_a_newer_run_stops_no_table_but_the_run(lifecycle: TableLifecycle) -> None:
    with pytest.raises(FencedError):
        lifecycle.fail(lifecycle.records[A], FencedError("newer", code="RPL-8001", table="db.a"))
    assert shown(lifecycle) == {A: TableState.REPLICATING, B: TableState.REPLICATING}


def test_a_table_whose_log_misses_changes_stops_and_holds_no_offset(lifecycle: TableLifecycle) -> None:
    lifecycle.stop(lifecycle.records[A], TableHistoryLostError("it left", code="RPL-3", table="db.a"))
    assert stored(lifecycle)[A].snapshot is None
    assert shown(lifecycle)[A] is TableState.FAILING
    assert not lifecycle.holds_offset({B})


def test_a_forgotten_table_is_neither_stored_nor_shown(lifecycle: TableLifecycle) -> None:
    lifecycle.forget(A)
    assert list(stored(lifecycle)) == [B]
    assert list(shown(lifecycle)) == [B]


def test_an_attempt_shows_where_each_table_is(lifecycle: TableLifecycle) -> None:
    lifecycle.copy_again(lifecycle.records[A])
    lifecycle.stop(lifecycle.records[B], DataError("too long", code="RPL-5001", table="db.b"))
    lifecycle.load()
    lifecycle.begin_attempt(lifecycle.records.values())
    assert shown(lifecycle) == {A: TableState.PENDING, B: TableState.FAILING}


@pytest.mark.parametrize(
    "error", [RetryableError("no space", code="RPL-7104"), DataError("unreadable", code="RPL-5001")]
)
def test_a_table_whose_lane_takes_nothing_holds_the_log_from_then_on_however_long_it_has_failed(
    lifecycle: TableLifecycle, error: ReplicatorError
) -> None:
    lifecycle.takes_snapshots = True
    record, hours = lifecycle.records[A], 3600.0 * lifecycle.run.config.failing_tables.hold_log_hours
    record.failing_since, record.pause = (
        time.time() - 2 * hours,
        Pause("lane", "", time.time(), Position(Place(1)), failed=True),
    )
    lifecycle.show_waiting(record, Cause.JOIN)
    lifecycle.fail(record, error)
    lifecycle.release_failing(())
    held = stored(lifecycle)[A].pause
    assert held is not None
    assert held.holds_since is not None
    assert not record.needs_snapshot

    lifecycle.show_waiting(record, Cause.JOIN)
    lifecycle.run.saved_offset = Place(5)
    lifecycle.release_failing((A,))
    assert record.pause is not None
    assert record.pause.holds_since is not None, "it may meet its error again in the next change"
    lifecycle.run.saved_offset = Place(6)
    lifecycle.release_failing((A,))
    held = stored(lifecycle)[A].pause
    assert held is not None
    assert held.holds_since is None
    assert record.failing_since is not None

    lifecycle.fail(record, error)
    record.pause.holds_since = time.time() - hours
    lifecycle.release_failing(())
    assert stored(lifecycle)[A].needs_snapshot
    assert stored(lifecycle)[A].pause is None
