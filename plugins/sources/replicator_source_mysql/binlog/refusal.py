"""Events that stop the reading: what is not known, what tells of a gap, what cannot be decoded."""

from __future__ import annotations

from replicator_sdk.errors import BugError, HistoryLostError, NeedsUserError, ReplicatorError
from replicator_source_mysql.advice import COPY_AGAIN
from replicator_source_mysql.binlog.event import STATEMENT_LOADS, Kind

_REPORT = "report it with the server's version; the log was not read past this event"


def refused(kind: int, place: str) -> ReplicatorError:
    """Why an event of this kind stops the reading."""
    if kind == Kind.INCIDENT:
        return HistoryLostError(
            "the server wrote an incident into its log: changes are missing there",
            code="RPL-3708",
            position=place,
            hint=f"look for the cause in the server's error log, then {COPY_AGAIN}",
        )
    if kind in STATEMENT_LOADS:
        return NeedsUserError(
            "a LOAD DATA was logged as a statement, so that its rows are not in the log",
            code="RPL-3709",
            position=place,
            hint=f"set binlog_format=ROW for all sessions, then {COPY_AGAIN}",
        )
    return BugError(f"unknown event type {kind} at {place}", code="RPL-3702", position=place, hint=_REPORT)


def out_of_place(what: str, place: str) -> BugError:
    """The stream's framing or positions do not fit together."""
    return BugError(f"the stream of events is broken: {what}", code="RPL-3704", position=place, hint=_REPORT)


def damaged(place: str) -> NeedsUserError:
    """An event's checksum does not fit its bytes."""
    return NeedsUserError(
        f"the event that ends at {place} is damaged: its checksum does not fit its bytes",
        code="RPL-3707",
        position=place,
        hint="if it comes back, `mysqlbinlog --verify-binlog-checksum` on the server tells whether the file or the "
        f"network is bad; when the file is bad, {COPY_AGAIN}",
    )


def broken_event(what: str, place: str, table: str | None = None) -> BugError:
    """An event's body does not keep to its format."""
    return BugError(f"the log holds {what}", code="RPL-3710", table=table, position=place, hint=_REPORT)
