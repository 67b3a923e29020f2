"""`replicator requests`: what operators asked for, and what happened to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from replicator_runtime.cli.options import AsJson, Base, Debug, Namespace, Replicator
from replicator_runtime.cli.report import Report
from replicator_runtime.observability.next_steps import Subject

Limit = Annotated[int, typer.Option(min=1, help="At most so many, newest first.")]


def requests(
    name: Replicator,
    namespace: Namespace = "default",
    base: Base = None,
    limit: Limit = 20,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """List what operators asked for, newest first: who, when, what, and what happened to it. Kept for 30 days.

    Connects to nothing. Example: replicator requests pipeline.json
    """
    with Report("requests", as_json=as_json, debug=debug, subject=Subject(name, namespace, base)) as report:
        from replicator_runtime.cli.state_lookup import find_state
        from replicator_runtime.observed.requests import request_json

        location = find_state(name, namespace, base)
        report.data = [request_json(entry) for entry in location.directory.requests().history(limit)]
        print_requests(report, report.data)


def print_requests(report: Report, found: Sequence[Mapping[str, Any]]) -> None:
    """Print requests and their outcomes, as the JSON of the command has them."""
    headings = ("request", "at", "by", "command", "tables", "state", "outcome")
    rows = [
        (e["request"], e["at"], e["by"], e["command"], ", ".join(e["tables"]), e["state"], e["text"]) for e in found
    ]
    report.table(headings, rows)
    if not rows:
        report.note("no requests")
