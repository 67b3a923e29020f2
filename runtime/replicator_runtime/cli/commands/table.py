"""`replicator table`: commands for some tables of a replicator, also while it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from replicator_runtime.cli.options import AsJson, Base, Debug, Namespace, NoWait, Replicator, Timeout, Yes
from replicator_runtime.cli.report import Report

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
    bool, typer.Option("--in-place", help="Readers of the target see a part of the table until the copy has ended.")
]


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
    when it is resumed. Example: replicator table pause pipeline.json shop.orders
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

    The outcome says that the copy will be made; `replicator status` shows how far it is. Sources without snapshots (Kafka)
    cannot do it. Example: replicator table resync pipeline.json shop.orders --in-place
    """
    arguments = {"tables": tables, "inPlace": in_place}
    lost = f"{', '.join(tables)}: what the target has is replaced, rows included that the source has deleted"
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
    with Report(f"table.{command}", as_json=as_json, debug=debug) as report:
        from replicator_runtime.cli.confirmation import confirm
        from replicator_runtime.cli.control import ask
        from replicator_runtime.cli.state_lookup import find_state

        if lost:
            find_state(name, namespace, base)
            confirm(lost)
        ask(report, name, namespace, base, f"table.{command}", arguments, timeout=timeout)
