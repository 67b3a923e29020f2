"""The command `replicator` and its sub-commands."""

from __future__ import annotations

from typing import Annotated

import typer

from replicator_runtime.cli.commands import (
    assess,
    demo,
    maintain,
    offsets,
    plugins,
    replicators,
    requests,
    run,
    status,
    table,
    tables,
    validate,
)
from replicator_runtime.cli.commands.checks import dead_letters, explain_row, slo, verify
from replicator_runtime.cli.commands.monitoring import export
from replicator_runtime.cli.commands.pipelines import ddl, delete, heal, logs, notifications, pause, plan, warm_up
from replicator_runtime.cli.commands.service import control, serve, token
from replicator_runtime.cli.remote.forms import add_remote_forms

app = typer.Typer(
    name="replicator",
    help="Keeps a continuously updated copy of a database's tables in a lakehouse.",
    epilog="Start here: replicator demo. Exit codes: 0 done, 2 usage, 3 settings or assessment, 4 unavailable, "
    "5 data differs or does not fit, 6 needs a decision, 7 source history lost, 8 another run took over, 1 a bug.",
    no_args_is_help=True,
    rich_markup_mode=None,  # rich help costs a third of a second
    pretty_exceptions_enable=False,  # a traceback with local values would print secrets
    add_completion=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)

for command in (
    run.run,
    validate.validate,
    assess.assess,
    plan.plan,
    plan.approve,
    tables.tables,
    status.status,
    slo.slo,
    requests.requests,
    maintain.maintain,
    verify.verify,
    explain_row.explain_row,
    plugins.plugins,
    demo.demo,
    serve.serve,
    control.start,
    control.stop,
    control.restart,
):
    app.command()(command)
app.command("list")(replicators.list_replicators)
app.command("reset")(replicators.reset)
app.command("heal")(heal.heal)
app.command("logs")(logs.logs)
app.command("warm-up")(warm_up.warm_up)
app.command("pause")(pause.pause)
app.command("resume")(pause.resume)
app.command("delete")(delete.delete)
app.command("rewind")(offsets.rewind)
app.add_typer(table.app, name="table")
app.add_typer(ddl.app, name="ddl")
app.add_typer(offsets.app, name="offsets")
app.add_typer(notifications.app, name="notifications")
app.add_typer(dead_letters.app, name="dead-letters")
app.add_typer(export.app, name="export")
app.add_typer(token.app, name="token")
add_remote_forms(app)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(version("replicator"))
        raise typer.Exit


@app.callback()
def replicator(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and leave.")
    ] = False,
) -> None:
    """Keeps a continuously updated copy of a database's tables in a lakehouse."""
    del version
