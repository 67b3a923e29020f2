"""What a run shows becomes the conditions that people are notified of."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
from pydantic import SecretStr

from replicator_runtime.config.sections.destinations import destinations
from replicator_runtime.config.sections.notifications import NotificationConfig
from replicator_runtime.engine.run_state.progress import SILENT_SECONDS, Progress
from replicator_runtime.engine.schedule.run_conditions import RunConditions
from replicator_runtime.engine.schedule.verified_tables import VerifiedTable, VerifiedTables
from replicator_runtime.engine.tables.table_state import TableState
from replicator_runtime.engine.views.source_view import SourceView
from replicator_runtime.freshness.objective import Objective
from replicator_runtime.notices.conditions import Key
from replicator_runtime.observability.metrics import MetricsRegistry
from replicator_sdk import TableId
from replicator_sdk.discovery.source_health import SourceHealth
from replicator_sdk.errors import DataError, FencedError, RetryableError
from replicator_state import ReplicatorDirectory

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from replicator_runtime.engine.run_state.run import Run

ORDERS, ITEMS = TableId("shop", "orders", "public"), TableId("shop", "items", "public")


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Any]:
    directory = ReplicatorDirectory(str(tmp_path), "default", "shop")
    lease = directory.acquire("run1")
    store = directory.states(lease).scoped("runtime")
    yield SimpleNamespace(progress=Progress(), metrics=MetricsRegistry("lake"), store=store, freshness=None)
    lease.release()


def _found(run: Any, error: BaseException | None = None, **settings: Any) -> dict[Key, str]:
    notified, _ = destinations([NotificationConfig(url=SecretStr("json://127.0.0.1/x"), **settings)])
    return dict(RunConditions(cast("Run", run), notified).found(run.progress.snapshot(), error))


def test_tables_that_fail_or_wait_for_a_decision(run: Any) -> None:
    run.progress.set_phase("streaming")
    run.progress.set_table(ORDERS, TableState.FAILING, DataError("no disk", code="RPL-4410", hint="free it"))
    run.progress.set_table(ITEMS, TableState.PAUSED)
    run.progress.set_pause(ITEMS, time.time(), resuming=False, copied_again=False, asks="drops the column note")
    assert _found(run) == {
        Key("table_failing", str(ORDERS)): "RPL-4410: no disk. Next: free it",
        Key("schema_change_waiting", str(ITEMS)): "drops the column note",
    }


def test_a_run_that_fails_or_has_ended(run: Any) -> None:
    fault = RetryableError("the server is away", code="RPL-3201", hint="start it")
    run.progress.source_error = fault
    run.progress.set_phase("retrying")
    assert _found(run) == {Key("run_failing"): "RPL-3201: the server is away. Next: start it"}
    assert _found(run, fault) == {Key("run_failed"): "RPL-3201: the server is away. Next: start it"}
    assert _found(run, FencedError("taken over", code="RPL-7131", hint="")) == {}, "another run goes on"


def test_source_log_that_the_source_says_it_keeps(run: Any) -> None:
    run.progress.set_phase("streaming")
    run.progress.answered(SourceView(time.time(), SourceHealth(held_bytes=3 << 30)))
    [(key, said)] = _found(run, held_bytes=1 << 30).items()
    assert (key.kind, said) == ("source_log_held", "3.0 GiB")


def test_source_log_that_is_given_up_soon_or_waits_where_it_is_kept_for_all_readers(run: Any) -> None:
    run.progress.set_phase("streaming")
    health = SourceHealth(
        waiting_bytes=3 << 30, retention_seconds=86_400.0, limited_by="retention.ms of the topic shop.orders"
    )
    run.progress.answered(SourceView(time.time() + 60, health, seconds_left=7200.0))
    [(key, said)] = _found(run).items()
    assert (key.kind, said) == (
        "source_log_held",
        "3.0 GiB, given up in 120 minutes (retention.ms of the topic shop.orders)",
    )
    assert _found(run, left_minutes=60) == {}
    assert _found(run, left_minutes=0, held_bytes=1 << 30) != {}
    run.progress.answered(SourceView(time.time() + 60, health, seconds_left=80_000.0))
    assert _found(run, left_minutes=10_000) == {}, "nothing is near: half of the retention is not over"
    run.progress.answered(
        SourceView(time.time(), SourceHealth(limited_by="the topic a is not there any more"), seconds_left=0.0)
    )
    [said] = _found(run).values()
    assert said == "some of it is given up (the topic a is not there any more)"


def test_source_log_that_is_held_beyond_the_limits_of_an_entry(run: Any) -> None:
    run.progress.set_phase("streaming")
    run.metrics.gauge("source.held_wal_bytes", 3 << 30)
    assert _found(run) == {}
    [(key, said)] = _found(run, held_bytes=1 << 30).items()
    assert (key.kind, said) == ("source_log_held", "3.0 GiB")
    run.progress.read(caught_up=False, source_timestamp=int((time.time() - 600) * 1e6))
    [(key, said)] = _found(run, held_minutes=5).items()
    assert said == "3.0 GiB, for 10 minutes"
    assert _found(run) == {}


def test_differences_that_a_comparison_found_and_objectives_that_are_broken(run: Any) -> None:
    run.progress.set_phase("streaming")
    verified = VerifiedTables(run.store)
    verified.note(ORDERS, VerifiedTable("copy", at=1.0, result="different", missing=2, different=1))
    verified.note(ITEMS, VerifiedTable("copy", at=1.0, result="equal"))
    verified.save()
    objective = Objective(99.0, 5.0, 30)
    broken = SimpleNamespace(table=ORDERS, objective=objective, ratio=0.97, is_met=False)
    met = SimpleNamespace(table=None, objective=objective, ratio=1.0, is_met=True)
    run.freshness = SimpleNamespace(figures=(met, broken))
    assert _found(run) == {
        Key("verify_differences", str(ORDERS)): "2 rows missing, 0 surplus, 1 different",
        Key("objective_broken", str(ORDERS)): "97.000% instead of 99 % of 30 days within 5 minutes",
    }


def test_nothing_is_known_of_comparisons_and_objectives_before_the_first_look(run: Any) -> None:
    run.freshness = SimpleNamespace(figures=())
    conditions = RunConditions(cast("Run", run), ())
    assert conditions.unknown == {"verify_differences", "objective_broken"}
    run.progress.set_phase("streaming")
    conditions.found(run.progress.snapshot(), None)
    assert conditions.unknown == {"objective_broken"}


@pytest.mark.parametrize(
    ("states", "copying"), [((), None), (("PENDING", "REPLICATING"), True), (("FAILING", "REPLICATING"), False)]
)
def test_tables_that_are_not_copied_yet(run: Any, states: tuple[str, ...], copying: bool | None) -> None:
    for table, state in zip((ORDERS, ITEMS), states, strict=False):
        run.progress.set_table(table, TableState[state])
    assert RunConditions.is_copying(run.progress.snapshot()) is None, "the run starts"
    run.progress.set_phase("streaming")
    assert RunConditions.is_copying(run.progress.snapshot()) is copying


def test_a_source_that_is_frozen_and_raises_nothing_fails_the_run(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    run.progress.set_phase("streaming")
    run.progress.answered(SourceView(time.time(), SourceHealth()))
    assert _found(run) == {}
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + SILENT_SECONDS + 1)
    assert _found(run) == {Key("run_failing"): "the source has neither answered nor sent anything for 12 seconds"}
    assert RunConditions(run, []).sure(run.progress.snapshot()) == {Key("run_failing")}
    run.progress.heard()
    assert _found(run) == {}
