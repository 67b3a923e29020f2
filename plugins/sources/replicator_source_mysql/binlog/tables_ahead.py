"""Checks that the server has what single tables have beyond the saved offset, after a failover or a restore in place."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from replicator_sdk.errors import HistoryLostError, TableHistoryLostError
from replicator_sdk.schema import TableId
from replicator_sdk.source import EventReaderDefinition
from replicator_source_mysql.binlog.dump.binlog_stream import BinlogStream
from replicator_source_mysql.binlog.dump.log_fingerprint import LogFingerprint, is_same_file
from replicator_source_mysql.binlog.event import FilePosition
from replicator_source_mysql.binlog.log_availability import Origin, covers, executed_gtids, has_position, other_history
from replicator_source_mysql.connect.connection import Endpoint
from replicator_source_mysql.connect.diagnosis import diagnosed
from replicator_source_mysql.offset import MySqlOffset

if TYPE_CHECKING:
    import pymysql

_SECONDS: Final = 10.0


class TablesAhead:
    """Compares the tables' own positions with the server's log.

    A table is ahead of the saved offset while another one holds it, or after a run that was killed. A server that lacks some of
    those transactions, since it is another one or was restored in place, gives others the same numbers, which the table would
    take for what it has.

    Args:
        connection: To the server.
        endpoint: The same server, for connections that read its log.
        origin: Its identity.
        server_id: The pipeline's, as a replica.
    """

    def __init__(
        self, connection: pymysql.Connection[Any], endpoint: Endpoint, origin: Origin, *, server_id: int
    ) -> None:
        self._connection = connection
        self._endpoint = endpoint
        self._origin = origin
        self._server_id = server_id
        self._executed = executed_gtids(connection, origin)
        self._in_log: dict[str, bool] = {}
        self._files: dict[tuple[str, int], bool] = {}

    def check(self, offset: MySqlOffset, definition: EventReaderDefinition) -> None:
        """Check that the server has executed what each table holds already.

        Args:
            offset: The saved offset, which was found in the log: by its numbers, and on its own server by its proof.
            definition: The tables.

        Raises:
            HistoryLostError: RPL-3785, when another server lacks transactions before `offset`: no table is to be copied again for
                that.
            TableHistoryLostError: RPL-3814, for a table of which the server lacks transactions.
        """
        if offset.server != self._origin.identity and not self._is_in_log(str(offset.gtids)):
            raise other_history(offset)
        here: dict[TableId, MySqlOffset] = {}
        for table in definition.tables.keys() - definition.stopped:
            reached = definition.reached(table)
            if not isinstance(reached, MySqlOffset):
                continue
            if reached.server == self._origin.identity:
                here[table] = reached
            elif not covers(self._executed, reached) or not self._is_in_log(str(reached.gtids)):
                raise _lost(table, reached)
        self._check_own(offset, here)

    def _check_own(self, offset: MySqlOffset, tables: Mapping[TableId, MySqlOffset]) -> None:
        """Check positions of this server's own log.

        A log that has a transaction has all before it: positions before one that was recognised are not compared. Where the
        log lacks one, the tables before it are checked by the next attempt.
        """
        is_own = offset.server == self._origin.identity
        for table, reached in sorted(tables.items(), key=lambda each: each[1], reverse=True):
            if is_own and not offset < reached:
                return
            if not self._is_own_file(reached):
                raise _lost(table, reached)
            if LogFingerprint.parse(reached.proof).begin:
                return

    def _is_own_file(self, reached: MySqlOffset) -> bool:
        if not has_position(self._connection, self._origin, reached):
            return False
        place, proof = FilePosition(reached.file, reached.position), LogFingerprint.parse(reached.proof)
        if proof.begin:
            return is_same_file(self._endpoint, self._origin.server, place, proof, server_id=self._server_id)
        key = (place.file, proof.created)  # of all tables that have it from their copies
        if key not in self._files:
            self._files[key] = is_same_file(
                self._endpoint, self._origin.server, place, proof, server_id=self._server_id
            )
        return self._files[key]

    def _is_in_log(self, gtids: str) -> bool:
        """Whether the log goes through these transactions; of MariaDB's only the server itself knows it."""
        if self._origin.server.is_mariadb and gtids and gtids not in self._in_log:
            self._in_log[gtids] = self._begins_there(gtids)
        return self._in_log.get(gtids, True)

    def _begins_there(self, gtids: str) -> bool:
        try:
            stream = BinlogStream.open(
                self._endpoint, self._origin.server, gtids, server_id=self._server_id, heartbeat_seconds=0.5
            )
            with contextlib.closing(stream), diagnosed(f"looking for {gtids} in the log"):
                deadline = time.monotonic() + _SECONDS
                while stream.heard is None and time.monotonic() < deadline:
                    if stream.receive(0.2) and len(stream.take(1)):
                        return True
        except HistoryLostError:
            return False
        return True


def _lost(table: TableId, reached: MySqlOffset) -> TableHistoryLostError:
    return TableHistoryLostError(
        "the target has transactions of the table that this server lacks: it lost them in a failover, or was restored from a copy",
        code="RPL-3814",
        table=str(table),
        position=str(reached),
        hint="point the pipeline at a server that has them, or restart it, which copies the table again",
    )
