"""The dashboard of Grafana, as JSON that its page "Import dashboard" takes.

It asks which Prometheus to read and which pipelines to show; every panel shows metrics of docs/metrics.md.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

_WIDTH, _HEIGHT = 24, 8
_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
_OF = '{pipeline=~"$pipeline"}'


@dataclass(frozen=True, slots=True)
class Panel:
    """One chart.

    Attributes:
        title: Its title.
        expression: PromQL; `{}` is replaced by the chosen pipelines.
        legend: The name of each series, a template of Grafana.
        unit: Of the values, by Grafana's names.
        kind: Grafana's panel.
        description: What a reader should know of it; empty for what the title says.
    """

    title: str
    expression: str
    legend: str
    unit: str = "short"
    kind: str = "timeseries"
    description: str = ""


ROWS: tuple[tuple[str, tuple[Panel, ...]], ...] = (
    (
        "Needs you",
        (
            Panel("Runs", "count(replicator_build_info{})", "runs", kind="stat"),
            Panel("Runs that fail", "sum(replicator_failing{})", "runs", kind="stat"),
            Panel("Tables that fail", 'sum(replicator_table_state{state="FAILING",})', "tables", kind="stat"),
            Panel("Largest lag", "max(replicator_lag_seconds{})", "lag", "s", "stat"),
        ),
    ),
    (
        "Lag",
        (
            Panel("Lag of each pipeline", "max by (pipeline) (replicator_lag_seconds{})", "{{pipeline}}", "s"),
            Panel(
                "Tables with the largest lag",
                "topk(10, max by (pipeline, table) (replicator_table_lag_seconds{}))",
                "{{pipeline}} {{table}}",
                "s",
                description="The lag of a table is the age of its oldest change that is not durable at the target.",
            ),
        ),
    ),
    (
        "The source's log",
        (
            Panel("Kept for the pipeline alone", "max by (pipeline) (replicator_source_held_bytes{})", "{{pipeline}}", "bytes"),
            Panel("Bytes that wait", "max by (pipeline) (replicator_source_waiting_bytes{})", "{{pipeline}}", "bytes"),
            Panel("Changes that wait", "max by (pipeline) (replicator_source_waiting_changes{})", "{{pipeline}}"),
            Panel("Time until it is given up", "min by (pipeline) (replicator_source_seconds_left{})", "{{pipeline}}", "s"),
        ),
    ),
    (
        "Source and objectives",
        (
            Panel("Time since the source answered", "max by (pipeline) (replicator_source_silent_seconds{})", "{{pipeline}}", "s"),
            Panel("Fresh minutes", 'min by (pipeline) (replicator_slo_ratio{table="",})', "{{pipeline}}", "percentunit"),
        ),
    ),
    (
        "Changes",
        (
            Panel("Changes per second", "sum by (op) (rate(replicator_changes_total{}[1m]))", "{{op}}", "cps"),
            Panel(
                "Tables with the most changes",
                "topk(10, sum by (pipeline, table) (rate(replicator_changes_total{}[1m])))",
                "{{pipeline}} {{table}}",
                "cps",
            ),
            Panel(
                "Time per batch",
                "sum by (step) (rate(replicator_batch_seconds_sum{}[1m])) / sum by (step) (rate(replicator_batch_seconds_count{}[1m]))",
                "{{step}}",
                "s",
            ),
            Panel("Bytes that wait in memory", "sum by (pipeline) (replicator_waiting_bytes{})", "{{pipeline}}", "bytes"),
        ),
    ),
    (
        "Failures",
        (
            Panel("Failures", "sum by (code) (increase(replicator_failures_total{}[5m]))", "{{code}}"),
            Panel("Retries", "sum by (pipeline) (increase(replicator_retries_total{}[5m]))", "{{pipeline}}"),
        ),
    ),
    (
        "Tables",
        (
            Panel("States", "sum by (state) (replicator_table_state{})", "{{state}}"),
            Panel("Copies", "min by (pipeline, table) (replicator_snapshot_progress_ratio{})", "{{pipeline}} {{table}}", "percentunit"),
            Panel("Rows copied per second", "sum by (pipeline) (rate(replicator_snapshot_rows_total{}[1m]))", "{{pipeline}}", "rps"),
            Panel("Bytes in lanes", "sum by (pipeline, table) (replicator_lane_bytes{}) > 0", "{{pipeline}} {{table}}", "bytes"),
        ),
    ),
    (
        "Target and Spark",
        (
            Panel("Bytes at the target", "sum by (pipeline) (replicator_target_bytes{})", "{{pipeline}}", "bytes"),
            Panel(
                "Tables with the most files",
                "topk(10, max by (pipeline, table) (replicator_target_files{}))",
                "{{pipeline}} {{table}}",
            ),
            Panel(
                "Deleted rows that are still stored",
                "topk(10, max by (pipeline, table) (replicator_target_deleted_rows{}) / max by (pipeline, table) (replicator_target_rows{}) > 0)",
                "{{pipeline}} {{table}}",
                "percentunit",
                description="The part of a table's stored rows that are deleted; maintenance writes a file again that has lost a fifth of its rows.",
            ),
            Panel(
                "Spark executors",
                "max by (pipeline) (replicator_spark_executors{})",
                "{{pipeline}}",
                description="With the master `local` the driver is the only one.",
            ),
            Panel("Running Spark tasks", "max by (pipeline) (replicator_spark_running_tasks{})", "{{pipeline}}"),
        ),
    ),
)  # fmt: skip


def queries() -> Iterator[str]:
    """The expression of each panel, as Prometheus is asked when all pipelines are chosen."""
    for _, panels in ROWS:
        for panel in panels:
            yield _expression(panel).replace("$pipeline", ".*")


def dashboard() -> str:
    """The dashboard as JSON."""
    panels: list[dict[str, Any]] = []
    top = 0
    for title, row in ROWS:
        panels.append({"type": "row", "title": title, "gridPos": _place(0, top, _WIDTH, 1), "id": len(panels) + 1})
        panels += _row(row, top + 1, len(panels) + 1)
        top += 1 + _HEIGHT
    document = {
        "title": "Replicator",
        "uid": "replicator",
        "tags": ["replicator"],
        "schemaVersion": 39,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": [_variable_of_sources(), _variable_of_pipelines()]},
        "panels": panels,
    }
    return json.dumps(document, indent=2) + "\n"


def _row(row: Sequence[Panel], top: int, number: int) -> Iterator[dict[str, Any]]:
    width = _WIDTH // len(row)
    for position, panel in enumerate(row):
        yield {
            "id": number + position,
            "type": panel.kind,
            "title": panel.title,
            "description": panel.description,
            "datasource": _SOURCE,
            "gridPos": _place(position * width, top, width, _HEIGHT),
            "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
            "targets": [
                {"refId": "A", "datasource": _SOURCE, "expr": _expression(panel), "legendFormat": panel.legend}
            ],
        }


def _expression(panel: Panel) -> str:
    return panel.expression.replace(",}", "," + _OF[1:]).replace("{}", _OF)


def _place(left: int, top: int, width: int, height: int) -> dict[str, int]:
    return {"x": left, "y": top, "w": width, "h": height}


def _variable_of_sources() -> dict[str, Any]:
    return {"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus"}


def _variable_of_pipelines() -> dict[str, Any]:
    return {
        "name": "pipeline",
        "label": "Pipeline",
        "type": "query",
        "datasource": _SOURCE,
        "query": {"query": "label_values(replicator_build_info, pipeline)", "refId": "pipelines"},
        "refresh": 2,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
    }
