"""Opens connections, for SQL and for the binlog, in the driver and on executors."""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import TYPE_CHECKING, Any

from replicator_sdk.authoring.driver_errors import required_library
from replicator_sdk.errors import NeedsUserError
from replicator_sdk.outgoing.networks import addresses_of
from replicator_source_mysql.config import MySqlConfig
from replicator_source_mysql.connect.diagnosis import diagnosed

if TYPE_CHECKING:
    import pymysql

Row = tuple[Any, ...]

_LOCK_WAIT_SECONDS = 30
_READ_TIMEOUT_SECONDS = 600

SESSION = (
    # Values as the log has them: UTC instants, no quoting surprises, nothing rounded or padded on the way.
    "SET time_zone = '+00:00', sql_mode = 'NO_BACKSLASH_ESCAPES'",
    f"SET lock_wait_timeout = {_LOCK_WAIT_SECONDS}, innodb_lock_wait_timeout = {_LOCK_WAIT_SECONDS}",
    "SET net_write_timeout = 600, net_read_timeout = 600, wait_timeout = 28800",
)
"""Statements that every connection that reads rows runs first."""


def driver() -> ModuleType:
    """PyMySQL, imported at the first connection.

    Raises:
        NeedsUserError: When it is not installed.
    """
    with required_library(
        NeedsUserError(
            "the MySQL source needs the driver PyMySQL", code="RPL-3800", hint="pip install 'replicator[mysql]'"
        )
    ):
        import pymysql
    return pymysql


@dataclass(frozen=True, slots=True)
class Server:
    """What a server says of itself.

    Attributes:
        version: As it writes it, `8.0.36` or `10.11.6-MariaDB-…`.
        is_mariadb: Whether it is MariaDB.
    """

    version: str
    is_mariadb: bool

    @property
    def number(self) -> tuple[int, int, int]:
        """The version as numbers."""
        digits = [*self.version.split("-", 1)[0].split("."), "0", "0"][:3]
        return tuple(int("".join(filter(str.isdigit, part)) or 0) for part in digits)  # type: ignore[return-value]

    @property
    def logs_generated_columns(self) -> bool:
        """Whether the rows of updates in its log have generated columns. Found by trying: 10.11.18 has them, 11.8.9 has not."""
        return not self.is_mariadb or self.number < (11, 8, 9)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where and as whom to connect. Picklable; its repr shows no password.

    Attributes:
        config: The source's settings.
        application: Shown in the server's list of sessions.
    """

    config: MySqlConfig = field(repr=False)
    application: str = "replicator"

    def parameters(self) -> dict[str, Any]:
        """The driver's connection parameters; the values contain the password."""
        config = self.config
        return {
            "host": config.host,
            "port": config.port,
            "user": config.user,
            "password": config.password.get_secret_value(),
            "charset": "utf8mb4",
            "connect_timeout": config.connect_timeout_seconds,
            "read_timeout": _READ_TIMEOUT_SECONDS,
            "write_timeout": _READ_TIMEOUT_SECONDS,
            "autocommit": True,
            "program_name": self.application[:60],
            **self._tls(),
        }

    def _tls(self) -> dict[str, Any]:
        mode = self.config.ssl_mode
        if mode == "disable":
            return {"ssl_disabled": True}
        root = str(self.config.ssl_root_cert) if self.config.ssl_root_cert else None
        context = ssl.create_default_context(cafile=root)
        context.check_hostname = mode == "verify-full"
        if mode == "require":
            context.verify_mode = ssl.CERT_NONE
        return {"ssl": context}

    def connect(self) -> pymysql.Connection[Any]:
        """A SQL connection in autocommit with the session of `SESSION`; the caller closes it.

        Raises:
            RetryableError: When the server cannot be reached now.
            NeedsUserError: When it refuses.
        """
        with diagnosed(f"connecting to {self}"):
            connection = open_connection(**self.parameters())
            with contextlib.ExitStack() as undo:
                undo.callback(connection.close)
                for statement in SESSION:
                    execute(connection, statement)
                undo.pop_all()
        return connection

    @contextlib.contextmanager
    def session(self) -> Iterator[pymysql.Connection[Any]]:
        """A SQL connection for a few statements; the driver's errors become errors of this package."""
        with contextlib.closing(self.connect()) as connection, diagnosed(f"asking {self}"):
            yield connection

    def __str__(self) -> str:
        return f"{self.config.host}:{self.config.port} as {self.config.user}"


def open_connection(**settings: Any) -> pymysql.Connection[Any]:
    """Connect with the driver's settings. Greeting and login have to arrive within the time for the connection.

    PyMySQL waits for them as long as for the answer to a statement: an endpoint that accepts and says nothing would hold
    the run for minutes.
    """
    patience = settings["read_timeout"]
    connection: Any = driver().connect(**{**settings, "read_timeout": settings["connect_timeout"]}, defer_connect=True)
    connection.connect(_allowed_socket(settings))
    connection._read_timeout = connection._current_timeout = patience  # noqa: SLF001 - PyMySQL has no public setter
    connection._sock.settimeout(patience)  # noqa: SLF001 - as above
    opened: pymysql.Connection[Any] = connection
    return opened


def _allowed_socket(settings: dict[str, Any]) -> socket.socket | None:
    """Connected to an address that a service allows: a name that is resolved again may lead elsewhere. None where PyMySQL connects."""
    host, port = settings["host"], settings["port"]
    try:
        addresses = addresses_of(host, port)
    except OSError:  # PyMySQL says so
        return None
    failure: OSError | None = None
    for address in addresses:
        try:
            found = socket.create_connection((address, port), settings["connect_timeout"])
        except OSError as error:
            failure = error
            continue
        found.settimeout(None)
        found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        return found
    if failure is not None:
        raise driver().OperationalError(2003, f"Can't connect to MySQL server on {host!r} ({failure})")
    return None


def execute(connection: pymysql.Connection[Any], statement: str, values: Sequence[Any] = ()) -> list[Row]:
    """Run one statement; its rows, none for a statement without a result."""
    with connection.cursor() as cursor:
        cursor.execute(statement, list(values) or None)
        return list(cursor.fetchall())


def named_rows(connection: pymysql.Connection[Any], statement: str, values: Sequence[Any] = ()) -> list[dict[str, Any]]:
    """Run one statement; its rows by lower-case column name (the same `SHOW` differs in case between versions)."""
    with connection.cursor() as cursor:
        cursor.execute(statement, list(values) or None)
        names = [str(column[0]).lower() for column in cursor.description or ()]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def server_of(connection: pymysql.Connection[Any]) -> Server:
    """Which server it is."""
    version = str(execute(connection, "SELECT VERSION()")[0][0])
    return Server(version, "mariadb" in version.lower())


def variables(connection: pymysql.Connection[Any], *names: str) -> dict[str, str]:
    """Global variables by name, as text; those the server does not know are left out."""
    wanted = ", ".join(["%s"] * len(names))
    rows = execute(connection, f"SHOW GLOBAL VARIABLES WHERE Variable_name IN ({wanted})", names)
    return {str(name).lower(): str(value) for name, value in rows}


def quote_identifier(name: str) -> str:
    """`name` as SQL writes it; any name is allowed."""
    return "`" + name.replace("`", "``") + "`"
