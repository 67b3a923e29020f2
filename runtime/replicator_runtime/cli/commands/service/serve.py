"""`replicator serve`: the service for a team."""

from __future__ import annotations

import enum
import os
import shlex
from dataclasses import replace
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Annotated

import typer

from replicator_runtime.cli.commands.run import Format, Level, LogFormat, LogLevel
from replicator_runtime.cli.commands.service.places import STORE_VARIABLE, Store
from replicator_runtime.cli.options import Debug
from replicator_runtime.cli.report import Report


class WhoMay(enum.StrEnum):
    """Who may use the service."""

    TOKENS = "tokens"
    NONE = "none"


Host = Annotated[str, typer.Option(help="The address it listens on; tokens are required off loopback.")]
Port = Annotated[int, typer.Option(min=0, max=65535, help="0 takes any free one.")]
BasePath = Annotated[
    str,
    typer.Option(
        metavar="PATH",
        help="Below which folder or fsspec URL replicators keep their state, where their pipeline does not say; "
        "`$XDG_STATE_HOME/replicator` when left out.",
    ),
]
WorkFolder = Annotated[
    Path | None,
    typer.Option(
        help="A folder of this service alone, for pipelines' files and the output of processes; beside the SQLite file when left out.",
        show_default=False,
    ),
]
Authentication = Annotated[
    WhoMay, typer.Option(help="Who may use it: those with a token, or everyone on this machine, as an admin.")
]
StopSeconds = Annotated[
    float, typer.Option(min=1, help="How long a run has, after it was asked to end, before it is killed.")
]
Kubernetes = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE.json",
        help="Start runs as Kubernetes Jobs, as this file says; as processes of this host when left out.",
        show_default=False,
    ),
]

AllowedHost = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME",
        help="A name under which it answers beside its own, such as a proxy's; may be given several times. Off loopback it answers "
        "under every name when left out.",
        show_default=False,
    ),
]
Certificate = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Speak TLS, with the certificate in this PEM file.", show_default=False),
]
CertificateKey = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="The key to the certificate, without a password; in the same file when left out.",
        show_default=False,
    ),
]

SharedSecrets = Annotated[
    bool,
    typer.Option(
        "--shared-secrets",
        help="Pipelines of all namespaces may use secrets that are given to none: `${secure(NAME)}` where there is no NAMESPACE/NAME. "
        "Always so with `--auth none`.",
    ),
]

AllowedNetwork = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NETWORK",
        help="A network that pipelines may connect to, such as 10.0.0.0/8, and then only those given; may be given several times. When "
        "left out, any but link-local ones and, where others than this machine's users reach the service, its own addresses.",
        show_default=False,
    ),
]

DataSamples = Annotated[
    bool,
    typer.Option(
        "--data-samples", help="Admins may read a few rows of a table while they create a pipeline; no other role may."
    ),
]


def serve(
    host: Host = "127.0.0.1",
    port: Port = 11015,
    store: Store = "",
    base_path: BasePath = "",
    work_folder: WorkFolder = None,
    auth: Authentication = WhoMay.TOKENS,
    stop_seconds: StopSeconds = 60.0,
    kubernetes: Kubernetes = None,
    allowed_host: AllowedHost = None,
    allowed_network: AllowedNetwork = None,
    certificate: Certificate = None,
    certificate_key: CertificateKey = None,
    shared_secrets: SharedSecrets = False,
    data_samples: DataSamples = False,
    log_level: Level = LogLevel.INFO,
    log_format: Format = LogFormat.CONSOLE,
    debug: Debug = False,
) -> None:
    """Serve the REST API and the page, and run the replicators that are created there, until SIGINT or SIGTERM (exit code 0).

    Prints its address on standard output once it answers. Replicators run on when it ends, and are found again by the next one.
    Example: replicator serve --store sqlite:////var/lib/replicator/service.db
    """
    with Report("serve", as_json=False, debug=debug) as report:
        from replicator_runtime.cli.commands.service.places import require_service, store_of, work_folder_of
        from replicator_runtime.config.default_paths import default_base_path, expand_home
        from replicator_runtime.observability.logs import configure_logging

        require_service()
        from replicator_runtime.service.serving import check
        from replicator_runtime.service.serving import serve as listen
        from replicator_runtime.service.settings import Auth, ServiceSettings
        from replicator_runtime.service.supervision.kubernetes_jobs import read_job_settings

        for name in ("REPLICATOR_SERVER", "REPLICATOR_TOKEN"):
            os.environ.pop(name, None)  # what it starts works here
        configure_logging(log_level.value, log_format.value)
        url = store_of(store)
        place = work_folder_of(work_folder, url)
        base = expand_home(base_path) if base_path else default_base_path()
        jobs = None if kubernetes is None else read_job_settings(kubernetes)
        settings = ServiceSettings(url, base, place, host, port, Auth(auth.value), stop_seconds=stop_seconds, jobs=jobs)
        names = tuple(allowed_host or ())
        settings = replace(settings, allowed_hosts=names, certificate=certificate, certificate_key=certificate_key)
        settings = replace(settings, shared_secrets=shared_secrets or auth is WhoMay.NONE, data_samples=data_samples)
        settings = replace(settings, allowed_networks=_networks(allowed_network))
        check(settings)
        if auth is WhoMay.TOKENS and not _has_tokens(url):
            report.note(
                f"no token is valid yet: `{token_command(store)}` creates one, also while the service is running"
            )

        def ready(address: str) -> None:
            report.note(f"the page and the API are at {address}; Ctrl-C ends the service, replicators run on")
            report.line(address)

        listen(settings, ready=ready)


def _networks(written: list[str] | None) -> tuple[IPv4Network | IPv6Network, ...] | None:
    try:
        return tuple(map(ip_network, written)) if written else None
    except ValueError:
        raise typer.BadParameter(
            "name networks such as 10.0.0.0/8 and 2001:db8::/32", param_hint="--allowed-network"
        ) from None


def token_command(store: str) -> str:
    """The command that creates the first token, for the same database."""
    named = store and not os.environ.get(STORE_VARIABLE)
    return "replicator token create --role admin" + (f" --store {shlex.quote(store)}" if named else "")


def _has_tokens(url: str) -> bool:
    from replicator_runtime.cli.commands.service.token import opened
    from replicator_runtime.service.access.tokens import is_valid, list_tokens

    with opened(url) as database:
        return any(map(is_valid, list_tokens(database)))
