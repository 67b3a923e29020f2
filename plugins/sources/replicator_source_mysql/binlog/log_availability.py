"""The end of the server's binlog, and whether the log after a saved offset is still available."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from replicator_sdk.errors import HistoryLostError, NeedsUserError, RetryableError
from replicator_source_mysql.connect.connection import Server, execute, named_rows, server_of, variables
from replicator_source_mysql.gtid import GtidPosition, GtidProgress, GtidSet
from replicator_source_mysql.hints import COPY_AGAIN, HEAL
from replicator_source_mysql.offset import MySqlOffset

if TYPE_CHECKING:
    import pymysql

_NO_EVENT_THERE = 1220
_WRAP = 1 << 32
"""SHOW BINLOG EVENTS and BINLOG_GTID_POS know no positions beyond it."""
_BETWEEN_TRANSACTIONS = frozenset(
    {"Format_desc", "Previous_gtids", "Gtid", "Anonymous_Gtid", "Gtid_tagged_log_event", "Incident", "Rotate", "Stop"}
)
_GTID_NEXT = re.compile(r"GTID_NEXT\s*=\s*'([^']+:\d+)'")


@dataclass(frozen=True, slots=True)
class Origin:
    """The server that offsets come from.

    Attributes:
        server: Version and make.
        identity: `server_uuid`; MariaDB, which has none, its server id.
        has_gtids: Whether every transaction has a GTID: always in MariaDB, with `gtid_mode=ON` in MySQL.
    """

    server: Server
    identity: str
    has_gtids: bool

    def gtids(self, text: str) -> GtidProgress:
        """Progress in this make's notation, also when there is none yet."""
        return GtidPosition.parse(text) if self.server.is_mariadb else GtidSet.parse(text)

    def progress_at(self, offset: MySqlOffset) -> GtidProgress:
        """The GTIDs of `offset`; empty ones are of this make, which their stored form does not show."""
        return offset.gtids or self.gtids("")


def origin_of(connection: pymysql.Connection[Any]) -> Origin:
    """The identity of this server in offsets."""
    server = server_of(connection)
    found = variables(connection, "server_uuid", "server_id", "gtid_mode")
    if server.is_mariadb:
        return Origin(server, f"mariadb-{found['server_id']}", has_gtids=True)
    return Origin(server, found["server_uuid"], found.get("gtid_mode", "OFF").upper() == "ON")


def check_same(connection: pymysql.Connection[Any], origin: Origin) -> None:
    """Check that this is a connection to the same server: after a failover a name or proxy may lead to another one.

    Raises:
        RetryableError: When it is another one.
    """
    if origin_of(connection).identity != origin.identity:
        raise RetryableError(
            "the address leads to another server than a moment ago",
            code="RPL-3853",
            hint="a failover seems to be going on; the next attempt checks whether the pipeline can go on at the other server",
        )


def current_offset(connection: pymysql.Connection[Any], origin: Origin) -> MySqlOffset:
    """The end of the binlog: every transaction whose commit was acknowledged before the call is before it.

    Raises:
        NeedsUserError: When there is no binlog.
    """
    has_new_words = not origin.server.is_mariadb and origin.server.number >= (8, 2, 0)
    rows = named_rows(connection, "SHOW BINARY LOG STATUS" if has_new_words else "SHOW MASTER STATUS")
    if not rows:
        raise NeedsUserError(
            "the server writes no binlog",
            code="RPL-3806",
            hint="start the server with --log-bin and binlog_format=ROW",
        )
    file, position = str(rows[0]["file"]), int(rows[0]["position"])
    if origin.server.is_mariadb:
        gtids: GtidProgress = _mariadb_gtids(connection, file, position) or GtidPosition()
    else:
        gtids = GtidSet.parse(rows[0].get("executed_gtid_set", "") if origin.has_gtids else "")
    return MySqlOffset(file, position, gtids, origin.identity)


def _mariadb_gtids(connection: pymysql.Connection[Any], file: str, position: int) -> GtidPosition | None:
    """The GTIDs before a position; None inside an event, and beyond 4 GiB, where the server does not say."""
    found = execute(connection, "SELECT BINLOG_GTID_POS(%s, %s)", [file, position])[0][0]
    return None if found is None else GtidPosition.parse(found)


def check_readable(connection: pymysql.Connection[Any], origin: Origin, offset: MySqlOffset) -> None:
    """Check that the log after `offset` is available, on the server it comes from or on one that has executed the same.

    Raises:
        HistoryLostError: When it is not, naming file and retention. Reading never begins at another position instead, since
            changes would be missing without notice.
    """
    if offset.server == origin.identity:
        _check_file(connection, origin, offset)
    else:
        _check_gtids(connection, origin, offset)


def _check_file(connection: pymysql.Connection[Any], origin: Origin, offset: MySqlOffset) -> None:
    files = file_sizes(connection)
    if offset.file not in files:
        raise HistoryLostError(
            f"the binlog file {offset.file} is gone from the server, which holds {_range(files)} and keeps files for"
            f" {_retention(connection)}",
            code="RPL-3782",
            position=str(offset),
            hint=f"raise binlog_expire_logs_seconds above the longest stop; then {HEAL}",
        )
    if not has_position(connection, origin, offset):
        raise other_file(offset)


def has_position(connection: pymysql.Connection[Any], origin: Origin, offset: MySqlOffset) -> bool:
    """Whether the server, which `offset` comes from, has its file and a place between two transactions there, by its numbers."""
    size = file_sizes(connection).get(offset.file, -1)
    return size >= offset.position and _is_same_history(connection, origin, offset)


