"""Every type at its limits on real servers: the log's form and the text form become the same, and what the server prints."""

from __future__ import annotations

import decimal
import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pytest

from replicator_sdk.config import OutOfRange
from replicator_sdk.schema import TableId
from replicator_source_mysql.connect.catalogue import Catalogue
from replicator_source_mysql.definition import ColumnDefinition
from replicator_source_mysql.types.text_values import TextColumn
from replicator_source_mysql.types.values.out_of_range import ZERO_DATE, Policy
from tests.plugins.sources.mysql.types.binlog_file import by_column, logged_tables
from tests.plugins.sources.mysql.types.value_conversion import from_log, from_text, policy, target_of
from tests.services.mysql.client import texts
from tests.services.mysql.server import MysqlDatabase, MysqlServer

NULL = "NULL"

INTEGERS = {
    "tinyint": ("-128", "127", "0"),
    "tinyint(1)": ("-1", "0", "1"),
    "tinyint unsigned": ("0", "128", "255"),
    "smallint": ("-32768", "32767"),
    "smallint unsigned": ("65535", "0"),
    "mediumint": ("-8388608", "8388607", "-1"),
    "mediumint unsigned": ("16777215", "8388608"),
    "int": ("-2147483648", "2147483647"),
    "int unsigned": ("4294967295", "2147483648"),
    "bigint": ("-9223372036854775808", "9223372036854775807"),
    "bigint unsigned": ("18446744073709551615", "9223372036854775808", "0"),
    "int(8) unsigned zerofill": ("42", "4294967295"),
    "bigint(20) unsigned zerofill": ("42",),
    "year": ("1901", "2155", "0", "2000"),
}
DECIMALS = {
    "decimal(1,0)": ("-9", "0", "9"),
    "decimal(10,2)": ("-99999999.99", "99999999.99", "0.05", "-0.01", "-0"),
    "decimal(5,5)": ("0.00001", "-0.99999"),
    "decimal(18,9)": ("-999999999.999999999", "0.000000001"),
    "decimal(19,0)": ("-9999999999999999999", "9999999999999999999"),
    "decimal(38,10)": ("-9999999999999999999999999999.9999999999", "1.5", "9999999999999999999999999999.9999999999"),
    "decimal(30,30)": ("-0." + "9" * 30, "0." + "0" * 29 + "1"),
    "decimal(39,0)": ("9" * 39, "-1", "0"),
    "decimal(65,30)": ("-" + "9" * 35 + "." + "9" * 30, "1.5", "-0.1", "0"),
    "decimal(65,0)": ("9" * 65,),
    "decimal(40,10) unsigned zerofill": ("1.5", "0"),
    "decimal(12,3) unsigned zerofill": ("1.5",),
}
FLOATS = {
    "float": ("1.17549435e-38", "3.4028234e38", "0.1", "-16777217", "0", "-0e0", "1e-45"),
    "double": (
        "2.2250738585072014e-308",
        "1.7976931348623157e308",
        "0.1",
        "-0e0",
        "1e15",
        "123456789012345678",
        "5e-324",
    ),
    "float(7,3)": ("1234.567", "-0.001"),
    "double(9,2)": ("1234567.89", "-0.01"),
}
TEMPORAL = {
    "date": ("'1000-01-01'", "'9999-12-31'", "'2024-02-29'", "'1969-12-31'", "'0001-01-01'"),
    **{
        f"datetime({digits})": ("'1000-01-01'", "'9999-12-31 23:59:59'", f"'2024-02-29 12:34:56.{'987654'[:digits]}'")
        for digits in range(7)
    },
    **{
        f"timestamp({digits}) NULL": (
            "'1970-01-01 00:00:01'",
            "'2038-01-19 03:14:07'",
            f"'2024-02-29 12:34:56.{'987654'[:digits]}'",
        )
        for digits in range(7)
    },
    **{
        f"time({digits})": (
            "'-838:59:59'",
            "'838:59:59'",
            f"'-00:00:00.{'987654'[:digits]}'",
            f"'-00:00:01.{'100001'[:digits]}'",
            f"'-12:00:59.{'999999'[:digits]}'",
            "'00:00:00'",
            f"'99:59:59.{'000001'[:digits]}'",
            "'100:00:00'",
        )
        for digits in range(7)
    },
}
TEXT = {
    "varchar(20) CHARACTER SET utf8mb4": ("'😀 ä'", "''", "'trailing  '", r"'\0a\0'"),
    "char(10) CHARACTER SET utf8mb4": ("'😀'", "''", "'a  '"),
    "char(255) CHARACTER SET utf8mb4": ("repeat('ä', 255)",),
    "varchar(300) CHARACTER SET utf8mb3": ("repeat('ä', 300)", "''"),
    "text CHARACTER SET latin1": ("'€ é'", "unhex('818D8F909D')", "''"),
    "char(20) CHARACTER SET gbk": ("'漢字'", "'a漢'"),
    "text CHARACTER SET sjis": ("'表示'", "'ソ'"),
    "varchar(20) CHARACTER SET cp932": ("'表示①'",),
    "varchar(20) CHARACTER SET ujis": ("'日本語'",),
    "varchar(20) CHARACTER SET big5": ("'功能'",),
    "varchar(20) CHARACTER SET utf16": ("'😀é'", "''", r"'a\0é'"),
    "char(20) CHARACTER SET ucs2": ("'éa '",),
    "varchar(20) CHARACTER SET utf32": ("'😀é'",),
    "varchar(20) CHARACTER SET utf16le": ("'😀é'",),
    "varchar(20) CHARACTER SET ascii": ("'plain'",),
    "tinytext": ("'x'",),
    "mediumtext": ("repeat('ö', 40000)",),
    "longtext": ("'x'", "''"),
    "enum('a','it''s','back\\\\slash','é,','')": ("'a'", "'it''s'", "'back\\\\slash'", "'é,'", "''", "0"),
    "enum('ü','b') CHARACTER SET latin1": ("'ü'", "'b'"),
    "set('a','b','c')": ("'a,c'", "''", "'b'"),
    "set(" + ",".join(f"'m{rank}'" for rank in range(64)) + ")": ("'m63'", "'m0,m63'", "18446744073709551615", "''"),
}
BINARY = {
    "bit(1)": ("b'1'", "b'0'"),
    "bit(9)": ("b'100000001'", "b'1'"),
    "bit(64)": ("18446744073709551615", "1"),
    "binary(5)": ("'a'", "''", "x'0100000000'", "x'0000000001'"),
    "binary(255)": ("'a'",),
    "varbinary(300)": ("x'00ff'", "''", "repeat('x', 300)"),
    "tinyblob": ("''", "x'00'"),
    "blob": ("''", "repeat('y', 1000)"),
    "mediumblob": ("repeat('z', 70000)",),
    "longblob": ("''", "x'ff'"),
    "geometry": ("ST_GeomFromText('POINT(1 2)')", "ST_GeomFromText('LINESTRING(0 0,1 1)', 4326)"),
    "point": ("ST_GeomFromText('POINT(-1.5 2)')",),
}
MYSQL_ONLY = {
    "vector(4)": ("STRING_TO_VECTOR('[1.5,-2,3e10,0]')", "STRING_TO_VECTOR('[1]')"),
    "varchar(20) CHARACTER SET gb18030": ("'漢字😀'",),
}
MARIADB_ONLY = {
    "varchar(100) COMPRESSED": ("repeat('a', 100)", "'é'", "''"),
    "blob COMPRESSED": ("repeat('abc', 10000)", "''", "'x'"),
    "text COMPRESSED CHARACTER SET latin1": ("repeat('é', 1000)",),
    "uuid": ("'123e4567-e89b-12d3-a456-426614174000'", "'018f3e4f-1b2c-7d3e-8f00-0123456789ab'",
             "'00000000-0000-0000-0000-000000000000'", "'ffffffff-ffff-ffff-ffff-ffffffffffff'",
             "'550e8400-e29b-41d4-a716-446655440000'"),
    "inet4": ("'10.0.200.0'", "'255.255.255.255'", "'0.0.0.0'"),
    "inet6": ("'::'", "'::1'", "'2001:db8::ff00:42:8329'", "'::ffff:1.2.3.4'", "'::1.2.3.4'", "'1:0:2:0:0:3:0:0'",
              "'1:2:3:4:5:6:7:0'", "'0:1:2:3:4:5:6:7'", "'fe80::'", "'1:0:0:2:3:0:0:4'", "'::ffff:0:1:2'"),
    "year(2)": ("70", "69", "99", "1"),
    "json": ("'{\"b\": 1, \"a\":[1,2]}'",),
}  # fmt: skip
ZERO = {
    "date": ("'0000-00-00'", "'2024-00-10'", "'2024-02-29'", "'2024-05-00'"),
    "datetime": ("'0000-00-00'", "'2024-00-10 01:02:03'", "'2024-02-29 01:02:03'"),
    "datetime(6)": ("'0000-00-00'", "'2024-05-00 01:02:03.000004'"),
    "timestamp NULL": ("'0000-00-00'", "'2024-02-29 01:02:03'"),
    "timestamp(3) NULL": ("'0000-00-00'", "'2024-02-29 01:02:03.004'"),
}
NO_DATES = {
    "date": ("'2024-02-31'", "'2023-02-29'", "'0000-03-01'", "'2024-01-31'"),
    "datetime(2)": ("'2024-04-31 01:02:03.04'", "'0000-03-01 00:00:01'"),
}

