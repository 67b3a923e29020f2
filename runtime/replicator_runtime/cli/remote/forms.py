"""The one place where a command is done here, or given to a service.

Each command that a service can do gets the option `--server`, also from the environment; all others refuse it.
"""

from __future__ import annotations

import functools
import inspect
import os
from typing import TYPE_CHECKING, Annotated, Any

import typer

from replicator_runtime.cli.options import Namespace
from replicator_runtime.cli.remote.commands import control, jobs, shown
from replicator_runtime.cli.report import Report

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

VARIABLE = "REPLICATOR_SERVER"
NOT_REMOTE = "RPL-1590"
_DEFAULT = "default"
Server = Annotated[
    str,
    typer.Option(
        metavar="URL",
        help="Have the service there do it; `$REPLICATOR_SERVER` when left out, its token in `$REPLICATOR_TOKEN`.",
        show_default=False,
    ),
]
NoServer = Annotated[str, typer.Option("--server", hidden=True)]
REMOTE: Mapping[str, Callable[..., None]] = {
    "approve": control.approve,
    "dead-letters list": shown.dead_letters,
    "dead-letters replay": control.replay,
    "ddl approve": control.approve_change,
    "ddl list": shown.schema_changes,
    "ddl reject": control.reject_change,
    "delete": jobs.delete,
    "explain-row": jobs.explain_row,
    "heal": jobs.heal,
    "list": shown.pipelines,
    "logs": shown.logs,
    "maintain": jobs.maintain,
    "offsets list": shown.offsets,
    "offsets show": shown.offset,
    "pause": control.pause,
    "plan": jobs.plan,
    "requests": shown.requests,
    "reset": jobs.reset,
    "restart": control.restart,
    "resume": control.resume,
    "rewind": jobs.rewind,
    "slo": shown.slo,
    "start": control.start,
    "status": shown.status,
    "stop": control.stop,
    "table drop": control.drop,
    "table pause": control.pause_tables,
    "table resume": control.resume_tables,
    "table resync": control.resync,
    "table retry": control.retry,
    "verify": jobs.verify,
}
"""What gives each command to a service: the command's own parameters, and `server`, its address."""


def add_remote_forms(app: typer.Typer) -> None:
    """Give every command of `app`, of its groups too, its remote form, or the error that it has none."""
    for name, command in _commands(app):
        if command.callback is not None:
            command.callback = _with_server(name, command.callback, REMOTE.get(name))


def _commands(app: typer.Typer, group: str = "") -> Iterator[tuple[str, Any]]:
    for command in app.registered_commands:
        name = command.name or getattr(command.callback, "__name__", "").replace("_", "-")
        yield f"{group} {name}".strip(), command
    for inner in app.registered_groups:
        if inner.typer_instance is not None:
            yield from _commands(inner.typer_instance, f"{group} {inner.name}".strip())


def _with_server(name: str, local: Callable[..., None], remote: Callable[..., None] | None) -> Callable[..., None]:
    """The command with the option `--server`."""
    signature = inspect.signature(local, eval_str=True)

    added = [_option("server", NoServer if remote is None else Server, "")]
    takes_file = remote is not None and "pipeline" in signature.parameters
    if takes_file:  # which names its namespace; of a name, which a service takes, too, it is an option
        added.insert(0, _option("namespace", Namespace, _DEFAULT))

    @functools.wraps(local)
    def command(*, server: str = "", **given: Any) -> None:
        address = server or (_from_environment(given) if remote is not None else "")
        if remote is not None and address:
            _check_base(given)
            remote(server=address, **{key: value for key, value in given.items() if key != "base"})
        elif address:
            _refuse(name, given)
        elif takes_file and given.pop("namespace") != _DEFAULT:
            raise typer.BadParameter(
                "the pipeline's file names it: only a service takes a name", param_hint="--namespace"
            )
        else:
            local(**given)

    named = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in signature.parameters.values()]
    at = next((i for i, one in enumerate(named) if one.name in {"as_json", "debug"}), len(named))
    parameters = [*named[:at], *added, *named[at:]]
    command.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {one.name: one.annotation for one in parameters}
    del command.__wrapped__  # its parameters are not those of the command
    return command


def _option(name: str, annotation: object, default: str) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _from_environment(given: Mapping[str, Any]) -> str:
    """The service that the environment names; none where the state's place was given, which is here."""
    return "" if given.get("base") else os.environ.get(VARIABLE, "")


def _check_base(given: Mapping[str, Any]) -> None:
    if given.get("base"):
        raise typer.BadParameter("the service knows where the state is: leave it out", param_hint="--base")


def _refuse(name: str, given: Mapping[str, Any]) -> None:
    """End with the error that a command works here only."""
    from replicator_sdk.errors import NeedsUserError

    with Report(
        name.replace(" ", "."), as_json=bool(given.get("as_json", False)), debug=bool(given.get("debug", False))
    ):
        raise NeedsUserError(
            f"the command {name} works on this machine only, and cannot be given to a service",
            code=NOT_REMOTE,
            hint="leave --server out; `replicator start` runs a pipeline that a service has",
        )