def file_sizes(connection: pymysql.Connection[Any]) -> dict[str, int]:
    """The sizes of the server's binlog files, in their order."""
    return {str(row[0]): int(row[1]) for row in execute(connection, "SHOW BINARY LOGS")}


def other_file(offset: MySqlOffset) -> HistoryLostError:
    """The file of the offset's name is another one, or has another transaction at its position."""
    return HistoryLostError(
        f"the server's binlog was reset, or the server was restored from a copy: its {offset.file} is not the file that was"
        " read before",
        code="RPL-3783",
        position=str(offset),
        hint=COPY_AGAIN,
    )


def _is_same_history(connection: pymysql.Connection[Any], origin: Origin, offset: MySqlOffset) -> bool:
    """Whether the offset is still between two transactions, with the GTIDs before it that it names.

    A server that was reset or restored in place writes files of the same names, and numbers its transactions as before.
    """
    if origin.server.is_mariadb:
        if offset.position < _WRAP:
            return _mariadb_gtids(connection, offset.file, offset.position) == origin.progress_at(offset)
        return covers(executed_gtids(connection, origin), offset)
    if origin.has_gtids and offset.gtids and not covers(executed_gtids(connection, origin), offset):
        return False
    return offset.position >= _WRAP or _is_followed_by_another(connection, offset)


def _is_followed_by_another(connection: pymysql.Connection[Any], offset: MySqlOffset) -> bool:
    """Whether a transaction that the offset does not name begins at its position, or the file ends there."""
    from pymysql import MySQLError

    query = "SHOW BINLOG EVENTS IN %s FROM %s LIMIT 1"
    try:
        events = named_rows(connection, query, [offset.file, offset.position])
    except MySQLError as error:
        if error.args[0] == _NO_EVENT_THERE:
            return False
        raise
    if not events:
        return True
    if events[0]["event_type"] not in _BETWEEN_TRANSACTIONS:
        return False
    gtid = _GTID_NEXT.search(str(events[0]["info"]))
    return gtid is None or not offset.gtids.covers(GtidSet.parse(gtid[1]))


def _check_gtids(connection: pymysql.Connection[Any], origin: Origin, offset: MySqlOffset) -> None:
    """For another server than the offset's: after a failover."""
    if not (origin.has_gtids and offset.gtids):
        raise HistoryLostError(
            "this is another server than the one the offset comes from, and without GTIDs its position in this one's"
            " binlog cannot be found",
            code="RPL-3784",
            position=str(offset),
            hint=f"point the pipeline back at its server (gtid_mode=ON makes failover possible), or {COPY_AGAIN}",
        )
    executed = executed_gtids(connection, origin)
    if not covers(executed, offset):
        raise other_history(offset)
    _check_domains(executed, offset)
    purged = variables(connection, "gtid_purged").get("gtid_purged", "") if not origin.server.is_mariadb else ""
    if purged and not offset.gtids.covers(GtidSet.parse(purged)):
        raise HistoryLostError(
            "the server has purged transactions that were not replicated yet; it keeps binlogs for"
            f" {_retention(connection)}",
            code="RPL-3782",
            position=str(offset),
            hint=f"raise binlog_expire_logs_seconds above the longest stop; then {HEAL}",
        )


def other_history(offset: MySqlOffset) -> HistoryLostError:
    """The server lacks transactions before the offset."""
    return HistoryLostError(
        "this server has not executed what was replicated already: it is a foreign server, or a replica that lost"
        " transactions in a failover",
        code="RPL-3785",
        position=str(offset),
        hint=f"point the pipeline at a server that has all of it, or {COPY_AGAIN}",
    )


def _check_domains(executed: GtidProgress, offset: MySqlOffset) -> None:
    """MariaDB replicates its domains beside each other, so two servers may have their transactions in another order.

    A table that is further than the saved offset has a position in the former server's order, which says nothing here.
    """
    if not (isinstance(executed, GtidPosition) and isinstance(offset.gtids, GtidPosition)):
        return
    ahead = executed.ahead_of(offset.gtids)
    if len(ahead) > 1:
        raise HistoryLostError(
            "this is another server than the one the offset comes from, and transactions of several GTID domains"
            f" ({', '.join(ahead)}) came after it: the two servers may have them in another order",
            code="RPL-3799",
            position=str(offset),
            hint=f"point the pipeline back at its server, or {COPY_AGAIN}",
        )


def executed_gtids(connection: pymysql.Connection[Any], origin: Origin) -> GtidProgress:
    """What is in this server's binlog, or was."""
    name = "gtid_binlog_pos" if origin.server.is_mariadb else "gtid_executed"
    return origin.gtids(str(execute(connection, f"SELECT @@GLOBAL.{name}")[0][0] or ""))


def covers(executed: GtidProgress, offset: MySqlOffset) -> bool:
    """Whether all transactions before `offset` are among `executed`."""
    return type(offset.gtids) is type(executed) and executed.covers(offset.gtids)


def _range(files: Collection[str]) -> str:
    return f"{next(iter(files))} to {list(files)[-1]}" if files else "none"


def _retention(connection: pymysql.Connection[Any]) -> str:
    found = variables(connection, "binlog_expire_logs_seconds", "expire_logs_days")
    seconds = int(found.get("binlog_expire_logs_seconds") or 0)
    if seconds:
        return f"{seconds / 86400:g} days"
    days = float(found.get("expire_logs_days") or 0)
    return f"{days:g} days" if days else "until they are purged"