JSON = (
    "'{}'", "'[]'", "'null'", "'true'", "'false'", "'0'", "'-1'", "'32768'", "'-32769'", "'2147483648'",
    "'18446744073709551615'", "'-9223372036854775808'", "'1.0'", "'-0.0'", "'0.1'", "'1e15'", "'1e14'", "'123456789012345.6'",
    "'1234567890123456.5'", "'1e-15'", "'1e-16'", "'1.5e-15'", "'1.7976931348623157e308'", "'5e-324'", "'1e100'", "'-1.25e-200'",
    "'\"plain\"'", """'"\\\\u0000\\\\u001f\\\\b\\\\t\\\\n\\\\f\\\\r\\\\"\\\\\\\\ / \\\\u007f é 😀 \\\\u2028"'""",
    "'{\"bb\": 1, \"a\": [1, {\"c\": null}], \"\": \"x\"}'", "'[[[[[[]]]]]]'", "'[1, 70000, -70000, 3.5, \"s\", true]'",
    "CAST(1.50 AS JSON)", "CAST(CAST('-123456789.000000001' AS DECIMAL(30,9)) AS JSON)",
    "CAST(CAST('2024-02-29' AS DATE) AS JSON)", "CAST(CAST('-838:59:59' AS TIME) AS JSON)",
    "CAST(CAST('-00:00:00.5' AS TIME(6)) AS JSON)",
    "CAST(CAST('2024-02-29 01:02:03.000004' AS DATETIME(6)) AS JSON)",
    "CAST(TIMESTAMP'2024-02-29 01:02:03' AS JSON)", "JSON_ARRAY(x'00ff10', b'1010', CAST('2024' AS YEAR))",
    "JSON_OBJECT('blob', CAST(repeat('blob', 40) AS BINARY))", "JSON_OBJECT('d', 1e0, 'e', 1.10, 'f', 1/3)",
    "JSON_ARRAY(REPEAT('x', 127), REPEAT('y', 128), REPEAT('z', 20000))", "JSON_ARRAY(REPEAT('x', 70000), 70000, -5, null, 1)",
    "JSON_OBJECT('large', REPEAT('x', 70000), 'n', 100000, 'u', 4000000000, 't', true, 's', -3)",
)  # fmt: skip


