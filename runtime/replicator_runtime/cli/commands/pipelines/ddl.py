"""`replicator ddl`: changes of structure that wait for a decision, and the decisions."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from replicator_runtime.cli.options import AsJson, Base, Debug, Namespace, NoWait, Replicator, Timeout, Yes
from replicator_runtime.cli.report import Report
from replicator_runtime.observability.next_steps import Subject

if TYPE_CHECKING:
    from collections.abc import Mapping

    from replicator_runtime.cli.state_lookup import StateLocation

app = typer.Typer(
    help="Changes of structure at the source that wait for a decision: `ddlPolicies` of the pipeline says which kinds do.",
    no_args_is_help=True,
)
Changes = Annotated[
    list[str],
    typer.Argument(
        metavar="TABLE|ID...",
        help="A change's id, or a table for all of its changes that wait, as schema.table.",
        show_default=False,
    ),
]


@app.command("list")
def list_changes(
    name: Replicator,
    namespace: Namespace = "default",
    base: Base = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """List the changes that wait: table, what was changed, where in the log, since when. Connects to nothing.

    Example: replicator ddl list pipeline.json
    """
    with Report("ddl.list", as_json=as_json, debug=debug, subject=Subject(name, namespace, base)) as report:
        from replicator_runtime.cli.state_lookup import find_state

        waiting = _waiting(find_state(name, namespace, base))
        report.data = {"changes": waiting}
        if not waiting:
            report.line("nothing waits for a decision")
            return
        rows = [(c["id"], c["name"], c["text"], c["position"], c["since"]) for c in waiting]
        report.table(("id", "table", "change", "position", "since"), rows)
        for change in waiting:
            if change["onlyApproved"]:
                report.line(f"{change['id']} cannot be rejected: {change['onlyApproved']}")
        report.note("Next: `replicator ddl approve NAME ID`, or `replicator ddl reject NAME ID`")


@app.command("approve")
def approve(
    name: Replicator,
    changes: Changes,
    yes: Yes = False,
    timeout: Timeout = 60.0,
    no_wait: NoWait = False,
    namespace: Namespace = "default",
    base: Base = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Have the target follow changes that wait, and then take what came after them.

    A table without a lane is copied again instead. Example: replicator ddl approve pipeline.json shop.orders
    """
    with Report("ddl.approve", as_json=as_json, debug=debug, subject=Subject(name, namespace, base)) as report:
        _decide(report, "approve", name, namespace, base, changes, None if no_wait else timeout, asks=not yes)


@app.command("reject")
def reject(
    name: Replicator,
    changes: Changes,
    yes: Yes = False,
    timeout: Timeout = 60.0,
    no_wait: NoWait = False,
    namespace: Namespace = "default",
    base: Base = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Have the target go on without changes that wait: it keeps the dropped columns, the rows, or the table.

    Changes that later rows do not fit without are refused (RPL-1297). Example: replicator ddl reject pipeline.json 3f0c9a51be
    """
    with Report("ddl.reject", as_json=as_json, debug=debug, subject=Subject(name, namespace, base)) as report:
        _decide(report, "reject", name, namespace, base, changes, None if no_wait else timeout, asks=not yes)


def _decide(
    report: Report,
    command: str,
    name: str,
    namespace: str,
    base: str | None,
    changes: list[str],
    timeout: float | None,
    *,
    asks: bool,
) -> None:
    from replicator_runtime.cli.confirmation import confirm
    from replicator_runtime.cli.control import ask
    from replicator_runtime.cli.state_lookup import find_state

    waiting = _waiting(find_state(name, namespace, base))
    ids = _named(changes, waiting)
    meant = [change for change in waiting if change["id"] in ids]
    if asks and meant:
        confirm("; ".join(f"{command} of {change['name']}: {change['text']} ({change['id']})" for change in meant))
    ask(report, name, namespace, base, f"ddl.{command}", {"changes": ids}, timeout=timeout)


def _waiting(location: StateLocation) -> list[dict[str, Any]]:
    """The changes that wait, in the order of their tables."""
    from replicator_runtime.engine.tables.table_file import TableFile

    tables, _ = TableFile(location.directory.states().scoped("runtime")).load()
    found = [_shown(table, change) for table in tables for change in _undecided(table)]
    return sorted(found, key=lambda change: (change["name"], change["since"]))


def _undecided(table: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    decided = {decision["id"] for decision in table.get("decisions", ())}
    return [change for change in (table.get("pause") or {}).get("changes", ()) if change["id"] not in decided]


def _shown(table: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    from replicator_sdk import TableId

    since = datetime.fromtimestamp(change["since"], UTC).isoformat(timespec="seconds")
    return {
        "id": change["id"],
        **table["table"],
        "name": str(TableId.from_json(table["table"])),
        "operation": change["operation"],
        "text": change["text"],
        "position": change["at"],
        "since": since,
        "onlyApproved": change["onlyApproved"] or _why_copied(table, change),
    }


def _why_copied(table: Mapping[str, Any], change: Mapping[str, Any]) -> str:
    """Why it cannot be rejected where the table has no lane any more."""
    has_lane = (table.get("snapshot") or {}).get("done", False)
    return "" if has_lane or change["operation"] == "DROP_TABLE" else "the table has no lane, and is copied again"


def _named(names: list[str], waiting: list[dict[str, Any]]) -> list[str]:
    """The ids that are meant: a table means those that wait now, and none that come later.

    Raises:
        NeedsUserError: RPL-1220 for a name that means several tables; RPL-1298 for a table of which nothing waits.
    """
    from replicator_runtime.engine.control.table_names import find_table, named_tables
    from replicator_sdk import TableId
    from replicator_sdk.errors import NeedsUserError

    tables = {TableId.from_json(change): change["name"] for change in waiting}
    ids: list[str] = []
    for name in names:
        meant = named_tables(name, tables)
        # An id that does not wait is of a change that was decided, or is out of date: who carries it out says which.
        if name in {change["id"] for change in waiting} or (len(meant) != 1 and _is_id(name)):
            ids.append(name)
            continue
        if not meant:
            raise NeedsUserError(
                f"no change of {name} waits for a decision; nothing was changed",
                code="RPL-1298",
                hint="`replicator ddl list NAME` shows those that wait",
                table=name,
            )
        table = tables[find_table(name, meant)]
        ids += [change["id"] for change in waiting if change["name"] == table]
    return ids


def _is_id(name: str) -> bool:
    return len(name) == 10 and not set(name) - set("0123456789abcdef")
