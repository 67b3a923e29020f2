"""Defaults: one text for every constant, and its Python value.

The text of a constant default is what the server stores, in this form: numbers in digits (a DECIMAL with all digits of its
scale), strings, ENUM and SET as their characters, BIT as `b'101'`, binary strings as `0x` and hexadecimal digits (BINARY without its padding), dates and
times as MySQL prints them, a TIMESTAMP in UTC.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from replicator_source_mysql.ddl.lex.session import Session
from replicator_source_mysql.ddl.lex.tokenizer import UnreadError
from replicator_source_mysql.ddl.parse.default_syntax import DefaultSyntax, Form
from replicator_source_mysql.ddl.parse.type_syntax import ResolvedType, TypeSyntax

_INTEGERS = {"tinyint", "smallint", "mediumint", "int", "bigint"}
_BYTES = {"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"}
_DATE = re.compile(r"^\s*(\d{1,4})[^\d\s](\d{1,2})[^\d\s](\d{1,2})(?:[T\s]+(.*))?$")
_COMPACT_DATE = re.compile(r"^(\d{4})(\d\d)(\d\d)(?:(\d\d)(\d\d)(\d\d))?$")
_TIME = re.compile(r"^(-?)(\d{1,3}):(\d{1,2})(?::(\d{1,2}))?(?:\.(\d*))?\s*$")
_OFFSET = re.compile(r"^([+-])(\d{1,2}):(\d\d)$")
_ZERO_DATE = "0000-00-00"


class UnknownDefaultError(Exception):
    """What the server stores for this default does not follow from the statement."""


def constant_text(column: ResolvedType, default: DefaultSyntax, session: Session) -> str | None:
    """The text of a constant default, None when it is NULL or there is none.

    Raises:
        UnknownDefaultError: When it is computed, or depends on a time zone that is not known.
    """
    if default.form in {Form.NONE, Form.NULL}:
        return None
    if default.form is Form.EXPRESSION:
        raise UnknownDefaultError
    kind = column.syntax
    try:
        write = _WRITERS.get(kind.name)
        if kind.name in _INTEGERS:
            return str(_whole(default))
        if kind.name in _BYTES:
            return _bytes_text(kind, default)
        if write:
            return write(kind, default, session)
        text = _characters(default, column.charset)
        return text.rstrip(" ") if kind.name == "char" else text
    except (InvalidOperation, ValueError) as err:
        raise UnknownDefaultError from err


def _number(default: DefaultSyntax) -> Decimal:
    if default.form is Form.HEX:
        return Decimal(int(default.text, 16))
    if default.form is Form.BIT:
        return Decimal(int(default.text, 2))
    return Decimal(default.text.strip())


def _whole(default: DefaultSyntax) -> int:
    return int(_number(default).quantize(Decimal(1), ROUND_HALF_UP))


def _characters(default: DefaultSyntax, charset: str) -> str:
    if default.form in {Form.HEX, Form.BIT}:
        raw = _raw(default)
        if not raw.isascii() and charset not in {"utf8mb4", "utf8mb3"}:
            raise UnknownDefaultError
        return raw.decode()
    return default.text


def _raw(default: DefaultSyntax) -> bytes:
    if default.form is Form.HEX:
        return bytes.fromhex(default.text.rjust(len(default.text) + len(default.text) % 2, "0"))
    if default.form is Form.BIT:
        return int(default.text, 2).to_bytes(-(-len(default.text) // 8), "big")
    return default.text.encode()


def _bytes_text(kind: TypeSyntax, default: DefaultSyntax) -> str:
    raw = _raw(default)
    # A BINARY is filled up with zeros when it is stored; the catalogue shows it without them.
    return "0x" + (raw.rstrip(b"\0") if kind.name == "binary" else raw).hex().upper()


def _decimal(kind: TypeSyntax, default: DefaultSyntax, session: Session) -> str:  # noqa: ARG001
    scaled = _number(default).quantize(Decimal(1).scaleb(-kind.numbers[1]), ROUND_HALF_UP)
    return f"{scaled or abs(scaled):f}"


def _float(kind: TypeSyntax, default: DefaultSyntax, session: Session) -> str:  # noqa: ARG001
    value = float(_number(default))
    return repr(round(value, kind.numbers[1]) if len(kind.numbers) > 1 else value).removesuffix(".0")


def _bit(kind: TypeSyntax, default: DefaultSyntax, session: Session) -> str:  # noqa: ARG001
    value = int.from_bytes(_raw(default), "big") if default.form is not Form.NUMBER else _whole(default)
    return f"b'{value:b}'"


def _year(kind: TypeSyntax, default: DefaultSyntax, session: Session) -> str:  # noqa: ARG001
    value = _whole(default)
    is_short = value < 100 and (value > 0 or (default.form is Form.TEXT and len(default.text) < 4))
    return str(value + (2000 if value < 70 else 1900)) if is_short else f"{value:04d}"


def _enum(kind: TypeSyntax, default: DefaultSyntax, session: Session) -> str:  # noqa: ARG001
    text = _characters(default, "utf8mb4").rstrip(" ")
    found = [member for member in kind.members if member.lower() == text.lower()]
    exact = [member for member in found if member == text]
    if not found:
        raise UnknownDefaultError
    return (exact or found)[0]


def _set(kind: TypeSyntax, default: DefaultSyntax, session: Session) -> str:
    if default.form is Form.NUMBER:
        raise UnknownDefaultError
    chosen = {_enum(kind, DefaultSyntax(Form.TEXT, part), session) for part in default.text.split(",") if part}
    return ",".join(member for member in kind.members if member in chosen)


def _date(kind: TypeSyntax, default: DefaultSyntax, session: Session) -> str:  # noqa: ARG001
    return _parts(default.text)[0]


def _datetime(kind: TypeSyntax, default: DefaultSyntax, session: Session) -> str:  # noqa: ARG001
    day, time = _parts(default.text)
    return f"{day} {_clock(time, kind)}"


def _timestamp(kind: TypeSyntax, default: DefaultSyntax, session: Session) -> str:
    text = _datetime(kind, default, session)
    if text.startswith(_ZERO_DATE):
        return text
    whole, point, fraction = text.partition(".")
    local = datetime.fromisoformat(whole).replace(tzinfo=_zone(session.time_zone))
    return local.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S") + point + fraction


def _zone(name: str) -> timezone | ZoneInfo:
    if found := _OFFSET.match(name):
        offset = timedelta(hours=int(found[2]), minutes=int(found[3]))
        return timezone(-offset if found[1] == "-" else offset)
    if not name or name.upper() == "SYSTEM":
        raise UnknownDefaultError
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError) as err:
        raise UnknownDefaultError from err


def _parts(text: str) -> tuple[str, str]:
    """Day and time of a date with any delimiters."""
    if text.strip() in {"0", "00000000"}:
        return _ZERO_DATE, ""
    if found := _COMPACT_DATE.match(text):
        year, month, day, *time = found.groups()
        return f"{year}-{month}-{day}", ":".join(time) if time[0] else ""
    dated = _DATE.match(text)
    if dated is None or len(dated[1]) < 4:
        raise UnknownDefaultError
    year, month, day, rest = dated.groups()
    return f"{year}-{month:0>2}-{day:0>2}", rest or ""


def _time(kind: TypeSyntax, default: DefaultSyntax, session: Session) -> str:  # noqa: ARG001
    if default.text.strip() == "0":
        return _clock("", kind)
    return _clock(default.text, kind)


def _clock(text: str, kind: TypeSyntax) -> str:
    digits = kind.numbers[0] if kind.numbers else 0
    found = _TIME.match(text.strip() or "0:0:0")
    if found is None or len(found[5] or "") > digits:
        raise UnknownDefaultError
    sign, hours, minutes, seconds, fraction = found.groups()
    whole = f"{sign}{hours:0>2}:{minutes:0>2}:{seconds or '0':0>2}"
    return whole + (f".{(fraction or '').ljust(digits, '0')}" if digits else "")


def _unsupported(kind: TypeSyntax, default: DefaultSyntax, session: Session) -> str:  # noqa: ARG001
    raise UnreadError(f"a constant default of {kind.name} is not known")


_WRITERS: dict[str, Callable[[TypeSyntax, DefaultSyntax, Session], str]] = {
    "decimal": _decimal, "float": _float, "double": _float, "bit": _bit, "year": _year, "enum": _enum, "set": _set,
    "date": _date, "datetime": _datetime, "timestamp": _timestamp, "time": _time, "vector": _unsupported,
}  # fmt: skip
