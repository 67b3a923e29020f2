"""Finds transactions in the stream of events: where each commits, and the statements between row changes.

Only the few events that begin, end or interrupt a transaction are looked at one by one; rows and table maps never.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from replicator_source_mysql.binlog.dump.log_fingerprint import LogFingerprint, event_digest
from replicator_source_mysql.binlog.event import Events, FilePosition, Kind
from replicator_source_mysql.binlog.query_event import Query, parse_query
from replicator_source_mysql.binlog.transaction_events import (
    GroupStart,
    XaStatement,
    mariadb_group,
    mysql_group,
    tagged_group,
    xa_prepare,
    xa_statement,
)
from replicator_source_mysql.ddl.lex.session import Session
from replicator_source_mysql.gtid import Gtid

GROUP_STARTS = (Kind.GTID, Kind.ANONYMOUS_GTID, Kind.GTID_TAGGED, Kind.MARIADB_GTID)
_CONTROL = (*GROUP_STARTS, Kind.FORMAT_DESCRIPTION, Kind.QUERY, Kind.XID, Kind.XA_PREPARE)


_SAVEPOINT = re.compile(
    r"\s*(?:SAVEPOINT|ROLLBACK\s+(?:WORK\s+)?TO(?:\s+SAVEPOINT)?)\s+(.*?)\s*", re.IGNORECASE | re.DOTALL
)


class MarkKind(enum.Enum):
    """What is at a mark."""

    COMMIT = "commit"
    ROLLBACK = "rollback"
    """The end of a group that was rolled back: none of its rows count."""
    PARTIAL_ROLLBACK = "partial rollback"
    """ROLLBACK TO SAVEPOINT: rows between the two do not count."""
    STATEMENT = "statement"
    XA_BEGIN = "xa begin"
    XA_PREPARED = "xa prepared"
    XA_COMMIT = "xa commit"
    XA_ROLLBACK = "xa rollback"


@dataclass(frozen=True, slots=True)
class Mark:
    """One position between row changes.

    Attributes:
        kind: What is there.
        index: The rank of its event.
        place: Where that event ends.
        timestamp: When the group was committed, microseconds since 1970 UTC.
        gtid: The group's identifier.
        begin: Where the group begins.
        proof: What identifies its file and the group in it.
        ends_group: Whether the transaction ends there.
        query: The statement, for STATEMENT.
        xid: The distributed transaction, for the XA kinds.
        since: For the two kinds of rollback, the place after which rows do not count.
        first: The rank of the first event after `since`; 0 when that was in an earlier call.
    """

    kind: MarkKind
    index: int
    place: FilePosition
    timestamp: int
    gtid: Gtid | None
    begin: FilePosition
    proof: LogFingerprint
    ends_group: bool = True
    query: Query | None = None
    xid: tuple[int, bytes, bytes] | None = None
    since: FilePosition | None = None
    first: int = 0


class TransactionScanner:
    """Follows the groups of one stream; used by one thread.

    Args:
        usual: A session of the server, for what a statement's event does not contain.
    """

    def __init__(self, usual: Session) -> None:
        self._usual = usual
        self._group: GroupStart | None = None
        self._has_begun = False
        self._group_begin = FilePosition("", 0)
        self._group_digest = 0
        self._created = ("", 0)
        self._group_first = 0
        self._savepoints: dict[str, tuple[FilePosition, int]] = {}

    @property
    def is_open(self) -> bool:
        """Whether the events so far end inside a group."""
        return self._group is not None or self._has_begun

    @property
    def begin(self) -> FilePosition:
        """Where the group begins that is open, or that ended last."""
        return self._group_begin

    def created(self, file: str) -> int:
        """When a file was created, as its own first event says; 0 for another file than the one that is read."""
        return self._created[1] if self._created[0] == file else 0

    def scan(self, events: Events) -> Iterator[Mark]:
        """The marks of `events`, in order; to be taken to the end before the next call."""
        self._group_first = 0
        self._savepoints = {name: (place, 0) for name, (place, _) in self._savepoints.items()}
        for index in events.where(_CONTROL).tolist():
            kind = events.kind[index]
            if kind == Kind.FORMAT_DESCRIPTION:
                self._created = (events.place(index).file, int(events.timestamp[index]))
                continue
            if not self.is_open or kind in GROUP_STARTS:
                self._group_begin, self._group_first = events.begin_place(index), index
                self._savepoints.clear()
                self._group_digest = event_digest(events, index)
            if kind == Kind.QUERY:
                mark = self._query(events, index)
            elif kind == Kind.XID:
                mark = self._end(events, index, MarkKind.COMMIT)
            elif kind == Kind.XA_PREPARE:
                mark = self._xa(events, index, xa_prepare(events.body(index)))
            else:
                mark = self._begin(events, index)
            if mark is not None:
                yield mark

    def _begin(self, events: Events, index: int) -> Mark | None:
        kind, body = events.kind[index], events.body(index)
        if kind == Kind.GTID_TAGGED:
            self._group = tagged_group(str(events.place(index)))
        elif kind == Kind.MARIADB_GTID:
            self._group = mariadb_group(body, int(events.server_id[index]))
            self._has_begun = not self._group.is_standalone
            if self._group.is_prepared_xa:
                return self._mark(events, index, MarkKind.XA_BEGIN, ends_group=False)
        else:
            self._group = mysql_group(body, is_anonymous=bool(kind == Kind.ANONYMOUS_GTID))
        return None

    def _query(self, events: Events, index: int) -> Mark | None:
        tail = events.data[max(int(events.start[index]), int(events.end[index]) - 7) : events.end[index]].tobytes()
        if tail.endswith(b"\0BEGIN"):
            self._has_begun = True
            return None
        if tail.endswith(b"\0COMMIT"):
            return self._end(events, index, MarkKind.COMMIT)
        query = parse_query(events.body(index), self._usual)
        words = query.text.split(None, 2)
        verb = words[0].upper() if words else ""
        if verb == "XA" and (statement := xa_statement(query.text)) is not None:
            return self._xa(events, index, statement)
        if verb in {"SAVEPOINT", "RELEASE"} and self._has_begun:
            if verb == "SAVEPOINT":
                self._savepoints[_savepoint(query.text)] = events.place(index), index + 1
            return None
        kind = MarkKind.STATEMENT
        if verb == "ROLLBACK":
            kind = MarkKind.ROLLBACK if len(words) == 1 else MarkKind.PARTIAL_ROLLBACK
        since, first = self._group_begin, self._group_first
        if kind is MarkKind.PARTIAL_ROLLBACK:
            # One that was set before the group's first change may be missing in the log.
            since, first = self._savepoints.get(_savepoint(query.text), (since, first))
        if kind is MarkKind.ROLLBACK or not self._has_begun:
            mark = self._end(events, index, kind, query=query)
        else:
            mark = self._mark(events, index, kind, ends_group=False, query=query)
        return mark if kind is MarkKind.STATEMENT else replace(mark, since=since, first=first)

    def _xa(self, events: Events, index: int, statement: XaStatement) -> Mark | None:
        if statement.verb == "START":
            self._has_begun = True
            return self._mark(events, index, MarkKind.XA_BEGIN, ends_group=False)
        if statement.verb == "PREPARE":
            kind = MarkKind.COMMIT if statement.is_one_phase else MarkKind.XA_PREPARED
            return self._end(events, index, kind, xid=statement.xid)
        if statement.verb == "COMMIT":
            return self._end(events, index, MarkKind.XA_COMMIT, xid=statement.xid)
        if statement.verb == "ROLLBACK":
            return self._end(events, index, MarkKind.XA_ROLLBACK, xid=statement.xid)
        return None

    def _end(
        self,
        events: Events,
        index: int,
        kind: MarkKind,
        *,
        query: Query | None = None,
        xid: tuple[int, bytes, bytes] | None = None,
    ) -> Mark:
        mark = self._mark(events, index, kind, ends_group=True, query=query, xid=xid)
        self._group, self._has_begun = None, False
        return mark

    def _mark(
        self,
        events: Events,
        index: int,
        kind: MarkKind,
        *,
        ends_group: bool,
        query: Query | None = None,
        xid: tuple[int, bytes, bytes] | None = None,
    ) -> Mark:
        group = self._group or GroupStart(None)
        timestamp = group.timestamp if group.timestamp >= 0 else int(events.timestamp[index]) * 1_000_000
        begin = self._group_begin
        proof = LogFingerprint(self.created(begin.file), begin.position, self._group_digest)
        return Mark(kind, index, events.place(index), timestamp, group.gtid, begin, proof, ends_group, query, xid)


def _savepoint(text: str) -> str:
    """The name in SAVEPOINT or ROLLBACK TO; names are compared without case."""
    found = _SAVEPOINT.fullmatch(text)
    return found[1].strip("`").lower() if found else ""
