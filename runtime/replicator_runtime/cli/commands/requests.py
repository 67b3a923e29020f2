"""`replicator requests`: what operators asked for, and what happened to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from replicator_runtime.cli.options import AsJson, Base, Debug, Namespace, Replicator
from replicator_runtime.cli.report import Report
from replicator_runtime.observability.next_steps import Subject

if TYPE_CHECKING:
    from replicator_state import Entry

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

        location = find_state(name, namespace, base)
        report.data = [_json(entry) for entry in location.directory.requests().history(limit)]
        headings = ("request", "at", "by", "command", "tables", "state", "outcome")
        rows = [
            (e["request"], e["at"], e["by"], e["command"], ", ".join(e["tables"]), e["state"], e["text"])
            for e in report.data
        ]
        report.table(headings, rows)
        if not rows:
            report.note("no requests")


def _json(entry: Entry) -> dict[str, object]:
    request, outcome = entry.request, entry.outcome
    refused = f"{outcome.code}: {outcome.message}" if outcome is not None and outcome.code else ""
    return {
        "request": entry.request_id,
        "at": request.at.isoformat(timespec="seconds") if request else None,
        "by": request.by if request else None,
        "command": request.command if request else None,
        "tables": list(request.arguments.get("tables", ())) if request else [],
        "state": outcome.state.value if outcome else "waiting",
        "endedAt": outcome.at.isoformat(timespec="seconds") if outcome else None,
        "endedBy": outcome.by if outcome else None,
        "text": refused or "; ".join(outcome.lines if outcome else ()),
    }
