"""Commands that change a pipeline of a service: it is asked, and the outcome is waited for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from replicator_runtime.cli.confirmation import lost_by_drop, lost_by_replay, lost_by_resync
from replicator_runtime.cli.remote.commands.opened import opened

if TYPE_CHECKING:
    from collections.abc import Mapping


def start(server: str, name: str, namespace: str, as_json: bool, debug: bool) -> None:
    """`replicator start`."""
    _supervise("start", server, name, namespace, as_json=as_json, debug=debug)


def stop(server: str, name: str, namespace: str, as_json: bool, debug: bool) -> None:
    """`replicator stop`."""
    _supervise("stop", server, name, namespace, as_json=as_json, debug=debug)


def restart(server: str, name: str, namespace: str, as_json: bool, debug: bool) -> None:
    """`replicator restart`."""
    _supervise("restart", server, name, namespace, as_json=as_json, debug=debug)


def _supervise(command: str, server: str, name: str, namespace: str, *, as_json: bool, debug: bool) -> None:
    with opened(command, server, name, namespace, as_json=as_json, debug=debug) as (report, pipeline):
        report.data = pipeline.post(f"/{command}")
        report.line(f"{pipeline.place.name} (namespace {pipeline.place.namespace}): {report.data['state']}")


def pause(server: str, name: str, namespace: str, timeout: float, no_wait: bool, as_json: bool, debug: bool) -> None:
    """`replicator pause`."""
    _ask("pause", "/pause", server, name, namespace, None if no_wait else timeout, as_json=as_json, debug=debug)


def resume(server: str, name: str, namespace: str, timeout: float, no_wait: bool, as_json: bool, debug: bool) -> None:
    """`replicator resume`."""
    _ask("resume", "/resume", server, name, namespace, None if no_wait else timeout, as_json=as_json, debug=debug)


def retry(tables: list[str], **given: Any) -> None:
    """`replicator table retry`."""
    _tables("retry", {"tables": tables}, **given)


def pause_tables(tables: list[str], **given: Any) -> None:
    """`replicator table pause`."""
    _tables("pause", {"tables": tables}, **given)


def resume_tables(tables: list[str], **given: Any) -> None:
    """`replicator table resume`."""
    _tables("resume", {"tables": tables}, **given)


def resync(tables: list[str], in_place: bool, yes: bool, **given: Any) -> None:
    """`replicator table resync`."""
    lost = "" if yes else lost_by_resync(tables)
    _tables("resync", {"tables": tables, "inPlace": in_place}, lost=lost, **given)


def drop(tables: list[str], keep_target: bool, yes: bool, **given: Any) -> None:
    """`replicator table drop`."""
    lost = "" if yes or keep_target else lost_by_drop(tables)
    _tables("drop", {"tables": tables, "keepTarget": keep_target}, lost=lost, **given)


def _tables(
    action: str,
    body: Mapping[str, Any],
    *,
    server: str,
    name: str,
    namespace: str,
    timeout: float,
    no_wait: bool,
    as_json: bool,
    debug: bool,
    lost: str = "",
) -> None:
    _ask(
        f"table.{action}",
        f"/tables/{action}",
        server,
        name,
        namespace,
        None if no_wait else timeout,
        body,
        lost=lost,
        as_json=as_json,
        debug=debug,
    )


def replay(
    server: str,
    name: str,
    tables: list[str] | None,
    yes: bool,
    timeout: float,
    no_wait: bool,
    namespace: str,
    as_json: bool,
    debug: bool,
) -> None:
    """`replicator dead-letters replay`."""
    _ask(
        "dead-letters.replay",
        "/deadLetters/replay",
        server,
        name,
        namespace,
        None if no_wait else timeout,
        {"tables": tables or []},
        lost="" if yes else lost_by_replay(tables or []),
        as_json=as_json,
        debug=debug,
    )


def approve_change(**given: Any) -> None:
    """`replicator ddl approve`."""
    _decide("approve", **given)


def reject_change(**given: Any) -> None:
    """`replicator ddl reject`."""
    _decide("reject", **given)


def _decide(
    decision: str,
    *,
    server: str,
    name: str,
    changes: list[str],
    yes: bool,
    timeout: float,
    no_wait: bool,
    namespace: str,
    as_json: bool,
    debug: bool,
) -> None:
    with opened(f"ddl.{decision}", server, name, namespace, as_json=as_json, debug=debug) as (report, pipeline):
        from replicator_runtime.cli.commands.pipelines.ddl import chosen_changes
        from replicator_runtime.cli.remote.waiting import ask

        ids = chosen_changes(decision, list(pipeline.every("/schemaChanges")), changes, asks=not yes)
        done = []
        for one in ids:
            ask(report, pipeline, f"/schemaChanges/{one}/{decision}", timeout=None if no_wait else timeout)
            done.append(report.data)
        if len(done) > 1:
            report.data = {**done[-1], "lines": [line for one in done for line in one["lines"]]}


def approve(server: str, name: str, plan: str, namespace: str, as_json: bool, debug: bool) -> None:
    """`replicator approve`."""
    with opened("approve", server, name, namespace, as_json=as_json, debug=debug) as (report, pipeline):
        report.data = pipeline.post("/approvals", {"plan": plan})
        report.line(f"plan {plan} is approved; the next run applies it")


def _ask(
    command: str,
    part: str,
    server: str,
    name: str,
    namespace: str,
    timeout: float | None,
    body: Mapping[str, Any] | None = None,
    *,
    as_json: bool,
    debug: bool,
    lost: str = "",
) -> None:
    tables = (body or {}).get("tables")
    with opened(command, server, name, namespace, as_json=as_json, debug=debug, tables=tables) as (report, pipeline):
        from replicator_runtime.cli.confirmation import confirm
        from replicator_runtime.cli.remote.waiting import ask

        if lost:
            confirm(lost)
        ask(report, pipeline, part, body, timeout=timeout)
