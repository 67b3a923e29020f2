"""A table with every type of MySQL and MariaDB, and rows of values at the edges of their types."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pymysql.cursors import Cursor

from tests.services.mysql.server import MysqlServer

Make = Callable[[random.Random], Any]


@dataclass(frozen=True, slots=True)
class Kind:
    """A type, and a maker of values for it; `form` says how the value is written in SQL."""

    declared: str
    make: Make
    form: str = "%s"


def _any_of(*values: Any) -> Make:
    return lambda chance: chance.choice(values)


def _whole(bits: int, *, signed: bool = True) -> Make:
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    return lambda chance: chance.choice((low, high, 0, chance.randint(low, high)))


def _text(alphabet: str, longest: int) -> Make:
    return lambda chance: "".join(chance.choices(alphabet, k=chance.randint(0, longest)))


def _bytes(longest: int) -> Make:
    return lambda chance: chance.randbytes(chance.randint(0, longest)) + bytes(chance.randint(0, 1))


def _document(chance: random.Random) -> str:
    value: Any = {
        "number": chance.choice((0, -1, 2**53 + 1, 2**63, 1.5, 1e100, None)),
        "text": chance.choice(("", "naïve", "東京", "🎲", 'quo"ted', "line\nbreak")),
        "list": [chance.randint(-(2**31), 2**31) for _ in range(chance.randint(0, 4))],
        "long": "x" * chance.choice((0, 10, 300)),
        "deep": {"er": [True, False, {}]},
    }
    return json.dumps(chance.choice((value, [value], value["text"], value["number"])))


_DATES = ("1000-01-01", "9999-12-31", "2024-02-29", "0000-00-00", "1969-12-31")
_TIMES = ("838:59:59", "-838:59:59", "00:00:00", "-00:00:01", "23:59:59")
_POINT = "ST_GeomFromText(%s)"

COMMON: tuple[Kind, ...] = (
    Kind("tinyint", _whole(8)),
    Kind("tinyint unsigned", _whole(8, signed=False)),
    Kind("tinyint(1)", _any_of(0, 1, 2, -128)),
    Kind("smallint", _whole(16)),
    Kind("smallint unsigned", _whole(16, signed=False)),
    Kind("mediumint", _whole(24)),
    Kind("mediumint unsigned", _whole(24, signed=False)),
    Kind("int unsigned zerofill", _whole(32, signed=False)),
    Kind("bigint", _whole(64)),
    Kind("bigint unsigned", _whole(64, signed=False)),
    Kind("decimal(30,10)", _any_of("0", "-0.0000000001", "99999999999999999999.9999999999", "-12345.678")),
    Kind("decimal(65,30)", _any_of("0", "-1." + "0" * 29 + "1", "9" * 35 + "." + "9" * 30)),
    Kind("decimal(5,5) unsigned", _any_of("0", "0.00001", "0.99999")),
    Kind("float", _any_of(0.1, -3.4e38, 1e-38, 16777217)),
    Kind("double", _any_of(0.1, -1.7e308, 2.3e-308, 1 / 3)),
    Kind("bit(1)", _any_of(b"\0", b"\1")),
    Kind("bit(9)", _any_of(b"\0", b"\1\1", b"\1\xff")),
    Kind("bit(64)", lambda chance: chance.randbytes(8)),
    Kind("date", _any_of(*_DATES)),
    Kind("datetime", _any_of(*(f"{date} 23:59:59" for date in _DATES))),
    Kind("datetime(6)", _any_of("1000-01-01 00:00:00.000001", "9999-12-31 23:59:59.999999", "2024-00-10 01:02:03.5")),
    Kind("timestamp NULL", _any_of("1970-01-01 00:00:01", "2038-01-19 03:14:07", "0000-00-00 00:00:00")),
    Kind("timestamp(3) NULL", _any_of("1970-01-01 00:00:01.001", "2024-02-29 12:00:00.999")),
    Kind("time", _any_of(*_TIMES)),
    Kind("time(6)", _any_of(*(f"{time}.000000" for time in _TIMES), "-00:00:00.000001", "12:34:56.789012")),
    Kind("time(1)", _any_of("-00:00:00.1", "100:00:00.9")),
    Kind("year", _any_of(0, 1901, 2155)),
    Kind("char(10)", _text("ab äß", 10)),
    Kind("char(255)", _text("東京🎲", 200)),
    Kind("varchar(300)", _text("ab äß東🎲\\'\"%\n\0", 300)),
    Kind("varchar(30) CHARACTER SET latin1", _text("aé€ß", 30)),
    Kind("varchar(30) CHARACTER SET gbk", _text("a中文字", 30)),
    Kind("varchar(30) CHARACTER SET sjis", _text("aカナ表", 30)),
    Kind("varchar(30) CHARACTER SET ucs2", _text("aß東", 30)),
    Kind("varchar(30) CHARACTER SET utf16", _text("aß東🎲", 30)),
    Kind("binary(6)", _bytes(5)),
    Kind("varbinary(20)", _bytes(19)),
    Kind("tinytext", _text("ab", 50)),
    Kind("text", _text("äöü", 3000)),
    Kind("longtext", _text("x", 20_000)),
    Kind("tinyblob", _bytes(100)),
    Kind("blob", _bytes(5000)),
    Kind("longblob", _bytes(9000)),
    Kind("enum('a', 'b', 'Ünder', 'it''s')", _any_of("a", "b", "Ünder", "it's", "no member")),
    Kind("set('x', 'y', 'z z', 'ö')", _any_of("", "x", "x,ö", "x,y,z z,ö")),
    Kind("json", _document),
    Kind("geometry", _any_of("POINT(1 2)", "LINESTRING(0 0,1 1)", "GEOMETRYCOLLECTION(POINT(1 2))"), _POINT),
    Kind("point", _any_of("POINT(-1.5 1e300)"), _POINT),
    Kind("polygon", _any_of("POLYGON((0 0,0 1,1 1,0 0))"), _POINT),
)
_VECTOR = Kind("vector(3)", lambda chance: struct.pack("<3f", *(chance.choice((0.0, 0.1, -1e30)) for _ in range(3))))
_MARIADB = (
    Kind("uuid", _any_of("123e4567-e89b-12d3-a456-426655440000", "00000000-0000-0000-0000-000000000001")),
    Kind("inet6", _any_of("::1", "2001:db8::ff00:42:8329", "::ffff:192.0.2.1")),
    Kind("inet4", _any_of("0.0.0.0", "192.0.2.255")),
    Kind("text COMPRESSED", _text("äöü", 1000)),
    Kind("varbinary(500) COMPRESSED", _bytes(400)),
)


def kinds_of(server: MysqlServer) -> tuple[Kind, ...]:
    """The types that the server knows."""
    if not server.is_mariadb:
        return (*COMMON, _VECTOR)
    return (*COMMON, *_MARIADB, *((_VECTOR,) if server.version >= (11, 7) else ()))


def create_kinds(cursor: Cursor, server: MysqlServer) -> None:
    """Make the table `kinds`: a column for every type, two generated ones, one that `SELECT *` does not show.

    MariaDB logs no generated columns of updates since 11.8.9, which is refused (RPL-3716).
    """
    columns = [f"c{rank} {kind.declared}" for rank, kind in enumerate(kinds_of(server))]
    columns.append("c_int int")
    if not server.is_mariadb or server.version < (11, 8, 9):
        columns += [
            "c_virtual int GENERATED ALWAYS AS (c0 + 1) VIRTUAL",
            "c_stored varchar(20) GENERATED ALWAYS AS (concat('#', c0)) STORED",
        ]
    columns.append("c_hidden int INVISIBLE")
    cursor.execute(f"CREATE TABLE kinds (id int PRIMARY KEY, {', '.join(columns)}) CHARACTER SET utf8mb4")


def kinds_row(server: MysqlServer, chance: random.Random, key: int) -> tuple[str, Sequence[Any]]:
    """A statement that puts a row of random values under `key`."""
    kinds = kinds_of(server)
    values = [None if chance.random() < 0.15 else kind.make(chance) for kind in kinds]
    columns = ", ".join(f"c{rank}" for rank in range(len(kinds)))
    forms = ", ".join(kind.form for kind in kinds)
    verb = "REPLACE" if chance.random() < 0.5 else "INSERT IGNORE"
    hidden = chance.choice((None, 7))
    return (
        f"{verb} INTO kinds (id, c_hidden, {columns}) VALUES (%s, %s, {forms})",
        [key, hidden, *values],
    )
