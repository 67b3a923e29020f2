"""Connections for SQL and for replication, with the same settings in the Spark driver and on executors."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import ModuleType
from typing import TYPE_CHECKING, Any, LiteralString, cast

from replicator_sdk.authoring.driver_errors import required_library
from replicator_sdk.errors import NeedsUserError
from replicator_sdk.outgoing.networks import Networks, addresses_of, check_addresses
from replicator_source_postgres.config import PostgresConfig
from replicator_source_postgres.diagnosis import diagnose, diagnosed
from replicator_source_postgres.types.session import startup_options

if TYPE_CHECKING:
    import psycopg
    from psycopg.pq.abc import PGconn

Row = tuple[Any, ...]

_LOCK_TIMEOUT_MS = 30_000


def driver() -> ModuleType:
    """psycopg, imported at the first connection.

    Raises:
        NeedsUserError: When it is not installed.
    """
    with required_library(
        NeedsUserError(
            "the Postgres source needs the driver psycopg", code="RPL-3100", hint="pip install 'replicator[postgres]'"
        )
    ):
        import psycopg
    return psycopg


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where and as whom to connect. Picklable; its repr shows no password.

    Attributes:
        config: The source's settings.
        application: Shown in the server's list of sessions.
    """

    config: PostgresConfig = field(repr=False)
    application: str = "replicator"

    def parameters(self, *, statement_timeout_seconds: int = 0, lock_timeout_ms: int | None = None) -> dict[str, str]:
        """The driver's connection parameters; the values contain the password."""
        config = self.config
        lock_timeout = _LOCK_TIMEOUT_MS if lock_timeout_ms is None else lock_timeout_ms
        root = str(config.ssl_root_cert) if config.ssl_root_cert else None
        if root is None and config.ssl_mode == "verify-full":
            root = "system"
        options = (
            f"{startup_options()} -c lock_timeout={lock_timeout}"
            f" -c statement_timeout={statement_timeout_seconds * 1000} -c idle_in_transaction_session_timeout=0"
        )
        parameters: dict[str, str | None] = {
            **self._host(),
            "port": str(config.port),
            "dbname": config.database,
            "user": config.user,
            "password": config.password.get_secret_value(),
            "sslmode": config.ssl_mode,
            "sslrootcert": root,
            "connect_timeout": str(config.connect_timeout_seconds),
            "application_name": self.application[:63],
            "client_encoding": "UTF8",
            "options": options,
            # A half-open connection must end in an error, not in silence.
            "keepalives_idle": "30",
            "keepalives_interval": "10",
            "keepalives_count": "3",
            "tcp_user_timeout": "60000",
        }
        return {name: value for name, value in parameters.items() if value is not None}

    def _host(self) -> dict[str, str]:
        """The host for libpq, which resolves names by itself: with the addresses that it may have, where a service says which."""
        host = self.config.host
        if host.startswith(("/", "@")):  # a socket of this machine
            if (networks := Networks.of_environment()) is not None:
                check_addresses(networks, ["127.0.0.1"])
            return {"host": host}
        try:
            addresses = addresses_of(host, self.config.port)
        except OSError:
            failure = driver().OperationalError(f'could not translate host name "{host}" to address')
            raise diagnose(failure, f"connecting to {self}") from None
        if not addresses:
            return {"host": host}
        return {"host": ",".join([host] * len(addresses)), "hostaddr": ",".join(addresses)}

    def connect(self, *, statement_timeout_seconds: int = 0) -> psycopg.Connection[Row]:
        """A SQL connection in autocommit; the caller closes it.

        Raises:
            RetryableError: When the server cannot be reached now.
            NeedsUserError: When it refuses.
        """
        connect = driver().connect
        parameters = self.parameters(statement_timeout_seconds=statement_timeout_seconds)
        with diagnosed(f"connecting to {self}"):
            connection: psycopg.Connection[Row] = connect(autocommit=True, **parameters)
            # A prepared statement would fail after a schema change of its table.
            connection.prepare_threshold = None
        return connection

    @contextlib.contextmanager
    def session(self, *, statement_timeout_seconds: int = 60) -> Iterator[psycopg.Connection[Row]]:
        """A SQL connection for a few statements, whose errors are raised as `ReplicatorError`s."""
        connection = self.connect(statement_timeout_seconds=statement_timeout_seconds)
        with contextlib.closing(connection), diagnosed(f"querying {self}"):
            yield connection

    def replication(self) -> PGconn:
        """A connection for replication commands, without a limit to how long they wait for locks; the caller finishes it.

        Raises:
            RetryableError: When the server cannot be reached now.
            NeedsUserError: When it refuses, for example because the role lacks REPLICATION.
        """
        driver()
        from psycopg import pq
        from psycopg.conninfo import make_conninfo

        conninfo = make_conninfo(
            "", **cast("dict[str, Any]", {**self.parameters(lock_timeout_ms=0), "replication": "database"})
        )
        with diagnosed(f"connecting to {self} for replication"):
            connection = pq.PGconn.connect(conninfo.encode())
            if connection.status != pq.ConnStatus.OK:
                message = connection.get_error_message()
                connection.finish()
                raise driver().OperationalError(message)
        return connection

    def __str__(self) -> str:
        return f"{self.config.host}:{self.config.port}/{self.config.database} as {self.config.user}"


def replication_command(connection: PGconn, command: str) -> list[dict[str, str | None]]:
    """Run a replication command and return its rows by column name; `COPY BOTH` returns none.

    Raises:
        ReplicatorError: What `diagnosed` makes of the server's error.
    """
    from psycopg import errors, pq

    with diagnosed(f"the replication command {command.split(' ', 1)[0]}"):
        result = connection.exec_(command.encode())
        if result.status == pq.ExecStatus.COPY_BOTH:
            return []
        if result.status not in {pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK}:
            raise errors.error_from_result(result)
        names = [(result.fname(i) or b"").decode() for i in range(result.nfields)]
        cells = [[result.get_value(row, i) for i in range(len(names))] for row in range(result.ntuples)]
        return [dict(zip(names, (v if v is None else v.decode() for v in row), strict=True)) for row in cells]


def quote_identifier(name: str) -> LiteralString:
    """`name` as SQL writes it; any name is allowed."""
    return cast("LiteralString", '"' + name.replace('"', '""') + '"')  # type: ignore[redundant-cast]


def quote_literal(value: str) -> LiteralString:
    """`value` as a string constant of SQL, for commands that take no parameters."""
    escaped = value.replace("\\", "\\\\").replace("'", "''")
    return cast("LiteralString", f"{'E' if chr(92) in value else ''}'{escaped}'")  # type: ignore[redundant-cast]


def statement(text: str) -> LiteralString:
    """SQL composed of constants and quoted names; the one place where a string becomes a statement."""
    return cast("LiteralString", text)  # type: ignore[redundant-cast]
