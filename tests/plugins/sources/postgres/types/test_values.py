"""A row has the same value whether a snapshot or the log brought it, and it is the value the server holds."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from functools import partial
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from replicator_sdk import OutOfRange
from replicator_sdk.errors import DataError
from tests.plugins.sources.postgres.pump import Pump
from tests.services.postgres.server import PostgresDatabase

UTC = dt.UTC

# Type at the source, standard type, SQL literal → value that must arrive.
CASES: list[tuple[str, str, dict[str, Any]]] = [
    ("smallint", "int16", {"-32768": -32768, "32767": 32767}),
    ("integer", "int32", {"-2147483648": -(2**31), "2147483647": 2**31 - 1}),
    ("bigint", "int64", {"-9223372036854775808": -(2**63), "9223372036854775807": 2**63 - 1}),
    ("oid", "int64", {"4294967295": 2**32 - 1, "0": 0}),
    ("real", "float32", {"'Infinity'": float("inf"), "'-Infinity'": float("-inf"), "3.4028235e38": 3.4028234663852886e38,
                         "1e-45": 1.401298464324817e-45, "0.1": 0.10000000149011612}),
    ("double precision", "float64", {"'Infinity'": float("inf"), "1.7976931348623157e308": 1.7976931348623157e308,
                                     "5e-324": 5e-324, "0.1": 0.1, "'-0'": -0.0}),
    ("numeric(12,2)", "decimal(12,2)", {"9999999999.99": Decimal("9999999999.99"), "-0.01": Decimal("-0.01")}),
    ("numeric(38,10)", "decimal(38,10)", {"9999999999999999999999999999.9999999999":
                                          Decimal("9999999999999999999999999999.9999999999")}),
    ("numeric(38)", "decimal(38,0)", {"-99999999999999999999999999999999999999":
                                      Decimal(-99999999999999999999999999999999999999)}),
    ("numeric(39,1)", "string", {"1.5": "1.5"}),
    ("numeric", "string", {"1.50": "1.50", "'NaN'": "NaN", "1e40": "1" + "0" * 40, "0.00000000001": "0.00000000001"}),
    ("boolean", "bool", {"true": True, "false": False}),
    ("text", "string", {"''": "", "'a\tb\nc\\d\r\"e'": 'a\tb\nc\\d\r"e', "'\\N'": "\\N", "'naïve 東京 🦆'": "naïve 東京 🦆",
                        "E'\\\\'": "\\", "E'\\b\\f\\x0b'": "\b\f\x0b", "'NULL'": "NULL"}),
    ("varchar(5)", "string", {"'abc'": "abc"}),
    ("char(5)", "string", {"'ab'": "ab   "}),
    ("\"char\"", "string", {"'x'": "x"}),
    ("name", "string", {"'n'": "n"}),
    ("bytea", "binary", {"'\\x'": b"", "'\\x00ff5c0a09'": b"\x00\xff\\\n\t"}),
    ("date", "date", {"'0001-01-01'": dt.date(1, 1, 1), "'9999-12-31'": dt.date(9999, 12, 31),
                      "'2024-02-29'": dt.date(2024, 2, 29)}),
    ("time", "time", {"'00:00'": dt.time(0), "'23:59:59.999999'": dt.time(23, 59, 59, 999999), "'12:00:00.5'":
                      dt.time(12, 0, 0, 500000)}),
    ("time(0)", "time", {"'12:34:56'": dt.time(12, 34, 56)}),
    ("timetz", "string", {"'12:00:00.5+02:30'": "12:00:00.5+02:30"}),
    ("timestamp", "timestamp", {"'0001-01-01'": dt.datetime(1, 1, 1), "'9999-12-31 23:59:59.999999'":
                                dt.datetime(9999, 12, 31, 23, 59, 59, 999999),
                                "'1969-12-31 23:59:59.5'": dt.datetime(1969, 12, 31, 23, 59, 59, 500000)}),
    ("timestamp(3)", "timestamp", {"'2024-01-01 00:00:00.123456'": dt.datetime(2024, 1, 1, 0, 0, 0, 123000)}),
    ("timestamptz", "instant", {"'2024-07-01 12:00+02'": dt.datetime(2024, 7, 1, 10, tzinfo=UTC),
                                "'0001-01-01 00:00+00'": dt.datetime(1, 1, 1, tzinfo=UTC),
                                "'1883-11-18 12:00 America/New_York'": dt.datetime(1883, 11, 18, 17, tzinfo=UTC)}),
    ("interval", "string", {"'1 year 2 mons -3 days 04:05:06.7'": "P1Y2M-3DT4H5M6.7S", "'0'": "PT0S"}),
    ("json", "json", {"'{\"a\": [1, 9007199254740993],  \"a\": null}'": '{"a": [1, 9007199254740993],  "a": null}',
                      "'null'": "null", "'[\"\\ud83d\", \"\\u0000\", -0, 1e400]'": '["\\ud83d", "\\u0000", -0, 1e400]'}),
    ("jsonb", "json", {"'{\"b\": 1, \"a\": \"\\u00e9\\\\\"}'": '{"a": "é\\\\", "b": 1}'.replace("\\\\", "\\\\")}),
    ("uuid", "uuid", {"'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'": "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"}),
    ("xml", "string", {"'<a>&lt;</a>'": "<a>&lt;</a>"}),
    ("money", "string", {"1234.5": "$1,234.50"}),
    ("inet", "string", {"'192.168.0.1/24'": "192.168.0.1/24", "'::1'": "::1"}),
    ("cidr", "string", {"'10.0.0.0/8'": "10.0.0.0/8"}),
    ("macaddr", "string", {"'08:00:2b:01:02:03'": "08:00:2b:01:02:03"}),
    ("macaddr8", "string", {"'08:00:2b:01:02:03:04:05'": "08:00:2b:01:02:03:04:05"}),
    ("bit(3)", "string", {"B'101'": "101"}),
    ("varbit", "string", {"B''": "", "B'1'": "1"}),
    ("tsvector", "string", {"'a:1 b'": "'a':1 'b'"}),
    ("tsquery", "string", {"'a & b'": "'a' & 'b'"}),
    ("pg_lsn", "string", {"'16/B374D848'": "16/B374D848"}),
    ("point", "string", {"'(1,2.5)'": "(1,2.5)"}),
    ("box", "string", {"'(1,1),(0,0)'": "(1,1),(0,0)"}),
    ("box[]", "string", {"'{(1,1),(0,0);(2,2),(1,1)}'": "{(1,1),(0,0);(2,2),(1,1)}"}),
    ("int4range", "string", {"'[1,5)'": "[1,5)", "'empty'": "empty"}),
    ("tstzrange", "string", {"'[2024-01-01 00:00+00,)'": '["2024-01-01 00:00:00+00",)'}),
    ("int2vector", "string", {"'1 2'": "1 2"}),
    ("mood", "string", {"'very happy'": "very happy"}),
    ("positive", "int32", {"7": 7}),
    ("price", "decimal(10,2)", {"7": Decimal("7.00")}),
    ("pair", "string", {"'(1,\"a b\")'": '(1,"a b")'}),
    ("integer[]", "array<int32>", {"'{}'": [], "'{1,NULL,-3}'": [1, None, -3]}),
    ("text[]", "array<string>", {"ARRAY['', 'a,b', 'q\"q', 'back\\slash', NULL, 'NULL', '{x}', ' ', E'tab\\t', 'é🦆']":
                                 ["", "a,b", 'q"q', "back\\slash", None, "NULL", "{x}", " ", "tab\t", "é🦆"],
                                 "ARRAY['\\\\', '\\\"']": ["\\\\", '\\"']}),
    ("numeric(6,2)[]", "array<decimal(6,2)>", {"'{1.5,NULL}'": [Decimal("1.50"), None]}),
    ("bytea[]", "array<binary>", {"ARRAY['\\x00'::bytea, '\\x'::bytea, NULL]": [b"\x00", b"", None]}),
    ("timestamptz[]", "array<instant>", {"'{2024-01-01 00:00+01}'": [dt.datetime(2023, 12, 31, 23, tzinfo=UTC)]}),
    ("boolean[]", "array<bool>", {"'{t,f,NULL}'": [True, False, None]}),
    ("jsonb[]", "array<json>", {"ARRAY['{\"a\": \"x,y\"}'::jsonb]": ['{"a": "x,y"}']}),
    ("mood[]", "array<string>", {"'{sad,\"very happy\"}'": ["sad", "very happy"]}),
    ("positive[]", "array<int32>", {"'{1,2}'": [1, 2]}),
]  # fmt: skip

TYPES = """
CREATE TYPE mood AS ENUM ('sad', 'very happy'); CREATE DOMAIN positive AS int CHECK (value > 0);
CREATE DOMAIN price AS numeric(10,2); CREATE TYPE pair AS (a int, b text);
"""


def test_every_type_at_its_limits_is_equal_in_log_snapshot_and_server(
    postgres_oldest_and_newest: PostgresDatabase,
) -> None:
    db = postgres_oldest_and_newest
    db.execute(TYPES)
    columns = ", ".join(f"c{i} {kind}" for i, (kind, _, _) in enumerate(CASES))
    db.execute(f"CREATE TABLE v (id int PRIMARY KEY, {columns})")
    pump = Pump(db, "v")
    pump.prepare()
    depth = max(len(values) for *_, values in CASES)
    wanted: list[dict[str, Any]] = []
    for n in range(depth + 1):
        literals: list[str] = []
        row: dict[str, Any] = {"id": n}
        for i, (_, _, values) in enumerate(CASES):
            # The last row is all NULL.
            literal, value = list(values.items())[n % len(values)] if n < depth else ("NULL", None)
            literals.append(literal)
            row[f"c{i}"] = value
        db.execute(f"INSERT INTO v VALUES ({n}, {', '.join(literals)})")
        wanted.append(row)
    schema = pump.schemas[pump.table("v")]
    assert {c: str(schema[f"c{i}"].type) for i, (c, _, _) in enumerate(CASES)} == {c: t for c, t, _ in CASES}
    streamed = pump.read().inserted("v")
    _, read = pump.snapshot("v")
    assert streamed.sort_by("id").equals(read.sort_by("id"))
    for got, want in zip(read.sort_by("id").to_pylist(), wanted, strict=True):
        differing = {CASES[int(k[1:])][0]: (got[k], want[k]) for k in want if k != "id" and got[k] != want[k]}
        assert differing == {}


READ_AS_TEXT = {"inet", "cidr", '"char"', "xml", "name", "positive", "price"}
"""Types whose cast to text is not what their output function writes, and domains."""


def test_adbc_and_text_give_the_same_snapshot(postgres_oldest_and_newest: PostgresDatabase) -> None:
    db = postgres_oldest_and_newest
    db.execute(TYPES)
    cases = [case for case in CASES if case[0] not in READ_AS_TEXT]
    db.execute(
        f"CREATE TABLE v (id int PRIMARY KEY, {', '.join(f'c{i} {kind}' for i, (kind, *_) in enumerate(cases))})"
    )
    for n in range(max(len(values) for *_, values in cases) + 1):
        literals = [list(values)[n] if n < len(values) else "NULL" for *_, values in cases]
        db.execute(f"INSERT INTO v VALUES ({n}, {', '.join(literals)})")
    pump = Pump(db, "v")
    snapshot, by_adbc = pump.snapshot("v")
    assert snapshot.read.adbc_columns is not None  # type: ignore[attr-defined]
    _, text = pump.snapshot("v", as_text=True)
    for name in text.column_names:
        assert by_adbc.sort_by("id")[name].to_pylist() == text.sort_by("id")[name].to_pylist(), name
    assert by_adbc.sort_by("id").equals(text.sort_by("id"))


@pytest.mark.parametrize("kind", sorted(READ_AS_TEXT))
def test_types_that_adbc_would_change_are_read_as_text(kind: str, postgres_database: PostgresDatabase) -> None:
    db = postgres_database
    db.execute(f"{TYPES}; CREATE TABLE v (id int PRIMARY KEY, c {kind})")
    snapshot, _ = Pump(db, "v").snapshot("v")
    assert snapshot.read.adbc_columns is None  # type: ignore[attr-defined]


def test_nan_stays_nan_in_floats(postgres_database: PostgresDatabase) -> None:
    db = postgres_database
    db.execute("CREATE TABLE v (id int PRIMARY KEY, a real, b float8)")
    pump = Pump(db, "v")
    pump.prepare()
    db.execute("INSERT INTO v VALUES (1, 'NaN', 'NaN')")
    for table in (pump.read().inserted("v"), pump.snapshot("v")[1]):
        assert all(value != value for value in (table["a"][0].as_py(), table["b"][0].as_py()))


def test_multiranges_arrive_as_text(postgres_database: PostgresDatabase) -> None:
    db = postgres_database
    db.execute("CREATE TABLE v (id int PRIMARY KEY, r int4multirange)")
    pump = Pump(db, "v")
    pump.prepare()
    db.execute("INSERT INTO v VALUES (1, '{[1,2),[5,9)}')")
    assert pump.read().inserted("v")["r"].to_pylist() == ["{[1,2),[5,9)}"]


OUTSIDE = [
    ("date", "'infinity'", dt.date(9999, 12, 31)),
    ("date", "'-infinity'", dt.date(1, 1, 1)),
    ("date", "'0044-03-15 BC'", dt.date(1, 1, 1)),
    ("date", "'10000-01-01'", dt.date(9999, 12, 31)),
    ("timestamp", "'infinity'", dt.datetime(9999, 12, 31, 23, 59, 59, 999999)),
    ("timestamp", "'0044-03-15 12:00 BC'", dt.datetime(1, 1, 1)),
    ("timestamptz", "'-infinity'", dt.datetime(1, 1, 1, tzinfo=UTC)),
    ("timestamptz", "'294276-01-01'", dt.datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)),
    ("timestamptz", "'0001-01-01 BC'", dt.datetime(1, 1, 1, tzinfo=UTC)),
    ("time", "'24:00:00'", dt.time(23, 59, 59, 999999)),
    ("numeric(6,2)", "'NaN'", None),
    ("int[]", "'{{1,2},{3,4}}'", [1, 2, 3, 4]),
    ("int[]", "'[0:1]={1,2}'", [1, 2]),
    ("int[]", "'[2:2][3:4]={{7,8}}'", [7, 8]),
    ("date[]", "'{infinity}'", [dt.date(9999, 12, 31)]),
]


@pytest.mark.parametrize("rule", [OutOfRange.NULL, OutOfRange.CLAMP])
def test_values_outside_the_range_follow_the_policy(rule: OutOfRange, postgres_database: PostgresDatabase) -> None:
    """Good rows beside are untouched, and each replaced value is counted by its table."""
    db = postgres_database
    names = _tables_outside(db)
    pump = Pump(db, *names, out_of_range=rule)
    pump.prepare()
    for name, (_, literal, _) in zip(names, OUTSIDE, strict=True):
        db.execute(f"INSERT INTO {name} VALUES (1, {literal}, 'secret'), (2, NULL, NULL)")
    run = pump.read()
    for name, (kind, literal, nearest) in zip(names, OUTSIDE, strict=True):
        null = [None] if kind == "date[]" else None
        want = [nearest if rule is OutOfRange.CLAMP else null, None]
        assert run.inserted(name)["c"].to_pylist() == want, literal
        assert pump.snapshot(name)[1]["c"].to_pylist() == want, literal
        assert pump.snapshot(name, as_text=True)[1]["c"].to_pylist() == want, literal
    assert pump.context.metrics.counters["source.out_of_range"] == len(names)  # type: ignore[attr-defined]


def test_values_outside_the_range_are_an_error_that_names_table_and_column(postgres_database: PostgresDatabase) -> None:
    """And never the row's other values."""
    db = postgres_database
    for name, (_, literal, _) in zip(_tables_outside(db), OUTSIDE, strict=True):
        pump = Pump(db, name, out_of_range=OutOfRange.FAIL)
        pump.prepare()
        db.execute(f"INSERT INTO {name} VALUES (1, {literal}, 'secret'), (2, NULL, NULL)")
        for read in (pump.read, partial(pump.snapshot, name), partial(pump.snapshot, name, as_text=True)):
            with pytest.raises(DataError) as caught:
                read()
            assert "'c'" in str(caught.value)
            assert name in str(caught.value)
            assert "secret" not in str(caught.value)
        db.execute(f"SELECT pg_drop_replication_slot('{_slot(db)}')")


