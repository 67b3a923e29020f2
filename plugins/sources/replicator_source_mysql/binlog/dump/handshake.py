"""The beginning of a dump: what `mysql-replication` knows of checksums, GTIDs and registration, nothing else of it.

The library's own reading of events is not used. The one method called is private, so version and method are checked: an
unknown version is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import metadata
from typing import TYPE_CHECKING, Any

from replicator_sdk.authoring.driver_errors import required_library
from replicator_sdk.errors import NeedsUserError
from replicator_source_mysql.binlog.event import FilePosition
from replicator_source_mysql.connect.connection import Endpoint, Server, open_connection
from replicator_source_mysql.connect.diagnosis import diagnosed

if TYPE_CHECKING:
    import pymysql

_VERSION = "1.0.17"
_CONNECT = "_BinLogStreamReader__connect_to_stream"
_CHECKSUM = "_BinLogStreamReader__use_checksum"
_FIRST_EVENT = 4
_WRAP = 1 << 32
_EVERYTHING = "00000000-0000-0000-0000-000000000000:1"
"""MySQL: a set no server has a transaction of, which asks for the log from its beginning."""

_PATIENCE = "SET SESSION net_write_timeout = 86400"
"""A target that is slow holds the reader back for longer than the usual minute, after which the server would hang up."""

Dump = tuple["pymysql.Connection[Any]", bool]
Check = Callable[["pymysql.Connection[Any]"], None]


def begin_dump(
    endpoint: Endpoint,
    server: Server,
    start: FilePosition | str,
    *,
    server_id: int,
    heartbeat_seconds: float,
    check: Check | None = None,
) -> Dump:
    """Connect and ask for the log; the first packet of the answer is still to be read.

    Args:
        endpoint: The server.
        server: What it is.
        start: File and position, or the GTIDs that have been executed already.
        server_id: Our id among the server's replicas.
        heartbeat_seconds: After how long a silence the server sends a heartbeat.
        check: Called with every connection before it is used; what it raises ends the attempt.

    Returns:
        The connection, and whether events carry checksums.

    Raises:
        NeedsUserError: When the library is missing or has another version, or the server refuses.
        RetryableError: When the server cannot be reached now.
    """
    reader = _library()(
        connection_settings=endpoint.parameters() | {"charset": "utf8mb4", "init_command": _PATIENCE},
        server_id=server_id,
        blocking=True,
        resume_stream=True,
        slave_heartbeat=heartbeat_seconds,
        enable_logging=False,
        pymysql_wrapper=_checked(open_connection, check),
        **_place(server, start),
    )
    try:
        with diagnosed(f"starting to read the log of {endpoint}"):
            getattr(reader, _CONNECT)()
    except BaseException:
        if getattr(reader, "_stream_connection", None) is not None:
            reader._stream_connection.close()  # noqa: SLF001 - the library has no public name for it
        raise
    return reader._stream_connection, bool(getattr(reader, _CHECKSUM))  # noqa: SLF001


def _checked(connect: Callable[..., Any], check: Check | None) -> Callable[..., Any]:
    def checked(*args: Any, **settings: Any) -> Any:
        connection = connect(*args, **settings)
        if check is not None:
            try:
                check(connection)
            except BaseException:
                connection.close()
                raise
        return connection

    return checked


def _place(server: Server, start: FilePosition | str) -> dict[str, Any]:
    if isinstance(start, FilePosition):
        # With `is_mariadb` the library would not send file and position. A dump's position has 32 bits.
        position = start.position if start.position < _WRAP else _FIRST_EVENT
        return {"log_file": start.file, "log_pos": position, "is_mariadb": False}
    if server.is_mariadb:
        return {"auto_position": start, "is_mariadb": True}
    return {"auto_position": start or _EVERYTHING, "is_mariadb": False}


def _library() -> Any:
    with required_library(
        NeedsUserError(
            "the MySQL source needs mysql-replication", code="RPL-3711", hint="pip install 'replicator[mysql]'"
        )
    ):
        version = metadata.version("mysql-replication")
        from pymysqlreplication import BinLogStreamReader
    if version != _VERSION or not hasattr(BinLogStreamReader, _CONNECT):
        raise NeedsUserError(
            f"the MySQL source works with mysql-replication {_VERSION}, and {version} is installed",
            code="RPL-3711",
            hint=f"pip install mysql-replication=={_VERSION}",
        )
    return BinLogStreamReader
