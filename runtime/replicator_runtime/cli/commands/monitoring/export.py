"""`replicator export`: what comes with the replicator for monitoring systems."""

from __future__ import annotations

from typing import Annotated

import typer

app = typer.Typer(help="Files for monitoring systems, on standard output.", no_args_is_help=True)

Runbooks = Annotated[
    str,
    typer.Option(
        metavar="URL", help="Where the runbooks are published; each alert has the address of its own below it."
    ),
]


@app.command()
def alerts(runbooks: Runbooks = "docs/runbooks") -> None:
    """Print alerting rules for Prometheus.

    Example: replicator export alerts --runbooks https://wiki.example.com/replicator > replicator.rules.yml
    """
    from replicator_runtime.monitoring.alerts import rules

    typer.echo(rules(runbooks.rstrip("/")), nl=False)


@app.command()
def grafana() -> None:
    """Print a dashboard for Grafana, which its page "Import dashboard" takes.

    Example: replicator export grafana > replicator.json
    """
    from replicator_runtime.monitoring.dashboard import dashboard

    typer.echo(dashboard(), nl=False)
