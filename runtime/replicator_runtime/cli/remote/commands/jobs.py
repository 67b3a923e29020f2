"""Commands that a service has a process of its own for: each becomes a job, whose result and printed lines are shown."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from replicator_runtime.cli.commands.checks.verify import VERIFY_SECONDS
from replicator_runtime.cli.confirmation import LOST_BY_RESET
from replicator_runtime.cli.remote.commands.opened import opened
from replicator_runtime.cli.report import Report

if TYPE_CHECKING:
    from collections.abc import Mapping


def verify(
    server: str,
    name: str,
    tables: list[str] | None,
    timeout: float,
    show_keys: bool,
    repair: bool,
    yes: bool,
    every: str | None,
    rate: float | None,
    namespace: str,
    as_json: bool,
    debug: bool,
) -> None:
    """`replicator verify`."""
    _not_there({"--every": every, "--rate": rate, "--show-keys": show_keys, "--timeout": timeout != VERIFY_SECONDS})
    body = {"tables": tables or [], "repair": repair}
    lost = "rows that differ are written again at the target, and those that the source has not are deleted there"
    _job(
        "verify",
        "/verify",
        body,
        server,
        name,
        namespace,
        lost=lost if repair and not yes else "",
        as_json=as_json,
        debug=debug,
    )


def explain_row(
    server: str, name: str, table: str, key: str, show_values: bool, namespace: str, as_json: bool, debug: bool
) -> None:
    """`replicator explain-row`."""
    from replicator_runtime.cli.commands.checks.explain_row import key_of

    _not_there({"--show-values": show_values})
    with Report("explain-row", as_json=as_json, debug=debug):
        body = {"table": table, "key": key_of(key)}
    _job("explain-row", "/explainRow", body, server, name, namespace, as_json=as_json, debug=debug)


def heal(server: str, pipeline: Path, yes: bool, namespace: str, as_json: bool, debug: bool) -> None:
    """`replicator heal`."""
    lost = "the lost part of the log is replaced by a comparison: what changed in between is known by its end only"
    _job("heal", "/heal", {}, server, str(pipeline), namespace, lost="" if yes else lost, as_json=as_json, debug=debug)


def reset(server: str, pipeline: Path, lost_state: bool, yes: bool, namespace: str, as_json: bool, debug: bool) -> None:
    """`replicator reset`."""
    _not_there({"--lost-state": lost_state})
    _job(
        "reset",
        "/reset",
        {},
        server,
        str(pipeline),
        namespace,
        lost="" if yes else LOST_BY_RESET,
        as_json=as_json,
        debug=debug,
    )


def maintain(
    server: str,
    pipeline: Path,
    table: list[str] | None,
    task: list[str] | None,
    everything: bool,
    namespace: str,
    as_json: bool,
    debug: bool,
    **_: Any,
) -> None:
    """`replicator maintain`; what it logs stays with the service."""
    body = {"tables": table or [], "tasks": task or [], "all": everything}
    _job("maintain", "/maintain", body, server, str(pipeline), namespace, as_json=as_json, debug=debug)


def delete(
    server: str,
    pipeline: str,
    target_tables: bool,
    keep_source: bool,
    yes: bool,
    namespace: str,
    as_json: bool,
    debug: bool,
) -> None:
    """`replicator delete`."""
    with opened("delete", server, pipeline, namespace, as_json=as_json, debug=debug) as (report, found):
        from replicator_runtime.cli.confirmation import confirm
        from replicator_runtime.cli.remote.waiting import gone

        if not yes:
            also = "; its tables at the target, too" if target_tables else ""
            at_source = "" if keep_source else ", and what it left at the source"
            confirm(f"{found.place.name}: its state{at_source} is deleted{also}; this cannot be undone")
        found.delete(targetTables=target_tables, keepSource=keep_source)
        gone(found)
        report.data = {"deleted": [found.place.name]}
        report.line(f"{found.place.name} (namespace {found.place.namespace}) is deleted")


def rewind(
    server: str, pipeline: Path, offset: str, time: str, yes: bool, namespace: str, as_json: bool, debug: bool
) -> None:
    """`replicator rewind`: the plan first, then, once it is confirmed, the way back."""
    with opened("rewind", server, str(pipeline), namespace, as_json=as_json, debug=debug) as (report, found):
        from replicator_runtime.cli.confirmation import confirm
        from replicator_runtime.cli.remote.waiting import finish

        wanted = {"offset": offset, "time": time}
        if not yes:
            finish(report, found, found.post("/offsets/rewind", {**wanted, "planOnly": True}))
            confirm("the target's tables lose what is after it; the next run reads it again from the log")
        finish(report, found, found.post("/offsets/rewind", {**wanted, "planOnly": False}))


def plan(server: str, pipeline: Path, namespace: str, as_json: bool, debug: bool) -> None:
    """`replicator plan`: of the file where one is given, else of the pipeline as the service has it."""
    with opened("plan", server, str(pipeline), namespace, as_json=as_json, debug=debug) as (report, found):
        from replicator_runtime.cli.commands.pipelines.plan import print_plan
        from replicator_runtime.cli.remote.client import error_of
        from replicator_runtime.cli.remote.place import document_of

        report.data = found.post("/plan", {"config": document_of(pipeline)} if pipeline.is_file() else {})
        error = report.data.pop("error")
        print_plan(report, report.data)
        if error is not None:
            raise error_of(error)
        report.note("Next: `replicator restart NAME`" if pipeline.is_file() else "Next: `replicator start NAME`")


def _not_there(given: Mapping[str, object]) -> None:
    """Refuse options that a service does not take.

    Raises:
        typer.BadParameter: For those that were given.
    """
    if found := [option for option, value in given.items() if value]:
        raise typer.BadParameter(
            "a service does not take it: leave it out, or give the command where the service runs",
            param_hint=", ".join(found),
        )


def _job(
    command: str,
    part: str,
    body: Mapping[str, Any],
    server: str,
    name: str,
    namespace: str = "default",
    *,
    as_json: bool,
    debug: bool,
    lost: str = "",
) -> None:
    with opened(command, server, name, namespace, as_json=as_json, debug=debug, tables=body.get("tables")) as (
        report,
        pipeline,
    ):
        from replicator_runtime.cli.confirmation import confirm
        from replicator_runtime.cli.remote.waiting import finish

        if lost:
            confirm(lost)
        finish(report, pipeline, pipeline.post(part, body))
