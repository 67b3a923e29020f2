"""Errors of server and driver as ours: the class says the recovery, the hint the next step."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from replicator_sdk.errors import HistoryLostError, NeedsUserError, ReplicatorError, RetryableError

if TYPE_CHECKING:
    import psycopg

_Kind = tuple[type[ReplicatorError], str, str]

_REFUSED: _Kind = (
    NeedsUserError,
    "RPL-3101",
    "check user and password of the connection, and pg_hba.conf (it must allow this user and, for the log, replication)",
)
_NO_DATABASE: _Kind = (NeedsUserError, "RPL-3102", "check the database's name in the connection")
_NO_RIGHT: _Kind = (NeedsUserError, "RPL-3103", "`replicator assess` prints the grants that are missing")
_BUSY: _Kind = (
    RetryableError,
    "RPL-3104",
    "another session uses the slot: stop the other run, or wait until the server notices that it is gone",
)
_FULL: _Kind = (
    NeedsUserError,
    "RPL-3105",
    "raise max_replication_slots and max_wal_senders at the source, or drop slots nobody uses",
)
_LOST: _Kind = (
    HistoryLostError,
    "RPL-3202",
    "the log after the saved offset is gone; take a new snapshot (a new generation), and raise max_slot_wal_keep_size",
)
_TLS: _Kind = (
    NeedsUserError,
    "RPL-3106",
    "give sslRootCert the server's authority and use the name in its certificate; sslMode disable sends everything in clear",
)
_UNREACHABLE: _Kind = (RetryableError, "RPL-3107", "check host, port and network; the attempt is repeated")
_GONE: _Kind = (NeedsUserError, "RPL-3108", "check the names of tables, publication and slot at the source")
_WAL_LEVEL: _Kind = (
    NeedsUserError,
    "RPL-3111",
    "ALTER SYSTEM SET wal_level = 'logical'; and restart the server",
)
_TIMEOUT: _Kind = (RetryableError, "RPL-3109", "the server was too slow or a lock was held; the attempt is repeated")
_OTHER: _Kind = (RetryableError, "RPL-3110", "the attempt is repeated; see the server's log if it goes on")

_BY_STATE: dict[str, _Kind] = {
    "28P01": _REFUSED,
    "28000": _REFUSED,
    "3D000": _NO_DATABASE,
    "42501": _NO_RIGHT,
    "55006": _BUSY,
    "53400": _FULL,
    "58P01": _LOST,
    "42704": _GONE,
    "42P01": _GONE,
    "42703": _GONE,
    "3F000": _GONE,
    "57014": _TIMEOUT,
    "55P03": _TIMEOUT,
}

_BY_TEXT: tuple[tuple[str, _Kind], ...] = (
    ("password authentication failed", _REFUSED),
    ("no password supplied", _REFUSED),
    ("no pg_hba.conf entry", _REFUSED),
    ("is not permitted to log in", _REFUSED),
    ("must be superuser or replication role", _NO_RIGHT),
    ("permission denied to start wal sender", _NO_RIGHT),
    ("certificate", _TLS),
    ("server does not support ssl", _TLS),
    ("ssl error", _TLS),
    ("sslmode", _TLS),
    ("can no longer get changes from replication slot", _LOST),
    ("cannot read from logical replication slot", _LOST),
    ("this slot has been invalidated", _LOST),
    ("has already been removed", _LOST),
    ("replication slots are in use", _FULL),
    ("number of requested standby connections exceeds", _FULL),
    ("is active for pid", _BUSY),
    ("logical decoding requires", _WAL_LEVEL),
)
"""The server's or libpq's own words, lower case, where there is no SQLSTATE or it says too little."""


@contextlib.contextmanager
def diagnosed(doing: str) -> Iterator[None]:
    """Errors of the driver inside the block leave it as `ReplicatorError`s; `doing` says where."""
    from psycopg import Error

    try:
        yield
    except Error as err:
        raise diagnose(err, doing) from None


def diagnose(error: psycopg.Error, doing: str) -> ReplicatorError:
    """What a driver's error means; carries the server's first line, never its detail (which may show a row)."""
    words = error.diag.message_primary or " ".join(str(error).split())
    state = error.sqlstate or ""
    kind, code, hint = _classify(state, words.lower())
    return kind(f"{doing}: {words}" + (f" (SQLSTATE {state})" if state else ""), code=code, hint=hint)


def _classify(state: str, words: str) -> _Kind:
    for text, kind in _BY_TEXT:
        if text in words:
            return kind
    if state in _BY_STATE:
        return _BY_STATE[state]
    if "database" in words and "does not exist" in words:
        return _NO_DATABASE
    return _UNREACHABLE if not state or state[:2] in {"08", "57"} else _OTHER