@dataclass
class Typed:
    """One column of a table: its values in the log and at the server, and how the catalogue defines it."""

    column: ColumnDefinition
    kind: int
    metadata: int
    logged: list[bytes | None]
    database: MysqlDatabase
    rows: int
    printer: dict[str, list[bytes | None]]

    def log(self, rules: Policy | None = None) -> pa.Array:
        return from_log(self.column, self.kind, self.metadata, self.logged[: self.rows], rules)

    def text(self, rules: Policy | None = None) -> pa.Array:
        reader = TextColumn(self.column, target_of(self.column, rules or policy()), rules or policy())
        return from_text(self.column, self.printed(reader.expression), rules)

    def printed(self, expression: str = "") -> list[bytes | None]:
        expression = expression or self.column.name
        if expression not in self.printer:
            statement = f"SELECT {expression} FROM typed ORDER BY id"
            self.printer[expression] = [row[0] for row in texts(self.database.server, statement, self.database.name)]
        return self.printer[expression][: self.rows]


def make(
    database: MysqlDatabase, cases: dict[str, tuple[str, ...]], *, sql_mode: str = "", before: tuple[str, ...] = ()
) -> dict[str, Typed]:
    """A table with a column for each type of `cases`, each holding its values and then NULL."""
    kinds = ", ".join(f"c{rank} {kind}" for rank, kind in enumerate(cases))
    height = max(map(len, cases.values())) + 1
    with database.connect() as connection, connection.cursor() as cursor:
        cursor.execute("FLUSH BINARY LOGS")
        cursor.execute("SET time_zone = '+00:00', sql_mode = %s", [sql_mode])
        for statement in before:
            cursor.execute(statement)
        cursor.execute(f"CREATE TABLE typed (id int PRIMARY KEY AUTO_INCREMENT, {kinds})")
        for row in range(height):
            values = ", ".join(values[row] if row < len(values) else "NULL" for values in cases.values())
            cursor.execute(f"INSERT INTO typed VALUES (NULL, {values})")
        definition = Catalogue(connection).find(TableId(database.name, "typed"))
    assert definition is not None
    logged = logged_tables(database.server, database.name)["typed"]
    assert len(logged.inserted) == height
    columns = by_column(logged.inserted)
    printer = _print_all(database, [definition[f"c{rank}"] for rank in range(len(cases))])
    return {
        kind: Typed(
            definition[f"c{rank}"],
            logged.kinds[rank + 1],
            logged.metadata[rank + 1],
            columns[rank + 1],
            database,
            len(values) + 1,
            printer,
        )
        for rank, (kind, values) in enumerate(cases.items())
    }


