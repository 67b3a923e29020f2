"""Commands that only show what a service knows; printed by the same code as what is read here."""

from __future__ import annotations

import json
import time
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import typer

from replicator_runtime.cli.remote.commands.opened import opened
from replicator_runtime.cli.report import Report

if TYPE_CHECKING:
    from collections.abc import Mapping

    from replicator_runtime.cli.commands.run import LogLevel
    from replicator_runtime.cli.remote.client import Pipeline

_NEWEST: Final = 100
_LONGEST: Final = 1000
_FOLLOW_SECONDS: Final = 1.0


def status(server: str, name: str, namespace: str, watch: bool, every: float, as_json: bool, debug: bool) -> None:
    """`replicator status`."""
    with opened("status", server, name, namespace, as_json=as_json, debug=debug) as (report, pipeline):
        from replicator_runtime.cli.commands.status import print_status

        if watch:
            from replicator_runtime.cli.watch.watch import Look, watch_looks

            watch_looks(lambda: Look.of(lambda: pipeline.get("/status")), every, as_json=as_json)
        report.data = pipeline.get("/status")
        print_status(report, report.data)


def slo(server: str, name: str, namespace: str, tables: int, as_json: bool, debug: bool) -> None:
    """`replicator slo`."""
    with opened("slo", server, name, namespace, as_json=as_json, debug=debug) as (report, pipeline):
        from replicator_runtime.cli.commands.checks.slo import print_objectives

        report.data = pipeline.get("/objectives", tables=tables)
        print_objectives(report, report.data)


def pipelines(server: str, namespace: str | None, as_json: bool, debug: bool) -> None:
    """`replicator list`: the pipelines that the service has, of one namespace."""
    with Report("list", as_json=as_json, debug=debug) as report:
        from replicator_runtime.cli.remote.client import Service, namespace_path
        from replicator_state import check_identifier

        place = check_identifier(namespace or "default", "namespace")
        report.data = list(Service(server).every(f"{namespace_path(place)}/pipelines"))
        headings = ("name", "state", "phase", "tables", "lag s", "needs you", "error")
        report.table(headings, [_row(one) for one in report.data])
        if not report.data:
            report.note(f'the service has no pipeline in namespace "{place}"')


def _row(one: Mapping[str, Any]) -> tuple[object, ...]:
    tables = ", ".join(f"{count} {state}" for state, count in sorted((one.get("tables") or {}).items()) if count)
    error = one.get("lastError")
    text = f"{error.get('code') or 'error'}: {error.get('message')}" if isinstance(error, dict) else error
    reasons = one.get("needsYou") or []
    needs = ", ".join(r if isinstance(r, str) else str(r.get("reason", r.get("text", ""))) for r in reasons)
    return (one["name"], one.get("state"), one.get("phase"), tables, one.get("worstLagSeconds"), needs, text)


def requests(server: str, name: str, namespace: str, limit: int, as_json: bool, debug: bool) -> None:
    """`replicator requests`."""
    with opened("requests", server, name, namespace, as_json=as_json, debug=debug) as (report, pipeline):
        from replicator_runtime.cli.commands.requests import print_requests

        report.data = list(islice(pipeline.every("/requests", limit=min(limit, _LONGEST)), limit))
        print_requests(report, report.data)


def schema_changes(server: str, name: str, namespace: str, as_json: bool, debug: bool) -> None:
    """`replicator ddl list`."""
    with opened("ddl.list", server, name, namespace, as_json=as_json, debug=debug) as (report, pipeline):
        from replicator_runtime.cli.commands.pipelines.ddl import print_changes

        report.data = {"changes": list(pipeline.every("/schemaChanges"))}
        print_changes(report, report.data["changes"])


def dead_letters(
    server: str,
    name: str,
    tables: list[str] | None,
    show_values: bool,
    limit: int,
    namespace: str,
    as_json: bool,
    debug: bool,
) -> None:
    """`replicator dead-letters list`."""
    if show_values:
        raise typer.BadParameter("a service shows no values of rows", param_hint="--show-values")
    with opened("dead-letters.list", server, name, namespace, as_json=as_json, debug=debug, tables=tables) as (
        report,
        pipeline,
    ):
        from replicator_runtime.cli.commands.checks.dead_letters import print_letters

        most = min(limit, _LONGEST)
        report.data = [one for table in tables or [""] for one in pipeline.get("/deadLetters", table=table, limit=most)]
        print_letters(report, report.data, show_values=False)


def offsets(server: str, name: str, namespace: str, limit: int, as_json: bool, debug: bool) -> None:
    """`replicator offsets list`."""
    with opened("offsets.list", server, name, namespace, as_json=as_json, debug=debug) as (report, pipeline):
        from replicator_runtime.cli.commands.offsets import print_offsets

        report.data = pipeline.get("/offsets", limit=min(limit, _LONGEST))
        print_offsets(report, report.data)


def offset(server: str, name: str, offset: str | None, namespace: str, as_json: bool, debug: bool) -> None:
    """`replicator offsets show`."""
    with opened("offsets.show", server, name, namespace, as_json=as_json, debug=debug) as (report, pipeline):
        from replicator_runtime.cli.commands.offsets import print_offset
        from replicator_sdk.errors import NeedsUserError

        saved = pipeline.get("/offsets", limit=_LONGEST if offset else 1)
        report.data = next((one for one in saved if offset in {None, one["name"]}), None)
        if report.data is None:
            raise NeedsUserError(
                "there is no such saved offset",
                code="RPL-1592",
                hint="`replicator offsets list NAME` shows those that are",
            )
        print_offset(report, report.data)


def logs(
    server: str,
    name: str,
    namespace: str,
    follow: bool,
    lines: int | None,
    table: str,
    level: LogLevel,
    since: str,
    spark: bool,
    as_json: bool,
    debug: bool,
) -> None:
    """`replicator logs`."""
    from replicator_runtime.cli.commands.pipelines.logs import since_of

    if spark:
        raise typer.BadParameter("a service does not show what Spark says: look where it runs", param_hint="--spark")
    after = since_of(since) if since else None
    with opened("logs", server, name, namespace, as_json=False, debug=debug) as (report, pipeline):
        wanted = {"table": table or None, "level": level.value}
        count = lines if lines is not None else (0 if since else _NEWEST)
        last = None if after is None else after.isoformat()
        while True:
            for line in _newest(pipeline, wanted, last, count or None):
                _show_line(report, line, as_json=as_json)
                last = line["ts"]
            if not follow:
                return
            count = 0
            time.sleep(_FOLLOW_SECONDS)


def _newest(
    pipeline: Pipeline, wanted: Mapping[str, Any], after: str | None, count: int | None
) -> list[Mapping[str, Any]]:
    """The newest lines, later than `after`, in the order in which they were written."""
    from datetime import datetime

    since = None if after is None else datetime.fromisoformat(after)
    found: list[Mapping[str, Any]] = []
    for line in pipeline.every("/logs", **wanted, limit=min(count or _LONGEST, _LONGEST)):
        if len(found) == count or (since is not None and datetime.fromisoformat(line["ts"]) <= since):
            break
        found.append(line)
    return found[::-1]


def _show_line(report: Report, line: Mapping[str, Any], *, as_json: bool) -> None:
    from replicator_runtime.cli.commands.pipelines.logs import print_line

    if as_json:
        typer.echo(json.dumps(line))  # ASCII, so that no terminal obeys what a table is called
    else:
        print_line(report, line)
