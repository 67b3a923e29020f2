"""`replicator status`: shows what a replicator is doing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import typer

from replicator_runtime.cli.commands.checks.slo import print_slo
from replicator_runtime.cli.options import AsJson, Base, Debug, Namespace, Replicator
from replicator_runtime.cli.report import Report
from replicator_runtime.observability.next_steps import Subject

Watch = Annotated[
    bool, typer.Option("--watch", help="Show it again and again until Ctrl-C, the tables first that need you.")
]
Every = Annotated[float, typer.Option(min=0.1, help="With --watch: read it every so many seconds.")]


def status(
    name: Replicator,
    namespace: Namespace = "default",
    base: Base = None,
    watch: Watch = False,
    every: Every = 2.0,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Show the state a replicator wrote last. Starts nothing and connects to nothing.

    With --watch and --json it prints one document a line, each time a run has written another.

    Example: replicator status pipeline.json
    """
    with Report("status", as_json=as_json, debug=debug, subject=Subject(name, namespace, base)) as report:
        from replicator_runtime.cli.state_lookup import find_state

        directory = find_state(name, namespace, base).directory
        if watch:
            from replicator_runtime.cli.watch.watch import Look, watch_looks

            watch_looks(lambda: Look.at(directory), every, as_json=as_json)
        from replicator_runtime.observed.status import observed

        report.data = observed(directory).data
        print_status(report, report.data)


def print_status(report: Report, found: Mapping[str, Any]) -> None:
    """Print what is stored, and what it says of the process that wrote it, as the JSON of the command has it."""
    from replicator_runtime.cli.verified import print_comparisons
    from replicator_runtime.observed.liveness import shown_liveness

    if "offset" not in found:
        report.line(f"generation {found['generation']} has not run yet: start it with `replicator run`")
        return
    lives, paused, waiting = shown_liveness(found), found["paused"], found["requestsWaiting"]
    if lives.process_ended:
        report.warn(f"{lives}; it loses nothing: start it again with `replicator run`")
    elif lives.silent_seconds:
        report.warn(f"{lives}, so it may have been killed, or its host cannot be reached; look at its process")
    _print(report, found)
    _print_since(report, found)
    print_comparisons(report, found)
    print_slo(report, found["slo"])
    if paused is not None:
        report.line(
            f"paused by {paused['by']} since {paused['since']}: the source has to keep its log; `replicator resume NAME` lets it go on"
        )
    if waiting:
        report.line(f"requests that wait: {len(waiting)}; `replicator requests NAME` lists them")


def _print_since(report: Report, found: Mapping[str, Any]) -> None:
    """What the status that a run wrote does not say."""
    from replicator_sdk import TableId

    for text in found["doneSince"]:
        report.line(f"since this was written: {text}")
    for one in found["rowsPutAside"]:
        report.line(
            f"{TableId.from_json(one)}: the target lacks rows put aside, {one['rows']:,} in all; see `replicator dead-letters list NAME`"
        )


def _print(report: Report, found: Mapping[str, Any]) -> None:
    report.line(f"{found['name']} (namespace {found['namespace']}, generation {found['generation']}): {found['phase']}")
    report.line(f"offset {found['offset'] or 'none yet'}, sequence {found['sequenceNumber']:,}, {_lag(found)}")
    if through := found.get("validThrough"):
        report.line(f"every change up to {through} is applied, by the records' own times")
    report.line(f"source {found['sourceState']}, written {found['updated']}")
    if text := _kept(found):
        report.line(text)
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
        for text in _about(table):
            report.line(f"{_table(table)}: {text}", _table(table))


def _about(table: Mapping[str, Any]) -> Iterator[str]:
    """What there is to say of a table besides its row."""
    if table.get("error"):
        yield _error(table["error"])
    elif last := table.get("lastError"):
        # A run that is refused before it begins has the state of the table, and what an earlier run said of it.
        yield f"failed at {last['at']}: {_error(last)}" if table["state"] == "FAILING" else _last(last)
    for task, shown in table.get("maintenance", {}).items():
        if shown["error"]:
            yield f"the task {task} failed, and is tried again: {shown['error']}"
    if pause := table.get("pause"):
        yield _lane(pause, holds_log=bool(table.get("copyAgainAt"))) if pause.get("failed") else _pause(pause)
    if waits_for := table.get("waitsFor"):
        yield str(waits_for)
    if again_at := table.get("copyAgainAt"):
        yield f"copied again at {again_at}, unless it works before"


