"""How a service was started."""

from __future__ import annotations

import enum
import ipaddress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from replicator_runtime.service.access.loopback import is_loopback
from replicator_sdk.outgoing.networks import Networks

if TYPE_CHECKING:
    from replicator_runtime.service.supervision.kubernetes_jobs import JobSettings


class Auth(enum.StrEnum):
    """Who may use the service."""

    TOKENS = "tokens"
    """Requests with a token that was created by `replicator token create`."""
    NONE = "none"
    """Everyone who can reach it, as an admin; on a loopback address only."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a service takes from those who use it.

    Attributes:
        body_bytes: Of a request's body.
        config_bytes: Of a body that has a pipeline's config, from one with a token who may send it.
        body_seconds: From a request's headers to the end of its body.
        requests_per_second: Of one principal, for long.
        requests_at_once: Of one principal, in a burst.
        working_at_once: Requests of one principal that are being answered, event streams not counted.
        open_at_once: Requests of all, event streams counted.
        failures_per_minute: Of authentication, from one address; those beyond are refused with 429.
    """

    body_bytes: int = 1024 * 1024
    config_bytes: int = 4 * 1024 * 1024 + 64 * 1024
    body_seconds: float = 30.0
    requests_per_second: float = 200.0
    requests_at_once: int = 1000
    working_at_once: int = 32
    open_at_once: int = 4000
    failures_per_minute: float = 30.0


@dataclass(frozen=True, slots=True)
class ServiceSettings:
    """How a service was started.

    Attributes:
        store: SQLAlchemy's URL of the database: `sqlite:///PATH`, or one of Postgres.
        base_path: Below which fsspec path replicators keep their state, where their pipeline does not say.
        work_folder: A local folder of this service alone, mode 700: pipelines' files and the output of processes.
        host: The address it listens on.
        port: 0 is any free one.
        auth: Who may use it.
        stop_seconds: How long a run has, after it was asked to end, before it is killed.
        replicator: The words that start the command line in the processes of pipelines; empty for this interpreter's.
        allowed_hosts: Names under which it answers beside its own; off loopback it answers under any where this is empty.
        certificate: PEM file of its certificate; None: it speaks plain HTTP.
        certificate_key: PEM file of the key to that.
        shared_secrets: Whether pipelines of all namespaces may use secrets that are given to none.
        data_samples: Whether admins may read a few rows of a source's table.
        local_paths: The folders below which pipelines may have files on this machine; None: everywhere but in its own.
        allowed_networks: The only ones with addresses that pipelines may connect to; None: all but those that are refused anyway.
        limits: What it takes from those who use it.
        jobs: How runs are started as Kubernetes Jobs; None for processes of this host.
    """

    store: str
    base_path: str
    work_folder: Path
    host: str = "127.0.0.1"
    port: int = 11015
    auth: Auth = Auth.TOKENS
    stop_seconds: float = 60.0
    replicator: tuple[str, ...] = ()
    allowed_hosts: tuple[str, ...] = ()
    certificate: Path | None = None
    certificate_key: Path | None = None
    shared_secrets: bool = False
    data_samples: bool = False
    local_paths: tuple[Path, ...] | None = None
    allowed_networks: tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...] | None = None
    limits: Limits = Limits()
    jobs: JobSettings | None = None

    @property
    def networks(self) -> Networks:
        """What pipelines may connect to. Where others than this machine's users may reach the service, its own addresses are not in it."""
        is_private = all(map(is_loopback, (self.host, *self.allowed_hosts)))
        return Networks(self.allowed_networks, loopback=is_private)
