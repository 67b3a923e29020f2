"""Parses the events that begin and end transactions.

A group is a GTID event (in MySQL without GTIDs an anonymous one) and what follows it up to a commit: `BEGIN`, rows and XID
or `COMMIT`; `XA START`, rows, `XA END` and XA_PREPARE; or a single statement. Layouts: `control_events.h` of MySQL,
`log_event.h` of MariaDB.
"""

from __future__ import annotations

import re
import struct
import uuid
from dataclasses import dataclass

from replicator_sdk.errors import NeedsUserError
from replicator_source_mysql.gtid import Gtid
from replicator_source_mysql.hints import COPY_AGAIN

_MYSQL_GTID = struct.Struct("<B16sq")
_MYSQL_TIME_AT = 42
_MARIADB_GTID = struct.Struct("<QIB")
_XA_PREPARE = struct.Struct("<BIII")
_STANDALONE, _PREPARED_XA = 1, 64
_HAS_MORE = 1 << 55
_XA = re.compile(r"^\s*XA\s+(START|BEGIN|END|PREPARE|COMMIT|ROLLBACK)\b(.*)$", re.IGNORECASE | re.DOTALL)
_XID_PART = re.compile(r"X'([0-9a-fA-F]*)'|'((?:[^'\\]|''|\\.)*)'|(\d+)")


@dataclass(frozen=True, slots=True)
class GroupStart:
    """What the first event of a group says.

    Attributes:
        gtid: The transaction's identifier; None for an anonymous one.
        timestamp: When it was committed, microseconds since 1970 UTC; -1 when the event does not contain it.
        is_standalone: Whether a single statement follows, which ends the group; None when only that statement shows it.
        is_prepared_xa: Whether the group ends with a prepare, not with a commit (MariaDB says it here).
    """

    gtid: Gtid | None
    timestamp: int = -1
    is_standalone: bool | None = None
    is_prepared_xa: bool = False


@dataclass(frozen=True, slots=True)
class XaStatement:
    """An XA statement of the log.

    Attributes:
        verb: START, END, PREPARE, COMMIT or ROLLBACK.
        xid: The distributed transaction: format and both parts.
        is_one_phase: Whether a COMMIT needs no prepare before it.
    """

    verb: str
    xid: tuple[int, bytes, bytes]
    is_one_phase: bool = False


def mysql_group(body: bytes, *, is_anonymous: bool) -> GroupStart:
    """A GTID or ANONYMOUS_GTID event of MySQL."""
    _, source, number = _MYSQL_GTID.unpack_from(body)
    stamp = -1
    if len(body) >= _MYSQL_TIME_AT + 7:
        stamp = int.from_bytes(body[_MYSQL_TIME_AT : _MYSQL_TIME_AT + 7], "little") & ~_HAS_MORE
    return GroupStart(None if is_anonymous else Gtid(str(uuid.UUID(bytes=source)), number), stamp)


def tagged_group(position: str) -> GroupStart:
    """A GTID with a tag (MySQL 8.3 and later).

    Raises:
        NeedsUserError: Always: sets with tags are not supported.
    """
    raise NeedsUserError(
        "the log holds a transaction whose GTID has a tag",
        code="RPL-3788",
        position=position,
        hint=f"tags are not supported: set gtid_next to AUTOMATIC without a tag, then {COPY_AGAIN}",
    )


def mariadb_group(body: bytes, server_id: int) -> GroupStart:
    """A GTID event of MariaDB."""
    number, domain, flags = _MARIADB_GTID.unpack_from(body)
    return GroupStart(
        Gtid(str(domain), number, server_id),
        is_standalone=bool(flags & _STANDALONE),
        is_prepared_xa=bool(flags & _PREPARED_XA),
    )


def xa_prepare(body: bytes) -> XaStatement:
    """An XA_PREPARE event; with `is_one_phase` it commits."""
    one_phase, form, global_size, branch_size = _XA_PREPARE.unpack_from(body)
    data = body[_XA_PREPARE.size :]
    xid = (form, data[:global_size], data[global_size : global_size + branch_size])
    return XaStatement("PREPARE", xid, bool(one_phase))


def xa_statement(text: str) -> XaStatement | None:
    """The XA statement that `text` is, None for any other statement."""
    found = _XA.match(text)
    if found is None:
        return None
    verb = "START" if found[1].upper() == "BEGIN" else found[1].upper()
    numbers: list[int] = []
    parts: list[bytes] = []
    for hexadecimal, plain, number in _XID_PART.findall(found[2]):
        if number:
            numbers.append(int(number))
        else:
            parts.append(bytes.fromhex(hexadecimal) if hexadecimal or not plain else plain.encode())
    xid = (numbers[0] if numbers else 1, parts[0] if parts else b"", parts[1] if len(parts) > 1 else b"")
    return XaStatement(verb, xid, "ONE PHASE" in found[2].upper())