def _print_all(database: MysqlDatabase, columns: list[ColumnDefinition]) -> dict[str, list[bytes | None]]:
    """What the server prints for each column, plainly and the way the source asks for it, in one query."""
    asked = [TextColumn(column, target_of(column, policy()), policy()).expression for column in columns]
    wanted = sorted({*asked, *(column.name for column in columns)})
    rows = texts(database.server, f"SELECT {', '.join(wanted)} FROM typed ORDER BY id", database.name)
    return dict(zip(wanted, map(list, zip(*rows, strict=True)), strict=True))


@pytest.fixture(params=["mysql", "mariadb", "mariadb_11"])
def database(request: pytest.FixtureRequest) -> Iterator[MysqlDatabase]:
    server: MysqlServer = request.getfixturevalue(request.param)
    with server.database("types") as fresh:
        yield fresh


def test_both_forms_become_the_same_and_what_the_server_prints(database: MysqlDatabase) -> None:
    own = MARIADB_ONLY if database.is_mariadb else MYSQL_ONLY
    cases = INTEGERS | DECIMALS | FLOATS | TEMPORAL | TEXT | BINARY | own
    wrong = {}
    for kind, table in make(database, cases).items():
        log, text = table.log(), table.text()
        found = [_printed(value, kind) for value in log.to_pylist()]
        if found != _expected(table, kind) or found != [_printed(value, kind) for value in text.to_pylist()]:
            wrong[kind] = (found, text.to_pylist(), _expected(table, kind))
        assert log.type == text.type
        assert log.null_count == 1, kind
    assert not wrong


def _expected(table: Typed, kind: str) -> list[object]:
    """What an independent client prints, as plain as the comparison allows."""
    name = kind.split("(", maxsplit=1)[0].split(" ", maxsplit=1)[0]
    if name in {"float", "double"}:
        values = [None if value is None else float(value) for value in table.printed(f"`{table.column.name}` * 1e0")]
        return [None if value is None else _bits(value) for value in values]
    if name in {"geometry", "point"}:
        return [None if value is None else value[4:] for value in table.printed()]
    if name in {"bit", "binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob", "vector"}:
        return list(table.printed())
    printed = [None if value is None else value.decode() for value in table.printed()]
    if "zerofill" in kind:
        printed = [None if value is None else value.lstrip("0") for value in printed]
        printed = [f"0{value}" if value is not None and value[:1] in {".", ""} else value for value in printed]
    if kind == "year(2)":
        return [None if value is None else str((2000 if int(value) < 70 else 1900) + int(value)) for value in printed]
    return [str(int(value)) if name == "year" and value is not None else value for value in printed]