def _lag(found: Mapping[str, Any]) -> str:
    lag = found.get("lagSeconds")
    if lag is None and (current := found.get("currentAt")):
        return f"last current at {current}"
    return "lag unknown" if lag is None else f"lag {lag:.1f} s"


def _kept(found: Mapping[str, Any]) -> str:
    """What waits at the source, what it keeps for the replicator, and for how long; empty when it does not say.

    A run that is done was asked before it saved its last offset: what waited then, waits no more.
    """
    source = found.get("source")
    if source is None:
        return ""
    return "; ".join(filter(None, ("" if found["phase"] == "done" else _waiting(source), _held(source))))


def _waiting(source: Mapping[str, Any]) -> str:
    """What the log has after the saved offset; empty when that is nothing, or not known."""
    sizes = ((source.get("waitingChanges"), "changes"), (source.get("waitingBytes"), "bytes"))
    found = " with ".join(f"{size:,} {unit}" for size, unit in sizes if size)
    return found and f"the source has {found} after the saved offset"


def _held(source: Mapping[str, Any]) -> str:
    held, left, limiting = source["heldBytes"], source["secondsLeft"], source.get("limitedBy")
    until = "" if left is None else f", for {left / 3600:,.1f} hours more if it goes on so"
    until += f" ({limiting})" if until and limiting else ""
    if held is None:
        return f"the source keeps the log that is needed{until}" if until else ""
    limit = source["heldLimitBytes"]
    most = "without a limit" if limit is None else f"of {limit:,} at most"
    return f"the source keeps {held:,} bytes of log for it, {most}{until}"


def _pause(pause: Mapping[str, Any]) -> str:
    """What follows from a pause."""
    if asks := pause.get("asks"):
        return f"waits for a decision since {pause['since']}: {asks}; `replicator ddl list NAME` shows it, `replicator ddl approve NAME ID` or `reject` decides"
    if pause["copiedAgain"]:
        return f"paused since {pause['since']}; it is copied again when it is resumed"
    kept = f"{pause['laneRows']:,} changes ({pause['laneBytes']:,} bytes) are in its lane"
    if pause.get("inLog"):
        kept = _in_log(pause)
    if pause["resuming"]:
        return f"it is resumed; {kept} and are given to the target"
    return f"paused since {pause['since']}; {kept}"


def _in_log(pause: Mapping[str, Any]) -> str:
    """What waits for a table in the source's log."""
    return f"{pause['laneRows']:,} records ({pause['laneBytes']:,} bytes) wait for it in the source's log, which keeps them for as long as its retention says"


def _lane(pause: Mapping[str, Any], *, holds_log: bool) -> str:
    """What there is in the lane of a table that has failed for long, and what is next."""
    kept = f"{pause['laneRows']:,} changes ({pause['laneBytes']:,} bytes)"
    if holds_log:
        return f"{kept} of before its last error are in its lane; the source's log is held for those that follow"
    if pause.get("inLog") and pause["resuming"]:
        return f"{_in_log(pause)} and are given to the target"
    if pause.get("inLog"):
        later = f"at {pause['triedAgainAt']}" if pause["triedAgainAt"] else "later"
        return (
            f"{_in_log(pause)}; the target is given them again {later}, at each start, and by `replicator table retry`"
        )
    if pause["resuming"]:
        return f"its changes go to its lane since {pause['since']}; {kept} are given to the target"
    later = f"at {pause['triedAgainAt']}" if pause["triedAgainAt"] else "later"
    return (
        f"its changes go to its lane since {pause['since']}, so the source's log is not held for it; {kept} are given to the target"
        f" again {later}, at each start, and by `replicator table retry`"
    )


def _maintained(table: Mapping[str, Any]) -> str:
    """When some task of its maintenance was done last; empty when none was."""
    return max((shown["doneAt"] or "" for shown in table.get("maintenance", {}).values()), default="")


def _table(table: Mapping[str, Any]) -> str:
    return f"{table['schema'] or table['database']}.{table['table']}"


def _last(error: Mapping[str, Any]) -> str:
    """An error that has gone; its next step is left out, since it was done or there was none to do."""
    times = f", after it came {error['times']} times" if error["times"] > 1 else ""
    return f"repaired at {error['at']}{times}: {error.get('code') or 'error'}: {error['message']}"


def _error(error: Mapping[str, Any]) -> str:
    text = f"{error.get('code') or 'error'}: {error['message']}"
    return f"{text.rstrip('.')}. Next: {error['hint']}" if error.get("hint") else text
