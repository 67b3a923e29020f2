"""`replicator table`: commands for some tables of a replicator, also while it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from replicator_runtime.cli.confirmation import confirm, lost_by_drop, lost_by_resync
from replicator_runtime.cli.options import AsJson, Base, Debug, Namespace, NoWait, Replicator, Timeout, Yes
from replicator_runtime.cli.report import Report
from replicator_runtime.observability.next_steps import Subject, only

if TYPE_CHECKING:
    from collections.abc import Mapping

app = typer.Typer(
    help="Do something with some tables of a replicator, also while it runs; without a run the pipeline's file does it here.",
    no_args_is_help=True,
)
Tables = Annotated[
    list[str],
    typer.Argument(
        metavar="TABLE...",
        help="As table, schema.table or database.schema.table; quoted as in SQL where a name has dots.",
        show_default=False,
    ),
]
InPlace = Annotated[
    bool,
    typer.Option(
        "--in-place",
        help="Copy into the table itself, for targets that cannot do it beside: readers see a part of it until the copy has ended.",
    ),
]

KeepTarget = Annotated[bool, typer.Option("--keep-target", help="Leave the copies at the target as they are.")]


@app.command("retry")
def retry(
    name: Replicator,
    tables: Tables,
    timeout: Timeout = 60.0,
    no_wait: NoWait = False,
    namespace: Namespace = "default",
    base: Base = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Try FAILING tables again now, after what they failed for was repaired.

    A table that gave the source's log up is copied again. Example: replicator table retry pipeline.json shop.orders
    """
    _ask("retry", name, namespace, base, {"tables": tables}, None if no_wait else timeout, as_json=as_json, debug=debug)


@app.command("pause")
def pause(
    name: Replicator,
    tables: Tables,
    timeout: Timeout = 60.0,
    no_wait: NoWait = False,
    namespace: Namespace = "default",
    base: Base = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Leave tables at the target as they are, and keep their changes beside the state until they are resumed.

    The source's log is not held for them. A lane past `lanes.maxBytes` or `lanes.maxHours` is dropped; the table is copied again then
    when it is resumed. Kafka's topics keep the changes themselves, for as long as their retention says. Example: replicator table pause
    pipeline.json shop.orders
    """
    _ask("pause", name, namespace, base, {"tables": tables}, None if no_wait else timeout, as_json=as_json, debug=debug)


@app.command("resume")
def resume(
    name: Replicator,
    tables: Tables,
    timeout: Timeout = 60.0,
    no_wait: NoWait = False,
    namespace: Namespace = "default",
    base: Base = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Give the target what was kept of paused tables, and let them take changes as before.

    The outcome says that this begins; `replicator status` shows how much is left. Example: replicator table resume pipeline.json
    shop.orders
    """
    _ask(
        "resume", name, namespace, base, {"tables": tables}, None if no_wait else timeout, as_json=as_json, debug=debug
    )


@app.command("resync")
def resync(
    name: Replicator,
    tables: Tables,
    in_place: InPlace = False,
    yes: Yes = False,
    timeout: Timeout = 60.0,
    no_wait: NoWait = False,
    namespace: Namespace = "default",
    base: Base = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Describe tables at the source and copy them again; what the target has of them is replaced.

    The copy is made beside the table and replaces it at once, where the target can (Delta, Iceberg, BigQuery); others need --in-place.
    The outcome says that the copy will be made; `replicator status` shows how far it is. Sources without snapshots (Kafka)
    cannot do it. Example: replicator table resync pipeline.json shop.orders
    """
    arguments = {"tables": tables, "inPlace": in_place}
    lost = lost_by_resync(tables)
    _ask(
        "resync",
        name,
        namespace,
        base,
        arguments,
        None if no_wait else timeout,
        as_json=as_json,
        debug=debug,
        lost="" if yes else lost,
    )


@app.command("drop")
def drop(
    name: Replicator,
    tables: Tables,
    keep_target: KeepTarget = False,
    yes: Yes = False,
    timeout: Timeout = 60.0,
    no_wait: NoWait = False,
    namespace: Namespace = "default",
    base: Base = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Take tables out of the replicator that `tables` do not select any more, and delete their copies at the target.

    First take them out of the pipeline's `tables`, or exclude them there: a table that is selected would be copied again, and is refused.
    Example: replicator table drop pipeline.json shop.orders
    """
    lost = lost_by_drop(tables)
    _ask(
        "drop",
        name,
        namespace,
        base,
        {"tables": tables, "keepTarget": keep_target},
        None if no_wait else timeout,
        as_json=as_json,
        debug=debug,
        lost="" if yes or keep_target else lost,
    )


def _ask(
    command: str,
    name: str,
    namespace: str,
    base: str | None,
    arguments: Mapping[str, Any],
    timeout: float | None,
    *,
    as_json: bool,
    debug: bool,
    lost: str = "",
) -> None:
    with Report(
        f"table.{command}",
        as_json=as_json,
        debug=debug,
        subject=Subject(name, namespace, base, only(arguments["tables"])),
    ) as report:
        from replicator_runtime.cli.control import ask
        from replicator_runtime.cli.state_lookup import find_state
        from replicator_runtime.engine.control.table_names import find_table
        from replicator_runtime.stored_tables import known_tables

        if lost:
            location = find_state(name, namespace, base)
            known = known_tables(location.directory)
            for table in arguments["tables"] if known else ():  # a run that has just begun may find them
                find_table(table, known)
            confirm(lost)
        ask(report, name, namespace, base, f"table.{command}", arguments, timeout=timeout)
