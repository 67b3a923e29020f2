"""Errors of server and driver as `ReplicatorError`: the class says the recovery, the hint the next step."""

from __future__ import annotations

import ssl
from contextlib import AbstractContextManager

from replicator_sdk.authoring.driver_errors import translated_errors
from replicator_sdk.errors import HistoryLostError, NeedsUserError, ReplicatorError, RetryableError
from replicator_source_mysql.hints import COPY_AGAIN, HEAL

_Kind = tuple[type[ReplicatorError], str, str]

_REFUSED: _Kind = (
    NeedsUserError,
    "RPL-3801",
    "check user, password and the hosts the account may connect from; MariaDB says the same where it demands TLS",
)
_NO_RIGHT: _Kind = (NeedsUserError, "RPL-3802", "`replicator assess` prints the grants that are missing")
_TLS: _Kind = (
    NeedsUserError,
    "RPL-3803",
    "set `sslRootCert` to a PEM file with the certificate of the authority that signed the server's",
)
_TLS_OTHER_NAME: _Kind = (NeedsUserError, "RPL-3803", "write as `host` a name that is in the server's certificate")
_TLS_MISSING: _Kind = (
    NeedsUserError,
    "RPL-3803",
    "turn TLS on at the server, or set `sslMode` to disable, which sends everything in clear",
)
_TLS_DEMANDED: _Kind = (
    NeedsUserError,
    "RPL-3803",
    "the server accepts no connection in clear: remove `sslMode` or set it to verify-full",
)
_UNREACHABLE: _Kind = (
    RetryableError,
    "RPL-3804",
    "check that the server runs, and `host`, `port` and the network between",
)
_LOST: _Kind = (
    HistoryLostError,
    "RPL-3805",
    f"the log after the saved offset is gone: raise binlog_expire_logs_seconds, then {HEAL}",
)
_DIVERGED: _Kind = (
    HistoryLostError,
    "RPL-3785",
    f"point the pipeline at a server that has all that was replicated, or {COPY_AGAIN}",
)
_OTHER_READER = f"read on from a replica that has all of the log (with GTIDs), or {COPY_AGAIN}"
_DAMAGED: _Kind = (
    NeedsUserError,
    "RPL-3812",
    f"the server cannot read its own log there: look at its disk, then {_OTHER_READER}",
)
_TOO_LARGE: _Kind = (
    NeedsUserError,
    "RPL-3813",
    f"set max_allowed_packet to 1073741824 at the server; if it says it again, its log is damaged: {_OTHER_READER}",
)
_NO_BINLOG: _Kind = (NeedsUserError, "RPL-3806", "start the server with --log-bin and binlog_format=ROW")
_SAME_ID: _Kind = (
    NeedsUserError,
    "RPL-3807",
    "another replica reads this server under the same server id: give the pipeline a serverId of its own",
)
_GONE: _Kind = (NeedsUserError, "RPL-3808", "`replicator tables` lists what there is; check the names in the pipeline")
_DROPPED: _Kind = (
    RetryableError,
    "RPL-3811",
    "the table was dropped or renamed just now: the attempt is repeated with the tables that are there then",
)
_BUSY: _Kind = (RetryableError, "RPL-3809", "look for a session at the source that holds a lock for long")
_OTHER: _Kind = (RetryableError, "RPL-3810", "look at the server's error log; what helps follows from the message")

