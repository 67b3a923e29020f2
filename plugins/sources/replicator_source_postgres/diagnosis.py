"""Turns errors of server and driver into `ReplicatorError`s: the class decides the recovery, the hint says the next step."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from replicator_sdk.authoring.driver_errors import translated_errors
from replicator_sdk.errors import HistoryLostError, NeedsUserError, ReplicatorError, RetryableError

if TYPE_CHECKING:
    import psycopg

_Cause = tuple[type[ReplicatorError], str, str, tuple[str, ...], tuple[str, ...]]
"""The error's class and code, the next step, and the SQLSTATEs and words that identify it.

The words are the server's or libpq's own, in lower case; they are matched before the SQLSTATE, which may be too general.
"""

_TLS_MISSING = ("server does not support ssl",)
_TLS_OTHER_NAME = ("does not match host name",)
_TLS_REFUSED = (
    "certificate",
    "sslmode",
    "could not create ssl context",
    "unknown ca",
    "handshake failure",
    "protocol version",
    "unsupported protocol",
    "no protocols available",
    "wrong version number",
    "no shared cipher",
    "no cipher match",
    "dh key too small",
)
"""Messages of libpq and OpenSSL about a failed verification or negotiation, the most particular ones first.

Every other TLS error (unexpected end of file, connection reset, bad record) is a lost connection.
"""

_CAUSES: tuple[_Cause, ...] = (
    (
        NeedsUserError,
        "RPL-3101",
        "check user and password of the connection, and pg_hba.conf (it must allow this user and, for the log, replication)",
        ("28P01", "28000"),
        (
            "password authentication failed",
            "no password supplied",
            "no pg_hba.conf entry",
            "is not permitted to log in",
        ),
    ),
    (
        NeedsUserError,
        "RPL-3103",
        "`replicator assess` prints the grants that are missing",
        ("42501",),
        ("must be superuser or replication role", "permission denied to start wal sender"),
    ),
    (
        NeedsUserError,
        "RPL-3106",
        "turn TLS on at the server (ssl = on, with its certificate), or set `sslMode` to disable, which sends everything in clear",
        (),
        _TLS_MISSING,
    ),
    (
        NeedsUserError,
        "RPL-3106",
        "write as `host` a name that is in the server's certificate",
        (),
        _TLS_OTHER_NAME,
    ),
    (
        NeedsUserError,
        "RPL-3106",
        "set `sslRootCert` to a PEM file with the certificate of the authority that signed the server's",
        (),
        _TLS_REFUSED,
    ),
    (
        HistoryLostError,
        "RPL-3202",
        "raise max_slot_wal_keep_size; then have every table copied again: `replicator reset PIPELINE`",
        ("58P01",),
        (
            "can no longer get changes from replication slot",
            "cannot read from logical replication slot",
            "this slot has been invalidated",
            "has already been removed",
        ),
    ),
    (
        NeedsUserError,
        "RPL-3105",
        "raise max_replication_slots and max_wal_senders at the source, or drop unused slots",
        ("53400",),
        ("replication slots are in use", "number of requested standby connections exceeds"),
    ),
    (
        RetryableError,
        "RPL-3104",
        "another session uses the slot: stop the other run, or wait until the server notices that it has ended",
        ("55006",),
        ("is active for pid",),
    ),
    (
        NeedsUserError,
        "RPL-3111",
        "ALTER SYSTEM SET wal_level = 'logical'; and restart the server",
        (),
        ("logical decoding requires",),
    ),
    (
        NeedsUserError,
        "RPL-3108",
        "check the names of tables, publication and slot at the source",
        ("42704", "42P01", "42703", "3F000"),
        (),
    ),
    (
        RetryableError,
        "RPL-3109",
        "look for a session at the source that holds a lock on the table, and for a load that makes the server slow",
        ("57014", "55P03"),
        (),
    ),
)
_NO_DATABASE: _Cause = (
    NeedsUserError,
    "RPL-3102",
    "check the database's name in the connection",
    ("3D000",),
    (),
)
_NO_PUBLICATION: _Cause = (
    NeedsUserError,
    "RPL-3221",
    "it was created after the saved offset: if `publication` was edited, put it back; else drop the slot if `slot` names it, and `replicator reset PIPELINE`",
    (),
    (),
)
_UNREACHABLE: _Cause = (
    RetryableError,
    "RPL-3107",
    "check that the server runs, and `host`, `port` and the network between",
    (),
    (),
)
_OTHER: _Cause = (
    RetryableError,
    "RPL-3110",
    "see the server's log; what helps follows from the message",
    (),
    (),
)


def diagnosed(doing: str) -> AbstractContextManager[None]:
    """Raises errors of the driver inside the block as `ReplicatorError`s; `doing` says what was being done."""
    from psycopg import Error

    return translated_errors(Error, lambda error: diagnose(error, doing))


def diagnose(error: psycopg.Error, doing: str) -> ReplicatorError:
    """The `ReplicatorError` for a driver's error; has the server's primary message, never its detail (it may show a row)."""
    words = error.diag.message_primary or " ".join(str(error).split())
    state = error.sqlstate or ""
    kind, code, hint, *_ = _cause(state, words.lower())
    return kind(f"{doing}: {words}" + (f" (SQLSTATE {state})" if state else ""), code=code, hint=hint)


def _cause(state: str, words: str) -> _Cause:
    if state == "42704" and words.startswith("publication "):
        return _NO_PUBLICATION
    for cause in _CAUSES:
        # An error with an SQLSTATE comes from the server: TLS works, and the words may be the name of a table.
        if any(text in words for text in cause[4]) and not (state and cause[1] == "RPL-3106"):
            return cause
    for cause in (*_CAUSES, _NO_DATABASE):
        if state in cause[3]:
            return cause
    if "database" in words and "does not exist" in words:
        return _NO_DATABASE
    return _UNREACHABLE if not state or state[:2] in {"08", "57"} else _OTHER
