"""What a MySQL or MariaDB table holds, read with MySQL's own connector, which shares no code with the driver of our source."""

from __future__ import annotations

from typing import Any, Protocol

import mysql.connector


class Server(Protocol):
    """Where to read; servers and databases of `tests.services.mysql.server` are that."""

    host: str
    port: int
    user: str
    password: str


def rows(server: Server, statement: str, database: str | None = None) -> list[tuple[Any, ...]]:
    """The rows of a statement in the connector's Python types, with the session's time zone at UTC.

    It knows no zero dates: they come as None, which `texts` distinguishes. SET comes as a set, BIT as an integer, TIME as a
    timedelta.
    """
    return _read(server, statement, database, raw=False)


def texts(server: Server, statement: str, database: str | None = None) -> list[tuple[bytes | None, ...]]:
    """The rows of a statement as the server spells them, with the session's time zone at UTC; NULL is None."""
    read = _read(server, statement, database, raw=True)
    return [tuple(None if value is None else bytes(value) for value in row) for row in read]


def _read(server: Server, statement: str, database: str | None, *, raw: bool) -> list[tuple[Any, ...]]:
    connection = mysql.connector.connect(
        host=server.host,
        port=server.port,
        user=server.user,
        password=server.password,
        database=database or getattr(server, "name", None),
        charset="utf8mb4",
        collation="utf8mb4_general_ci",  # MariaDB does not know the connector's usual one
        time_zone="+00:00",
        raw=raw,
        connection_timeout=10,
    )
    try:
        cursor = connection.cursor()
        cursor.execute(statement)
        return [tuple(row) for row in cursor.fetchall()]
    finally:
        connection.close()