_BY_NUMBER: dict[int, _Kind] = {
    1044: _NO_RIGHT,  # ER_DBACCESS_DENIED_ERROR
    1045: _REFUSED,  # ER_ACCESS_DENIED_ERROR
    1049: _GONE,  # ER_BAD_DB_ERROR
    1051: _DROPPED,  # ER_BAD_TABLE_ERROR
    1054: _GONE,  # ER_BAD_FIELD_ERROR
    1130: _REFUSED,  # ER_HOST_NOT_PRIVILEGED
    1142: _NO_RIGHT,  # ER_TABLEACCESS_DENIED_ERROR
    1143: _NO_RIGHT,
    1146: _DROPPED,  # ER_NO_SUCH_TABLE
    1205: _BUSY,  # ER_LOCK_WAIT_TIMEOUT
    1227: _NO_RIGHT,  # ER_SPECIFIC_ACCESS_DENIED_ERROR
    1370: _NO_RIGHT,
    1373: _LOST,  # ER_UNKNOWN_TARGET_BINLOG
    1381: _NO_BINLOG,  # ER_NO_BINARY_LOGGING
    1698: _REFUSED,  # ER_ACCESS_DENIED_NO_PASSWORD_ERROR
    1789: _LOST,  # ER_MASTER_HAS_PURGED_REQUIRED_GTIDS
    1820: _REFUSED,  # ER_MUST_CHANGE_PASSWORD
    2026: _TLS_MISSING,  # CR_SSL_CONNECTION_ERROR
    3118: _REFUSED,  # ER_ACCOUNT_HAS_BEEN_LOCKED
    3159: _TLS_DEMANDED,  # ER_SECURE_TRANSPORT_REQUIRED
}
_CUT_OFF = (
    "eof occurred", "unexpected eof", "unexpected_eof", "lost connection", "connection reset", "broken pipe", "timed out",
    "bad record mac", "bad_record_mac", "decryption failed", "record layer failure", "record_layer_failure", "shutdown",
    "bad length", "bad_length",
)  # fmt: skip
"""How OpenSSL and the driver say that a server that crashed, or something between, ended a connection in the middle."""

_BY_TEXT: tuple[tuple[str, _Kind], ...] = (
    ("which is not in the master's binlog", _DIVERGED),  # MariaDB, after a failover
    ("could not find first log file", _LOST),
    ("could not find next log", _LOST),
    ("impossible position", _LOST),
    ("log file position", _LOST),
    ("truncated in the middle of event", _DAMAGED),
    ("bogus data in log event", _DAMAGED),
    ("corrupted data in log event", _DAMAGED),
    ("did not pass crc check", _DAMAGED),
    ("exceeded max_allowed_packet", _TOO_LARGE),
    ("position > file size", _LOST),
    ("purged", _LOST),
    ("requested gtid", _LOST),
    ("binary log is not open", _NO_BINLOG),
    ("same server_uuid/server_id", _SAME_ID),
    ("same server_id", _SAME_ID),
    ("same uuid", _SAME_ID),
    ("certificate is not valid for", _TLS_OTHER_NAME),
    ("certificate", _TLS),
    *((words, _UNREACHABLE) for words in _CUT_OFF),
    ("ssl", _TLS),
    ("tls", _TLS),
)
"""The server's or driver's own words, lower case; error 1236 says everything about a dump in words."""


def diagnosed(doing: str) -> AbstractContextManager[None]:
    """Raises errors of the driver inside the block as `ReplicatorError`s; `doing` says what was being done."""
    from pymysql import MySQLError

    return translated_errors((MySQLError, ssl.SSLError), lambda error: diagnose(error, doing))


def diagnose(error: Exception, doing: str) -> ReplicatorError:
    """What a driver's error means; carries the server's first line."""
    number = error.args[0] if error.args and isinstance(error.args[0], int) else 0
    words = " ".join(str(error.args[-1] if error.args else error).split())[:300]
    kind, code, hint = _classify(number, words.lower(), error)
    return kind(f"{doing}: {words}" + (f" (error {number})" if number else ""), code=code, hint=hint)


def _classify(number: int, words: str, error: Exception) -> _Kind:
    if number in _BY_NUMBER and not isinstance(error, ssl.SSLError):
        return _BY_NUMBER[number]
    if isinstance(error, (ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError)):
        return _UNREACHABLE
    if isinstance(error, ssl.SSLError):
        # Its number is OpenSSL's, not the server's.
        return next(
            (kind for text, kind in _BY_TEXT if text in words and kind in {_TLS, _TLS_OTHER_NAME, _UNREACHABLE}), _TLS
        )
    if number in {0, 1236} or number >= 2000:
        for text, kind in _BY_TEXT:
            if text in words:
                return kind
    return _UNREACHABLE if number == 0 or 2000 <= number < 2100 else _OTHER
