"""Steps between two definitions, and whether rows kept their values."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pytest

from replicator_sdk.event import Alter, AlterKind
from replicator_sdk.schema import TableId
from replicator_source_mysql.ddl.apply.apply_effects import apply_effects
from replicator_source_mysql.ddl.apply.known_tables import KnownTables
from replicator_source_mysql.ddl.apply.table_change import ChangeKind, TableChange
from replicator_source_mysql.ddl.diff.schema_diff import table_steps
from replicator_source_mysql.ddl.lex.session import Session
from replicator_source_mysql.ddl.parse.statement import read_statement
from replicator_source_mysql.definition import TableDefinition
from replicator_source_mysql.types.mapping import table_schema

_SESSION = Session("d", time_zone="+02:00")


def _change(create: str, alter: str) -> TableChange:
    structures = KnownTables()
    structures.put_database("d", "utf8mb4")
    apply_effects(read_statement(create, _SESSION), structures)
    return apply_effects(read_statement(alter, _SESSION), structures)[-1]


def _steps(create: str, alter: str, zero_dates: str = "null") -> tuple[tuple[Alter, ...], bool]:
    change = _change(create, alter)
    assert change.before is not None
    assert change.after is not None
    before, after = change.before, change.after
    return table_steps(
        before, after, _schema(before, zero_dates), _schema(after, zero_dates), change.origins,
        zero_dates=zero_dates, rewritten=change.rewritten,
    )  # fmt: skip


def _schema(definition: TableDefinition, zero_dates: str) -> Any:
    return table_schema(definition, zero_dates=zero_dates)


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("int", None), ("int not null", 0), ("int default 7", 7), ("bigint unsigned not null default 5", Decimal(5)),
        ("decimal(8,3) default 1.5", Decimal("1.500")), ("decimal(65,30) not null", "0." + "0" * 30),
        ("double not null default 1e3", 1000.0), ("varchar(9) not null", ""), ("varchar(9) default 'a''b'", "a'b"),
        ("enum('p','q') not null", "p"), ("set('p','q') not null", ""), ("bit(1) not null", False), ("bit(9) default 257",
        b"\x01\x01"), ("binary(3) default 'a'", b"a\0\0"), ("varbinary(3) default 0x00ff", b"\x00\xff"),
        ("blob not null", b""), ("date default '2020-1-2'", dt.date(2020, 1, 2)), ("date not null", None),
        ("datetime(3) default '2020-01-02 03:04:05.5'", dt.datetime(2020, 1, 2, 3, 4, 5, 500_000)),
        ("timestamp default '2020-01-02 03:04:05'", dt.datetime(2020, 1, 2, 1, 4, 5, tzinfo=dt.UTC)),
        ("time(2) not null", "00:00:00.00"), ("year not null", 0), ("json not null", "null"),
    ],
)  # fmt: skip
def test_a_new_column_has_the_value_of_older_rows(column: str, value: object) -> None:
    steps, keeps = _steps("create table t (id int)", f"alter table t add c {column}")
    assert [(step.kind, step.default) for step in steps] == [(AlterKind.ADD_COLUMN, value)]
    assert keeps


@pytest.mark.parametrize(
    "column",
    [
        "datetime default now()", "varchar(36) default (uuid())", "int as (id + 1)", "int as (id + 1) stored",
        "point not null",
    ],
)  # fmt: skip
def test_a_new_column_whose_values_are_computed_needs_a_snapshot(column: str) -> None:
    assert not _steps("create table t (id int)", f"alter table t add c {column}")[1]


def test_a_new_column_that_the_server_numbers_needs_a_snapshot() -> None:
    assert _change("create table t (id int)", "alter table t add n int auto_increment unique").needs_snapshot


def test_a_default_in_an_unknown_time_zone_is_not_known() -> None:
    structures = KnownTables()
    structures.put_database("d", "utf8mb4")
    session = Session("d", time_zone="SYSTEM")
    text = "create table t (id int, c timestamp default '2020-01-02 03:04:05')"
    (change,) = apply_effects(read_statement(text, session), structures)
    assert change.after is not None
    assert change.after["c"].has_expression_default


def test_zero_dates_are_what_the_setting_says() -> None:
    steps, keeps = _steps("create table t (id int)", "alter table t add c datetime not null", "text")
    assert (steps[0].default, keeps) == ("0000-00-00 00:00:00", True)
    assert not _steps("create table t (id int)", "alter table t add c date not null", "fail")[1]


_KEPT = [
    ("int", "bigint"), ("int unsigned", "bigint"), ("tinyint(1)", "int"), ("int(5)", "int(9) zerofill unsigned"),
    ("varchar(5)", "varchar(9)"), ("varchar(5)", "text"), ("char(5)", "varchar(5)"), ("tinytext", "longtext"),
    ("varchar(5) charset latin1", "varchar(5) charset utf8mb4"), ("varchar(9) charset utf8mb3", "text charset utf8mb4"),
    ("decimal(8,2)", "decimal(10,4)"), ("float", "double"), ("float(7,2)", "float"), ("datetime", "datetime(6)"),
    ("enum('a','b')", "enum('a','b','c')"), ("set('a')", "set('a','b')"), ("varbinary(3)", "blob"), ("bit(3)", "bit(7)"),
    ("point", "geometry"), ("int not null", "int null"), ("text charset latin1", "mediumtext charset utf8mb4"),
]  # fmt: skip
_CHANGED = [
    ("bigint", "int"), ("int", "int unsigned"), ("bigint unsigned", "bigint"), ("int unsigned", "int"), ("int", "varchar(20)"),
    ("varchar(9)", "varchar(5)"), ("text", "varchar(100)"), ("varchar(5)", "char(5)"), ("varchar(100)", "tinytext"),
    ("varchar(5) charset utf8mb4", "varchar(5) charset latin1"), ("varchar(5) charset gbk", "varchar(5) charset utf8mb4"),
    ("decimal(8,2)", "decimal(8,3)"), ("decimal(8,2)", "decimal(10,1)"), ("decimal(40,2)", "decimal(50,4)"),
    ("double", "float"), ("float", "float(7,2)"), ("datetime(6)", "datetime"), ("time", "time(3)"), ("date", "datetime"),
    ("enum('a','b')", "enum('b','a')"), ("enum('a','b')", "enum('a')"), ("binary(3)", "binary(5)"), ("bit(3)", "bit(9)"),
    ("bit(1)", "bit(2)"), ("int null", "int not null"), ("varchar(5)", "varbinary(20)"), ("int", "bigint unsigned"),
    ("text charset latin1", "text charset utf8mb4"), ("datetime", "timestamp"), ("int as (1)", "int as (2)"),
]  # fmt: skip


@pytest.mark.parametrize(("was", "now"), [pair for pair in _KEPT if "zerofill" not in pair[1]])
def test_a_wider_type_keeps_every_value(was: str, now: str) -> None:
    steps, keeps = _steps(f"create table t (id int, c {was})", f"alter table t modify c {now}")
    assert keeps
    assert {step.kind for step in steps} <= {AlterKind.RETYPE_COLUMN, AlterKind.RELAX_COLUMN}


@pytest.mark.parametrize(("was", "now"), _CHANGED)
def test_a_type_that_may_change_values_needs_a_snapshot(was: str, now: str) -> None:
    assert not _steps(f"create table t (id int, c {was})", f"alter table t modify c {now}")[1]


def test_names_that_are_swapped_use_a_third() -> None:
    steps, keeps = _steps(
        "create table t (a int, b int, c int)",
        "alter table t rename column a to b, rename column b to a, drop column c",
    )
    assert keeps
    assert [step.kind for step in steps] == [AlterKind.DROP_COLUMN, *[AlterKind.RENAME_COLUMN] * 3]
    names = {"a": "was a", "b": "was b"}
    for step in steps[1:]:
        assert step.column is not None
        assert step.previous is not None
        assert step.column.name not in names
        names[step.column.name] = names.pop(step.previous.name)
    assert names == {"a": "was b", "b": "was a"}


def test_a_column_dropped_and_added_again_is_another_one() -> None:
    steps, _ = _steps("create table t (a int, b int)", "alter table t drop a, add a varchar(3)")
    assert [step.kind for step in steps] == [AlterKind.DROP_COLUMN, AlterKind.ADD_COLUMN]


def test_another_key_is_a_step_and_a_renamed_key_column_is_none() -> None:
    steps, _ = _steps(
        "create table t (a int primary key, b int not null)", "alter table t drop primary key, add primary key (b)"
    )
    assert [step.kind for step in steps] == [AlterKind.CHANGE_KEY]
    steps, _ = _steps("create table t (a int primary key)", "alter table t change a c int")
    assert [step.kind for step in steps] == [AlterKind.RENAME_COLUMN]


def test_a_generated_column_may_change_with_what_it_is_made_of() -> None:
    create = "create table t (a varchar(3) charset latin1, b int as (length(a)) stored)"
    assert not _steps(create, "alter table t convert to character set utf8mb4")[1]


@pytest.mark.parametrize(
    "alter", ["drop partition p", "truncate partition p", "discard tablespace", "import tablespace"]
)
def test_rows_that_go_without_row_events_need_a_snapshot(alter: str) -> None:
    change = _change("create table t (a int)", f"alter table t {alter}")
    assert change.kind is ChangeKind.ALTERED
    assert change.needs_snapshot
    assert change.table == TableId("d", "t")
