"""The values of a run's metrics at one moment."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Container, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from replicator_runtime.engine.tables.table_state import TableState
from replicator_runtime.engine.views.phases import PHASES
from replicator_runtime.exposition.catalogue import OTHER
from replicator_runtime.observability.metrics import FAILURES, SNAPSHOT_ROWS
from replicator_sdk.authoring.stored_form import release

if TYPE_CHECKING:
    from replicator_runtime.engine.run_state.progress import RunView, TableView
    from replicator_runtime.engine.run_state.run import Run
    from replicator_runtime.engine.views.source_view import SourceView
    from replicator_runtime.observability.metrics import Values
    from replicator_sdk import TableId

_OPERATIONS: Final = {"dml.insert": "insert", "dml.update": "update", "dml.delete": "delete"}


class Sample(NamedTuple):
    """One value.

    Attributes:
        metric: Its name in the catalogue.
        table: Of which table; `OTHER` where it is of those that are replicated no more, None where it is not of one.
        labels: The labels after `table`.
        value: A summary has its count in `times`.
        times: Of a summary.
    """

    metric: str
    table: TableId | str | None
    labels: tuple[str, ...]
    value: float
    times: int = 0


def samples(view: RunView, run: Run | None) -> Iterator[Sample]:
    """All values, in no order; those of the counters only once the run has begun."""
    yield Sample("replicator_build_info", None, (release(),), 1)
    yield Sample("replicator_shown_timestamp_seconds", None, (), time.time())
    for phase in PHASES:
        yield Sample("replicator_phase", None, (phase,), phase == view.phase)
    yield Sample("replicator_failing", None, (), view.is_failing)
    yield Sample("replicator_waiting_bytes", None, (), view.waiting_bytes)
    if view.lag_seconds is not None:
        yield Sample("replicator_lag_seconds", None, (), view.lag_seconds)
    if view.read_lag_seconds is not None:
        yield Sample("replicator_read_lag_seconds", None, (), view.read_lag_seconds)
    if view.source is not None:
        yield from _of_source(view.source)
    for table in view.tables:
        yield from _of_table(table)
    if run is not None:
        yield Sample("replicator_sequence_number", None, (), run.saved_sequence)
        values = run.metrics.values()
        yield from _counted(values)
        yield from _stored(values, {table.table for table in view.tables})
        if (spark := run.spark.usage) is not None:
            yield Sample("replicator_spark_executors", None, (), spark.executors)
            yield Sample("replicator_spark_cores", None, (), spark.cores)
            yield Sample("replicator_spark_running_tasks", None, (), spark.running_tasks)
        for figures in () if run.freshness is None else run.freshness.figures:
            yield Sample("replicator_slo_ratio", figures.table, (), figures.ratio)
            yield Sample("replicator_slo_budget_minutes", figures.table, (), figures.budget_left)


def _of_table(view: TableView) -> Iterator[Sample]:
    table = view.table
    for state in TableState:
        yield Sample("replicator_table_state", table, (state.value,), state is view.state)
    if view.lag_seconds is not None:
        yield Sample("replicator_table_lag_seconds", table, (), view.lag_seconds)
    if view.snapshot_percent is not None:
        yield Sample("replicator_snapshot_progress_ratio", table, (), view.snapshot_percent / 100)
    if view.pause is not None:
        yield Sample("replicator_lane_changes", table, (), view.pause.lane_rows)
        yield Sample("replicator_lane_bytes", table, (), view.pause.lane_bytes)


def _of_source(source: SourceView) -> Iterator[Sample]:
    health = source.health
    known = {
        "silent_seconds": max(0.0, time.time() - source.answered_at),
        "clock_ahead_seconds": source.clock_ahead,
        "waiting_bytes": health.waiting_bytes,
        "waiting_changes": health.waiting_changes,
        "held_bytes": health.held_bytes,
        "held_limit_bytes": health.held_limit_bytes,
        "retention_seconds": health.retention_seconds,
        "seconds_left": source.left_now,
        "late_seconds": health.late_seconds,
    }
    for name, value in known.items():
        if value is not None:
            yield Sample(f"replicator_source_{name}", None, (), value)


def _stored(values: Values, tables: Container[TableId]) -> Iterator[Sample]:
    """What the target stores of the tables that are replicated; of others it may have been asked once."""
    for table, storage in values.storage.items():
        known = {
            "files": storage.files,
            "bytes": storage.nbytes,
            "rows": storage.rows,
            "deleted_rows": storage.deleted_rows,
        }
        for name, value in known.items():
            if value is not None and table in tables:
                yield Sample(f"replicator_target_{name}", table, (), value)


def _counted(values: Values) -> Iterator[Sample]:
    counters = _by_table(values)
    copied = {table: rows for (name, table), rows in counters.items() if name == SNAPSHOT_ROWS}
    for (name, table), count in counters.items():
        if name == "dml.insert":
            yield Sample("replicator_changes_total", table, ("insert",), count - copied.get(table, 0))
        else:
            metric, labels = _counter(name)
            yield Sample(metric, table, labels, count)
    for (name, table), value in values.gauges.items():
        yield Sample("replicator_reported", table, (name,), value)
    for step, (times, seconds) in values.timings.items():
        yield Sample("replicator_batch_seconds", None, (step,), seconds, times)


def _by_table(values: Values) -> dict[tuple[str, TableId | str | None], int]:
    """The counters of tables, of all those together that are gone, and of no table what those of the whole count besides."""
    shown: dict[tuple[str, TableId | str | None], int] = {(name, OTHER): n for name, n in values.gone.items()}
    shown |= {(name, table): count for (name, table), count in values.counters.items() if table is not None}
    of_tables: defaultdict[str, int] = defaultdict(int)
    for (name, _), count in shown.items():
        of_tables[name] += count
    rest = ((name, count - of_tables[name]) for (name, table), count in values.counters.items() if table is None)
    return shown | {(name, None): count for name, count in rest if count}


def _counter(name: str) -> tuple[str, tuple[str, ...]]:
    """The metric that shows a counter, and its labels."""
    if name in _OPERATIONS:
        return "replicator_changes_total", (_OPERATIONS[name],)
    if name.startswith(FAILURES):
        return "replicator_failures_total", (name.removeprefix(FAILURES),)
    known = {
        "ddl": "replicator_ddl_total",
        "retries": "replicator_retries_total",
        SNAPSHOT_ROWS: "replicator_snapshot_rows_total",
    }
    return (known[name], ()) if name in known else ("replicator_reported_total", (name,))