def _printed(value: object, kind: str) -> object:
    if value is None or (isinstance(value, bytes) and not kind.startswith("bit(1)")):
        return value
    if isinstance(value, bool):
        return bytes([value])
    if isinstance(value, float):
        return _bits(value)
    if isinstance(value, list):
        return struct.pack(f"<{len(value)}f", *value)
    if kind.startswith(("datetime", "timestamp")):
        digits = int(kind[kind.index("(") + 1])
        return f"{value:%Y-%m-%d %H:%M:%S.%f}"[: 19 + (digits + 1) * bool(digits)].rjust(4, "0")
    return f"{value:f}" if isinstance(value, decimal.Decimal) else str(value)


def _bits(value: float) -> bytes:
    return struct.pack("<d", value)


def test_zero_and_partial_dates_follow_the_setting(database: MysqlDatabase) -> None:
    for kind, table in make(database, ZERO).items():
        printed = [None if value is None else value.decode() for value in table.printed()]
        zero = [value is not None and "-00" in value for value in printed]
        for read in (table.log, table.text):
            rules = policy("null")
            assert [value is None for value in read(rules).to_pylist()] == [
                z or p is None for z, p in zip(zero, printed, strict=True)
            ]
            assert rules.replaced == {ZERO_DATE: sum(zero)}, kind
            assert read(policy("text")).to_pylist() == printed
            with pytest.raises(Exception, match=r"RPL-3735.*zero or partial date.*shop.orders") as caught:
                read(policy("fail"))
            assert "2024" not in str(caught.value)
        assert table.log(policy("null")).equals(table.text(policy("null")))


def test_dates_that_are_none_follow_the_policy(database: MysqlDatabase) -> None:
    tables = make(database, NO_DATES, sql_mode="ALLOW_INVALID_DATES")
    for table in tables.values():
        for rule in (OutOfRange.NULL, OutOfRange.CLAMP):
            assert table.log(policy("null", rule)).equals(table.text(policy("null", rule)))
        for read in (table.log, table.text):
            with pytest.raises(Exception, match="RPL-3736"):
                read(policy("null", OutOfRange.FAIL))
            assert [None if v is None else v.encode() for v in read(policy("text")).to_pylist()] == table.printed()
    days = tables["date"].log(policy("null", OutOfRange.CLAMP)).to_pylist()
    assert [str(day) for day in days] == ["2024-02-29", "2023-02-28", "0001-01-01", "2024-01-31", "None"]


def test_json_becomes_the_text_the_server_prints(mysql: MysqlServer) -> None:
    with mysql.database("json") as database:
        table = make(database, {"json": JSON})["json"]
        printed = [None if value is None else value.decode() for value in table.printed()]
        assert table.text().to_pylist() == printed
        assert table.log().to_pylist() == printed
        for value in printed[:30]:
            json.loads(value or "null")


def test_times_of_before_mysql_5_6_are_read(mariadb: MysqlServer) -> None:
    """MariaDB still creates such columns when it is configured to."""
    cases = {
        "datetime": ("'1000-01-01'", "'9999-12-31 23:59:59'", "'2024-02-29 12:34:56'"),
        "timestamp NULL": ("'1970-01-01 00:00:01'", "'2038-01-19 03:14:07'"),
        "time": ("'-838:59:59'", "'838:59:59'", "'-00:00:01'", "'00:00:00'"),
    }
    with mariadb.database("old") as database:
        try:
            tables = make(database, cases, before=("SET GLOBAL mysql56_temporal_format = OFF",))
        finally:
            database.execute("SET GLOBAL mysql56_temporal_format = ON")
        for kind, table in tables.items():
            assert table.kind in {7, 11, 12}
            assert table.log().equals(table.text()), kind
            assert table.log(policy("text")).to_pylist() == [v and v.decode() for v in table.printed()]
