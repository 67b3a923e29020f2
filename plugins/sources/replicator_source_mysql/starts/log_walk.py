"""Goes through the groups (transactions and statements) of a server's binlog, without decoding rows."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from replicator_sdk.errors import NeedsUserError
from replicator_source_mysql.binlog.dump.binlog_stream import BinlogStream
from replicator_source_mysql.binlog.event import FilePosition
from replicator_source_mysql.binlog.log_availability import Origin
from replicator_source_mysql.binlog.query_event import Query
from replicator_source_mysql.connect.connection import Endpoint
from replicator_source_mysql.connect.diagnosis import diagnosed
from replicator_source_mysql.ddl.lex.session import Session
from replicator_source_mysql.gtid import Gtid
from replicator_source_mysql.offset import MySqlOffset
from replicator_source_mysql.streaming.transactions import MarkKind, TransactionScanner
from replicator_source_mysql.streaming.xa_transactions import Xid

_EVENTS = 32_768
_WAIT_SECONDS = 0.5
_STATEMENTS = frozenset({MarkKind.STATEMENT})


@dataclass(frozen=True, slots=True)
class Group:
    """One group.

    Attributes:
        begin: Where it begins.
        end: Where it ends.
        timestamp: When it was committed, microseconds since 1970 UTC; whole seconds where the log says no more.
        gtid: Its identifier, where it has one.
        statements: Its statements that are no row changes, each with the place after it.
        prepares: The distributed transaction that it prepares.
        commits: The one that it commits, whose rows are where it was prepared.
    """

    begin: FilePosition
    end: FilePosition
    timestamp: int
    gtid: Gtid | None
    statements: Sequence[tuple[Query, FilePosition]]
    prepares: Xid | None = None
    commits: Xid | None = None


@dataclass(frozen=True, slots=True)
class LogWalk:
    """Goes through one server's log, as a replica.

    Attributes:
        endpoint: The server.
        origin: Its identity.
        usual: A session of it, for what a statement's event does not contain.
        server_id: Our id among its replicas; no other dump of that id is open meanwhile.
    """

    endpoint: Endpoint
    origin: Origin
    usual: Session
    server_id: int

    def groups(self, start: FilePosition, end: FilePosition) -> Iterator[Group]:
        """The groups that begin between `start`, which is between two groups, and `end`.

        Raises:
            HistoryLostError: When the server does not have the log from `start` on.
            ReplicatorError: When the server cannot be read.
        """
        stream = BinlogStream.open(
            self.endpoint, self.origin.server, start, server_id=self.server_id, heartbeat_seconds=0.5
        )
        scanner, statements = TransactionScanner(self.usual), list[tuple[Query, FilePosition]]()
        with contextlib.closing(stream), diagnosed(f"reading the log at {start}"):
            while stream.heard is None or self.is_before(stream.heard, end):
                events = stream.take(_EVENTS) if stream.receive(_WAIT_SECONDS) else None
                for mark in scanner.scan(events) if events is not None and len(events) else ():
                    if mark.kind in _STATEMENTS and mark.query is not None:
                        statements.append((mark.query, mark.place))
                    if not mark.ends_group:
                        continue
                    if not self.is_before(mark.begin, end):
                        return
                    prepares = mark.xid if mark.kind is MarkKind.XA_PREPARED else None
                    commits = mark.xid if mark.kind is MarkKind.XA_COMMIT else None
                    said = tuple(statements)
                    yield Group(mark.begin, mark.place, mark.timestamp, mark.gtid, said, prepares, commits)
                    statements.clear()
                    if not self.is_before(mark.place, end):
                        return

    def statements(self, start: FilePosition, end: FilePosition) -> list[tuple[Query, MySqlOffset]]:
        """The statements of these groups that are no row changes, each with the offset after it.

        Raises:
            NeedsUserError: RPL-3816 when a distributed transaction is committed there that was prepared before `start`: its rows are
                not read.
            ReplicatorError: As `groups`.
        """
        found: list[tuple[Query, MySqlOffset]] = []
        prepared: set[Xid] = set()
        for group in self.groups(start, end) if self.is_before(start, end) else ():
            found += [(query, self.offset(after)) for query, after in group.statements]
            if group.prepares is not None:
                prepared.add(group.prepares)
            if group.commits is not None and group.commits not in prepared:
                raise NeedsUserError(
                    f"no run can begin at {start}: a distributed transaction was prepared there already that was committed at {group.begin}",
                    code="RPL-3816",
                    hint=f'`snapshot.from`: give a position before it was prepared, or "{group.end}", which is after its commit',
                )
        return found

    def is_before(self, one: FilePosition, other: FilePosition) -> bool:
        """Whether a place in the log is before another."""
        return self.offset(one) < self.offset(other)

    def offset(self, place: FilePosition) -> MySqlOffset:
        """The place as an offset without GTIDs, to be compared with others of this server."""
        return MySqlOffset(place.file, place.position, server=self.origin.identity)
