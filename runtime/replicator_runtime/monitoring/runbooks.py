"""The page of each alert: what it means, what to do, and when it ends."""

from __future__ import annotations

from collections.abc import Iterable

from replicator_runtime.monitoring.alerts import ALERTS, Alert

_SEVERITIES = {"page": "A person has to act now.", "warning": "A person has to look at it within a day."}


def runbook(alert: Alert) -> str:
    """The runbook of an alert, as Markdown; `NAME`, `FILE` and `TABLE` are placeholders of the reader's own."""
    after = "at once" if not alert.minutes else f"after {alert.minutes} minutes"
    steps = [f"{number}. {step}" for number, step in enumerate(alert.steps, 1)]
    return "\n".join(
        [
            f"# {alert.name}",
            "",
            f"{alert.meaning}",
            "",
            f"Severity `{alert.severity}`: {_SEVERITIES[alert.severity]} The alert fires {after}:",
            "",
            "```promql",
            alert.expression,
            "```",
            "",
            "## What to do",
            "",
            *steps,
            "",
            "## When it ends",
            "",
            alert.ends,
            "",
        ]
    )


def index(alerts: Iterable[Alert] = ALERTS) -> str:
    """The alerts as a table for docs/metrics.md."""
    rows = [f"| [{a.name}](runbooks/{a.page}) | {a.severity} | {a.minutes} | {a.meaning} |" for a in alerts]
    return "\n".join(["| alert | severity | minutes | what it means |", "|---|---|---|---|", *rows])
