"""Reads what a server's sessions usually have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from replicator_source_mysql.connect.connection import variables
from replicator_source_mysql.ddl.lex.session import Session

if TYPE_CHECKING:
    import pymysql


def usual_session(connection: pymysql.Connection[Any], *, is_mariadb: bool) -> Session:
    """What the server's sessions have when a statement's event does not contain it."""
    found = variables(connection, "character_set_server", "explicit_defaults_for_timestamp")
    return Session(
        is_mariadb=is_mariadb,
        server_charset=found.get("character_set_server", ""),
        has_explicit_timestamps=found.get("explicit_defaults_for_timestamp", "ON").upper() != "OFF",
    )
