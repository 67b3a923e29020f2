"""`replicator ddl`: changes of structure that wait for a decision, and the decisions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from replicator_runtime.cli.options import AsJson, Base, Debug, Namespace, NoWait, Replicator, Timeout, Yes
from replicator_runtime.cli.report import Report
from replicator_runtime.observability.next_steps import Subject

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
        from replicator_runtime.observed.schema_changes import waiting_changes

        waiting = waiting_changes(find_state(name, namespace, base).directory)
        report.data = {"changes": waiting}
        print_changes(report, waiting)


def print_changes(report: Report, waiting: Sequence[Mapping[str, Any]]) -> None:
    """Print changes that wait, as the JSON of the command has them."""
    if not waiting:
        report.line("nothing waits for a decision")
        return
    rows = [(c["id"], c["name"], c["text"], c["position"], c["since"]) for c in waiting]
    report.table(("id", "table", "change", "position", "since"), rows)
    for change in waiting:
        if change["onlyApproved"]:
            report.line(f"{change['id']} cannot be rejected: {change['onlyApproved']}")
    rejected = "" if all(c["onlyApproved"] for c in waiting) else ", or `replicator ddl reject NAME ID`"
    report.note(f"Next: `replicator ddl approve NAME ID`{rejected}")


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
    from replicator_runtime.cli.control import ask
    from replicator_runtime.cli.state_lookup import find_state
    from replicator_runtime.observed.schema_changes import waiting_changes

    ids = chosen_changes(command, waiting_changes(find_state(name, namespace, base).directory), changes, asks=asks)
    ask(report, name, namespace, base, f"ddl.{command}", {"changes": ids}, timeout=timeout)


def chosen_changes(command: str, waiting: list[dict[str, Any]], names: list[str], *, asks: bool) -> list[str]:
    """The ids of the changes that `names` mean, once it was confirmed that they are decided.

    Args:
        command: The decision: `approve` or `reject`.
        waiting: The changes that wait.
        names: Of tables, and ids of changes.
        asks: Whether a person is asked.

    Raises:
        NeedsUserError: RPL-1228 when it was not confirmed; as `named_changes`.
    """
    from replicator_runtime.cli.confirmation import confirm
    from replicator_runtime.observed.schema_changes import named_changes

    ids = named_changes(names, waiting)
    meant = [change for change in waiting if change["id"] in ids]
    if asks and meant:
        confirm("; ".join(f"{command} of {change['name']}: {change['text']} ({change['id']})" for change in meant))
    return ids
