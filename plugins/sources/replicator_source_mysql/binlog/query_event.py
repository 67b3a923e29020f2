"""Parses a QUERY event: the statement's text, and the parts of its session that decide how the text is read.

Layout: `binlog_event.h` of MySQL, "Query_event"; MariaDB's is the same up to the parts that are used here.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from functools import lru_cache

from replicator_sdk.errors import BugError
from replicator_source_mysql.ddl.lex.session import Session

_POST_HEADER = struct.Struct("<IIBHH")
_REAL_AS_FLOAT, _ANSI_QUOTES, _ORACLE, _MSSQL, _NO_BACKSLASH_ESCAPES = 1, 4, 0x200, 0x400, 0x100000

# Status variables up to the session's character set and time zone, and the sizes of those that have a fixed one.
_FLAGS2, _SQL_MODE, _CATALOG, _AUTO_INCREMENT, _CHARSET, _TIME_ZONE, _CATALOG_NZ = range(7)
_SIZES = {_FLAGS2: 4, _SQL_MODE: 8, _AUTO_INCREMENT: 4, _CHARSET: 6}


@dataclass(frozen=True, slots=True)
class Query:
    """One statement of the log.

    Attributes:
        text: The statement.
        session: What of its session decides how the text is read.
    """

    text: str
    session: Session


@dataclass(slots=True)
class _Status:
    """The status variables that are used."""

    mode: int = 0
    collation: int = 0
    time_zone: str = ""


def parse_query(body: bytes, usual: Session) -> Query:
    """The statement in the body of a QUERY event.

    Args:
        body: Of the event.
        usual: A session of this server, for what the event does not contain.

    Raises:
        BugError: When the body is shorter than it says.
    """
    try:
        _, _, database_size, _, variables_size = _POST_HEADER.unpack_from(body)
    except struct.error as err:
        raise _broken() from err
    start = _POST_HEADER.size
    name_at = start + variables_size
    text_at = name_at + database_size + 1
    if text_at > len(body):
        raise _broken()
    status = _read_status(body[start:name_at])
    session = replace(
        usual,
        database=body[name_at : text_at - 1].decode("utf-8", "surrogateescape"),
        has_ansi_quotes=bool(status.mode & _ANSI_QUOTES),
        has_backslash_escapes=not status.mode & _NO_BACKSLASH_ESCAPES,
        real_is_float=bool(status.mode & _REAL_AS_FLOAT),
        has_other_grammar=usual.is_mariadb and bool(status.mode & (_ORACLE | _MSSQL)),
        time_zone=status.time_zone,
    )
    return Query(body[text_at:].decode(_encoding(status.collation), "surrogateescape"), session)


def _read_status(variables: bytes) -> _Status:
    """What the session set; the default where the event does not say. The variables are nearly in the order of their codes."""
    status, at = _Status(), 0
    while at < len(variables):
        code, at = variables[at], at + 1
        if code == _SQL_MODE:
            status.mode = int.from_bytes(variables[at : at + 8], "little")
        elif code == _CHARSET:
            status.collation = int.from_bytes(variables[at : at + 2], "little")
        elif code == _TIME_ZONE:
            status.time_zone = variables[at + 1 : at + 1 + variables[at]].decode("ascii", "replace")
        if code in _SIZES:
            at += _SIZES[code]
        elif code in {_CATALOG, _TIME_ZONE, _CATALOG_NZ}:
            at += 1 + variables[at] + (code == _CATALOG)
        else:
            break
    return status


@lru_cache(maxsize=256)
def _encoding(collation: int) -> str:
    from pymysql.charset import charset_by_id

    try:
        name = charset_by_id(collation).encoding
    except KeyError:
        return "utf-8"
    return "utf-8" if name in {"binary", "utf8mb4", "utf8mb3"} else str(name)


def _broken() -> BugError:
    return BugError(
        "the log holds a statement whose event is not in its format",
        code="RPL-3786",
        hint="report it with the server's version",
    )
