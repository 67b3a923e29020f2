"""`replicator status`: shows what a replicator is doing."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from replicator_runtime.cli.options import AsJson, Base, Debug, Namespace, Replicator
from replicator_runtime.cli.report import Report

SILENT_AFTER_SECONDS = 60.0


def status(
    name: Replicator,
    namespace: Namespace = "default",
    base: Base = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Show the state a replicator wrote last. Starts nothing and connects to nothing.

    Example: replicator status pipeline.json
    """
    with Report("status", as_json=as_json, debug=debug) as report:
        from replicator_runtime.cli.state_lookup import NEVER_RAN, find_state
        from replicator_runtime.engine.control.pause import stored_pause
        from replicator_sdk.errors import NeedsUserError

        location = find_state(name, namespace, base)
        found = location.directory.states().read_status()
        if found is None:
            raise NeedsUserError(
                f"{location.directory.place} holds no status yet", code=NEVER_RAN, hint="wait until it has started"
            )
        waiting = location.directory.requests().waiting()
        paused = stored_pause(location.directory.states().scoped("runtime"))
        report.data = {
            **found,
            "requestsWaiting": waiting,
            "paused": None if paused is None else {"by": paused.by, "since": paused.since},
        }
        if silent := silent_for(found):
            report.warn(
                f"its last status is {silent:,.0f} seconds old, so it may have been killed; look at its process"
            )
        _print(report, found)
        if paused is not None:
            report.line(f"{paused}: the source has to keep its log; `replicator resume {name}` lets it go on")
        if waiting:
            report.line(f"requests that wait: {len(waiting)}; `replicator requests {name}` lists them")


def silent_for(found: Mapping[str, Any]) -> float:
    """Seconds since the last status of a replicator that should be running; 0 when it is recent."""
    if found.get("phase") in {"done", "failed"}:
        return 0.0
    age = (datetime.now(UTC) - datetime.fromisoformat(str(found["updated"]))).total_seconds()
    return age if age > SILENT_AFTER_SECONDS else 0.0


def _print(report: Report, found: Mapping[str, Any]) -> None:
    report.line(f"{found['name']} (namespace {found['namespace']}, generation {found['generation']}): {found['phase']}")
    report.line(f"offset {found['offset'] or 'none yet'}, sequence {found['sequenceNumber']:,}, {_lag(found)}")
    if through := found.get("validThrough"):
        report.line(f"every change up to {through} is applied, by the records' own times")
    report.line(f"source {found['sourceState']}, written {found['updated']}")
    if error := found.get("sourceError"):
        report.line(f"  {_error(error)}")
    elif last := found.get("lastError"):
        report.line(f"  {_last(last)}")
    report.line()
    rows = [(_table(t), t["state"], t["rows"], t["snapshotPercent"], t["lagSeconds"]) for t in found["tables"]]
    report.table(("table", "state", "rows", "snapshot %", "lag s"), rows)
    if maintained := [(_table(t), at) for t in found["tables"] if (at := _maintained(t))]:
        report.line()
        report.table(("table", "maintained"), maintained)
    for table in found["tables"]:
        if table.get("error"):
            report.line(f"{_table(table)}: {_error(table['error'])}")
        elif last := table.get("lastError"):
            report.line(f"{_table(table)}: {_last(last)}")
        for task, shown in table.get("maintenance", {}).items():
            if shown["error"]:
                report.line(f"{_table(table)}: the task {task} failed, and is tried again: {shown['error']}")
        if pause := table.get("pause"):
            report.line(f"{_table(table)}: {_pause(pause)}")
        if again_at := table.get("copyAgainAt"):
            report.line(f"{_table(table)}: copied again at {again_at}, unless it works before")


def _lag(found: Mapping[str, Any]) -> str:
    lag = found.get("lagSeconds")
    if lag is None and (current := found.get("currentAt")):
        return f"last current at {current}"
    return "lag unknown" if lag is None else f"lag {lag:.1f} s"


def _pause(pause: Mapping[str, Any]) -> str:
    """What follows from a pause."""
    if pause["copiedAgain"]:
        return f"paused since {pause['since']}; it is copied again when it is resumed"
    kept = f"{pause['laneRows']:,} changes ({pause['laneBytes']:,} bytes) are in its lane"
    if pause["resuming"]:
        return f"it is resumed; {kept} and are given to the target"
    return f"paused since {pause['since']}; {kept}"


def _maintained(table: Mapping[str, Any]) -> str:
    """When some task of its maintenance was done last; empty when none was."""
    return max((shown["doneAt"] or "" for shown in table.get("maintenance", {}).values()), default="")


def _table(table: Mapping[str, Any]) -> str:
    return f"{table['schema'] or table['database']}.{table['table']}"


def _last(error: Mapping[str, Any]) -> str:
    """An error that has gone."""
    return f"until {error['at']}, {error['times']} times: {_error(error)}"


def _error(error: Mapping[str, Any]) -> str:
    text = f"{error.get('code') or 'error'}: {error['message']}"
    return f"{text.rstrip('.')}. Next: {error['hint']}" if error.get("hint") else text