def _tables_outside(db: PostgresDatabase) -> list[str]:
    """A table for each of `OUTSIDE`, empty."""
    names = [f"v{i}" for i in range(len(OUTSIDE))]
    for name, (kind, _, _) in zip(names, OUTSIDE, strict=True):
        db.execute(f"CREATE TABLE {name} (id int PRIMARY KEY, c {kind}, s text)")
    return names


def _slot(db: PostgresDatabase) -> str:
    rows = db.execute(f"SELECT slot_name FROM pg_replication_slots WHERE database = '{db.name}' AND NOT temporary")
    return str(rows[0][0])


ROWS = st.lists(
    st.tuples(
        st.one_of(st.none(), st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)),
        st.one_of(st.none(), st.binary(max_size=12)),
        st.one_of(st.none(), st.floats()),
        st.one_of(st.none(), st.decimals(allow_nan=False, allow_infinity=False, places=4, max_value=10**14,
                                         min_value=-(10**14))),
        st.one_of(st.none(), st.datetimes()),
        st.one_of(st.none(), st.lists(st.one_of(st.none(), st.text('ab"\\{},NUL \té', max_size=5)), max_size=4)),
    ),
    min_size=1,
    max_size=20,
)  # fmt: skip


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=ROWS)
def test_random_rows_are_equal_in_snapshot_and_server(rows: list[tuple[Any, ...]], random_table: Pump) -> None:
    pump = random_table
    with pump.database.connect() as connection:
        connection.execute("TRUNCATE r")
        with connection.cursor() as cursor:
            cursor.executemany(
                "INSERT INTO r VALUES (%s, %s, %s, %s, %s, %s, %s)", [(i, *row) for i, row in enumerate(rows)]
            )
        want = connection.execute("SELECT * FROM r ORDER BY 1").fetchall()
    for as_text in (False, True):
        table = pump.snapshot("r", as_text=as_text)[1].sort_by("id")
        assert repr([tuple(row.values()) for row in table.to_pylist()]) == repr(want)


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=ROWS)
def test_random_rows_are_equal_in_log_and_snapshot(rows: list[tuple[Any, ...]], random_table: Pump) -> None:
    pump = random_table
    with pump.database.connect() as connection:
        connection.execute("TRUNCATE r")
        if pump.offset is not None:
            pump.read()
        else:
            pump.prepare()
        with connection.cursor() as cursor:
            cursor.executemany(
                "INSERT INTO r VALUES (%s, %s, %s, %s, %s, %s, %s)", [(i, *row) for i, row in enumerate(rows)]
            )
    streamed, read = pump.read().inserted("r").sort_by("id"), pump.snapshot("r")[1].sort_by("id")
    assert repr(streamed.to_pylist()) == repr(read.to_pylist())


