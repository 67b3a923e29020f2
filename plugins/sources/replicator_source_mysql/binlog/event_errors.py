"""Errors of events that stop reading: unknown ones, those that report a gap, those that cannot be decoded."""

from __future__ import annotations

from replicator_sdk.errors import BugError, HistoryLostError, NeedsUserError, ReplicatorError
from replicator_source_mysql.binlog.event import STATEMENT_LOADS, Kind
from replicator_source_mysql.hints import COPY_AGAIN

INCIDENT = "RPL-3708"
"""The code of an incident that the server wrote into its log."""

_REPORT = "report it with the server's version; the log was not read past this event"


def refused(kind: int, place: str) -> ReplicatorError:
    """The error of an event of a kind that stops reading."""
    if kind == Kind.INCIDENT:
        return HistoryLostError(
            "the server wrote an incident into its log: changes are missing there",
            code=INCIDENT,
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
    """The error of a stream whose framing or positions do not fit together."""
    return BugError(f"the stream of events is broken: {what}", code="RPL-3704", position=place, hint=_REPORT)


def damaged(place: str) -> NeedsUserError:
    """The error of an event whose checksum does not fit its bytes."""
    return NeedsUserError(
        f"the event that ends at {place} is damaged: its checksum does not fit its bytes",
        code="RPL-3707",
        position=place,
        hint="if it happens again, `mysqlbinlog --verify-binlog-checksum` on the server shows whether the file or the "
        f"network is bad; when the file is bad, {COPY_AGAIN}",
    )


def broken_event(what: str, place: str, table: str | None = None) -> BugError:
    """The error of an event whose body is not in its format."""
    return BugError(f"the log holds {what}", code="RPL-3710", table=table, position=place, hint=_REPORT)
