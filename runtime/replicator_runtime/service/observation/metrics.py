"""Metrics of the service and of its pipelines, as text for Prometheus.

Those of pipelines have the names and meanings that runs show themselves (`docs/metrics.md`), by what each run wrote last; tables are
counted together, as `__other__`, so the answer does not grow with them.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from replicator_runtime.engine.views.phases import PHASES
from replicator_runtime.exposition.catalogue import METRICS, OTHER
from replicator_runtime.service.observation.stored import pipeline_rows

if TYPE_CHECKING:
    from collections.abc import Mapping

    from replicator_runtime.service.context import ServiceContext
    from replicator_runtime.service.observation.state_reader import Seen

_OWN: Final[Mapping[str, str]] = {
    "replicator_service_pipelines": "Pipelines that the service has, by what is wanted of them.",
    "replicator_service_jobs": "Jobs that wait or run.",
    "replicator_service_event_streams": "Event streams that are open.",
    "replicator_service_state_readable": "1 for a pipeline whose state could be read, else 0.",
    "replicator_service_requests_waiting": "Requests to a pipeline without an outcome.",
}
_SOURCE: Final[Mapping[str, str]] = {
    "clockAheadSeconds": "clock_ahead_seconds",
    "waitingBytes": "waiting_bytes",
    "waitingChanges": "waiting_changes",
    "heldBytes": "held_bytes",
    "heldLimitBytes": "held_limit_bytes",
    "retentionSeconds": "retention_seconds",
    "secondsLeft": "seconds_left",
    "lateSeconds": "late_seconds",
}


class _Value(NamedTuple):
    """One line.

    Attributes:
        metric: Its name.
        labels: By name.
        value: The value.
    """

    metric: str
    labels: dict[str, str]
    value: float


def metrics_text(context: ServiceContext) -> str:
    """All metrics now."""
    by_name: dict[str, list[_Value]] = {}
    for value in _values(context):
        by_name.setdefault(value.metric, []).append(value)
    meanings = {**_OWN, **{metric.name: metric.meaning for metric in METRICS}}
    lines: list[str] = []
    for name, values in by_name.items():
        lines += [f"# HELP {name} {meanings[name]}", f"# TYPE {name} gauge"]
        lines += [f"{name}{_labels(one.labels)} {float(one.value)!r}" for one in values]
    return "\n".join(lines) + "\n"


def _values(context: ServiceContext) -> Iterator[_Value]:
    rows = pipeline_rows(context.database)
    wanted: dict[tuple[str, str], int] = {}
    for row in rows:
        key = (row.namespace, row.wanted)
        wanted[key] = wanted.get(key, 0) + 1
    for (namespace, state), count in sorted(wanted.items()):
        yield _Value("replicator_service_pipelines", {"namespace": namespace, "wanted": state}, count)
    for state, count in context.jobs.counts.items():
        yield _Value("replicator_service_jobs", {"state": state}, count)
    yield _Value("replicator_service_event_streams", {}, context.streams.count)
    context.observation.look_at(rows)
    for row in rows:
        label = row.name if row.namespace == "default" else f"{row.namespace}/{row.name}"
        yield from _of_pipeline(label, context.observation.look(row))


def _of_pipeline(pipeline: str, seen: Seen) -> Iterator[_Value]:
    own = {"pipeline": pipeline}
    yield _Value("replicator_service_state_readable", own, seen.error is None)
    yield _Value("replicator_service_requests_waiting", own, len(seen.waiting))
    if seen.status is None:
        return
    status: Mapping[str, Any] = seen.status
    written = datetime.fromisoformat(str(status["updated"])).timestamp()
    yield from _known("replicator_shown_timestamp_seconds", own, written)
    for phase in PHASES:
        yield _Value("replicator_phase", {**own, "phase": phase}, phase == seen.phase)
    yield _Value("replicator_failing", own, status.get("sourceState") == "FAILING")
    yield from _known("replicator_lag_seconds", own, status.get("lagSeconds"))
    yield from _known("replicator_read_lag_seconds", own, status.get("readLagSeconds"))
    yield from _known("replicator_sequence_number", own, status.get("sequenceNumber"))
    for key, name in _SOURCE.items():
        yield from _known(f"replicator_source_{name}", own, (status.get("source") or {}).get(key))
    for state, count in seen.tables.items():
        yield _Value("replicator_table_state", {**own, "table": OTHER, "state": state}, count)
    if slo := seen.beside.slo:
        yield _Value("replicator_slo_ratio", {**own, "table": ""}, slo["ratio"])
        yield _Value("replicator_slo_budget_minutes", {**own, "table": ""}, slo["budgetMinutesLeft"])


def _known(metric: str, labels: dict[str, str], value: float | None) -> Iterator[_Value]:
    if value is not None:
        yield _Value(metric, labels, value)


def _labels(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items()) + "}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
