"""Reads a server's settings: its binlog, its replication, and the rights of the account."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from replicator_source_mysql.connect.connection import Server, execute, named_rows, server_of, variables
from replicator_source_mysql.connect.grants import Grants, read_grants

if TYPE_CHECKING:
    import pymysql

_VARIABLES = (
    "log_bin", "binlog_format", "binlog_row_image", "binlog_row_metadata", "binlog_row_value_options",
    "binlog_transaction_compression", "log_bin_compress", "binlog_expire_logs_seconds", "expire_logs_days", "gtid_mode",
    "server_id", "log_replica_updates", "log_slave_updates", "innodb_native_foreign_keys", "lower_case_table_names",
    "default_storage_engine", "binlog_expire_logs_auto_purge",
)  # fmt: skip
_DAY = 86_400


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """The facts that findings about a server are based on.

    Attributes:
        server: Version and make.
        settings: Global variables; those the server does not know are absent.
        grants: What the account may do.
        is_replica: Whether it replicates from another server; None when the account may not see.
        others: Server ids of those who read its binlog now; None when the account may not see.
        only_databases: `binlog_do_db`: when there are any, no other is in the log.
        left_out: `binlog_ignore_db`.
        rds_hours: RDS's own retention; 0 for "as soon as possible", None elsewhere.
    """

    server: Server
    settings: Mapping[str, str]
    grants: Grants
    is_replica: bool | None
    others: frozenset[int] | None
    only_databases: frozenset[str]
    left_out: frozenset[str]
    rds_hours: int | None

    def is_on(self, name: str) -> bool:
        """Whether a switch is on; False where the server does not know it."""
        return self.settings.get(name, "OFF").upper() in {"ON", "1"}

    def hides(self, database: str) -> bool:
        """Whether changes of `database` are kept out of the binlog."""
        return database in self.left_out or (bool(self.only_databases) and database not in self.only_databases)

    @property
    def retention_seconds(self) -> float | None:
        """How long a binlog file is kept; None without a limit."""
        if self.rds_hours is not None:
            return self.rds_hours * 3600.0
        if self.settings.get("binlog_expire_logs_auto_purge", "ON").upper() == "OFF":
            return None
        seconds = float(self.settings.get("binlog_expire_logs_seconds", 0) or 0)
        return seconds or float(self.settings.get("expire_logs_days", 0) or 0) * _DAY or None

    @property
    def logs_cascades(self) -> bool:
        """Whether rows that a foreign key changes are in the binlog: MySQL from 9.6 on, unless configured otherwise."""
        return self.settings.get("innodb_native_foreign_keys", "ON").upper() == "OFF"


def server_facts(connection: pymysql.Connection[Any]) -> ServerFacts:
    """Ask the server; what the account may not see stays unknown."""
    server = server_of(connection)
    only, ignored = _filters(connection, server)
    return ServerFacts(
        server,
        variables(connection, *_VARIABLES),
        read_grants(connection),
        _is_replica(connection, server),
        _others(connection, server),
        only,
        ignored,
        _rds_hours(connection),
    )


def _allowed(connection: pymysql.Connection[Any], query: str) -> list[dict[str, Any]] | None:
    from pymysql import MySQLError

    try:
        return named_rows(connection, query)
    except MySQLError:
        return None


def _is_replica(connection: pymysql.Connection[Any], server: Server) -> bool | None:
    found = _allowed(connection, "SHOW ALL SLAVES STATUS" if server.is_mariadb else "SHOW REPLICA STATUS")
    return None if found is None else bool(found)


def _others(connection: pymysql.Connection[Any], server: Server) -> frozenset[int] | None:
    found = _allowed(connection, "SHOW SLAVE HOSTS" if server.is_mariadb else "SHOW REPLICAS")
    return None if found is None else frozenset(int(row["server_id"]) for row in found)


def _filters(connection: pymysql.Connection[Any], server: Server) -> tuple[frozenset[str], frozenset[str]]:
    has_new_words = not server.is_mariadb and server.number >= (8, 2, 0)
    rows = _allowed(connection, "SHOW BINARY LOG STATUS" if has_new_words else "SHOW MASTER STATUS")
    row = rows[0] if rows else {}
    only, ignored = (
        frozenset(filter(None, str(row.get(name) or "").split(","))) for name in ("binlog_do_db", "binlog_ignore_db")
    )
    return only, ignored


def _rds_hours(connection: pymysql.Connection[Any]) -> int | None:
    with contextlib.suppress(Exception):
        query = "SELECT value FROM mysql.rds_configuration WHERE name = 'binlog retention hours'"
        for row in execute(connection, query):
            return int(row[0] or 0)
    return None