@pytest.fixture
def random_table(postgres_database: PostgresDatabase) -> Pump:
    postgres_database.execute(
        "CREATE TABLE r (id int PRIMARY KEY, a text, b bytea, c float8, d numeric(20,4), e timestamp, f text[])"
    )
    return Pump(postgres_database, "r")


def test_the_session_settings_of_the_role_change_no_value(postgres_database: PostgresDatabase) -> None:
    """Whatever DateStyle, time zone or bytea form the role or database prefers."""
    db = postgres_database
    for setting in ("DateStyle = 'German'", "TimeZone = 'Asia/Kolkata'", "IntervalStyle = 'sql_standard'",
                    "bytea_output = 'escape'", "extra_float_digits = -5", "search_path = 'nowhere'"):  # fmt: skip
        db.execute(f'ALTER DATABASE "{db.name}" SET {setting}')
    db.execute("CREATE TABLE public.v (id int PRIMARY KEY, a timestamptz, b date, c interval, d bytea, e float8)")
    pump = Pump(db, "v")
    pump.prepare()
    db.execute(
        "INSERT INTO public.v VALUES (1, '2024-01-02 03:04:05.06Z', '2024-12-31', '1 day', '\\xff', 0.1::float8/3)"
    )
    want = {
        "id": 1, "a": dt.datetime(2024, 1, 2, 3, 4, 5, 60000, UTC), "b": dt.date(2024, 12, 31), "c": "P1D", "d": b"\xff",
        "e": 0.1 / 3,
    }  # fmt: skip
    assert pump.read().inserted("v").to_pylist() == [want]
    assert pump.snapshot("v")[1].to_pylist() == [want]


def test_types_arrive_in_their_standard_arrow_types() -> None:
    """Guards the case table itself: every standard type but int8 and record is in it."""
    kinds = {kind for _, kind, _ in CASES}
    assert {"bool", "int16", "int32", "int64", "float32", "float64", "string", "binary", "date", "time"} <= kinds
    assert {"timestamp", "instant", "json", "uuid"} <= kinds
    assert pa.types.is_decimal(pa.decimal128(12, 2))
