"""Asks the server how it is: its clock, the binlog after an offset, and for how long it keeps binlogs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from replicator_sdk.discovery.source_health import SourceHealth
from replicator_source_mysql.binlog.log_availability import file_sizes, origin_of
from replicator_source_mysql.connect.connection import execute, variables

if TYPE_CHECKING:
    import pymysql

    from replicator_source_mysql.offset import MySqlOffset

_DAY = 86400


def source_health(connection: pymysql.Connection[Any], offset: MySqlOffset | None) -> SourceHealth:
    """What the server says; nothing of an offset of another server, as after a failover."""
    [[clock]] = execute(connection, "SELECT UNIX_TIMESTAMP(NOW(6))")
    waiting = None
    if offset is not None and offset.server == origin_of(connection).identity:
        sizes = file_sizes(connection)
        if offset.file in sizes:
            after = list(sizes)[list(sizes).index(offset.file) :]
            waiting = max(0, sum(sizes[file] for file in after) - offset.position)
    seconds, setting = _retention(connection)
    return SourceHealth(float(clock), waiting_bytes=waiting, retention_seconds=seconds, limited_by=setting)


def _retention(connection: pymysql.Connection[Any]) -> tuple[float | None, str]:
    """How long binlogs are kept, None for ever; and the setting that says it."""
    found = variables(connection, "binlog_expire_logs_seconds", "expire_logs_days", "binlog_expire_logs_auto_purge")
    if found.get("binlog_expire_logs_auto_purge", "ON").upper() == "OFF":
        return None, ""
    for setting, unit in (("binlog_expire_logs_seconds", 1), ("expire_logs_days", _DAY)):
        if kept := unit * float(found.get(setting) or 0):
            return kept, setting
    return None, ""
