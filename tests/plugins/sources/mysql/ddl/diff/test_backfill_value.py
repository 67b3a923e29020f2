"""The values of existing rows in a new column, and whether values survive a change of type: the server is the oracle."""

from __future__ import annotations

import contextlib
from typing import Any

import pymysql

from replicator_source_mysql.ddl.diff.schema_diff import table_steps
from replicator_source_mysql.types.mapping import table_schema
from tests.plugins.sources.mysql.ddl.server_oracle import ServerOracle

_COLUMNS = [
    "int", "int not null", "bigint unsigned default 18446744073709551615", "decimal(8,3) default 1.5", "decimal(9,2) not null",
    "double default 1e10", "float not null default 1.5", "varchar(9) not null", "varchar(9) default 'a''b\\\\'", "char(5) not null",
    "char(5) default 'ab  '", "text not null", "blob not null", "binary(3) default 'a'", "binary(3) not null",
    "varbinary(4) default 0x00ff", "enum('p','q') not null", "set('p','q') not null", "set('p','q') default 'q,p'",
    "date default '2020-1-2'", "datetime(3) default '2020-01-02 03:04:05.5'", "timestamp default '2020-01-02 03:04:05'",
    "year not null", "year default 70", "bit(1) not null", "bit(1) default 1", "bit(9) default 257", "time(2) default '1:2:3'",
    "time not null", "inet6 not null", "uuid not null", "enum('A','b') default 'a'",
]  # fmt: skip
_VALUES = {
    "tinyint": "-128", "int": "-2147483648", "int unsigned": "4294967295", "bigint": "9223372036854775807",
    "varchar(5)": "'äöü€ '", "char(5)": "'ab'", "text": "'x '", "tinytext": "'z'", "varchar(5) charset latin1": "'äöü€'",
    "decimal(5,2)": "-999.99", "decimal(40,2)": "1.10", "float": "0.1", "double": "0.1", "datetime": "'2020-01-02 03:04:05'",
    "datetime(3)": "'2020-01-02 03:04:05.678'", "time": "'-12:34:56'", "enum('a','b')": "'b'", "enum('b','a','c')": "'b'",
    "enum('a','b','c')": "'c'", "set('a','b')": "'a,b'", "set('a','b','c')": "'c'", "varbinary(5)": "0x0001",
    "binary(5)": "0x0001", "blob": "0x61", "bit(4)": "b'1010'", "bit(8)": "b'11111111'", "bit(12)": "b'101'",
    "varchar(9) charset utf8mb4": "'äöü€'", "mediumtext": "'q'", "decimal(9,4)": "5.5000", "year": "1999",
}  # fmt: skip


def test_older_rows_have_the_backfill_value_in_a_new_column(oracle: ServerOracle) -> None:
    oracle.query("set sql_mode = ''")
    oracle.query("set time_zone = '+00:00'")
    known = 0
    for number, column in enumerate(_COLUMNS):
        oracle.run(f"create table t{number} (id int)")
        oracle.run(f"insert into t{number} values (1)")
        with contextlib.suppress(pymysql.MySQLError):  # not every server has every type
            (change,) = oracle.run(f"alter table t{number} add c {column}")
            assert change.before is not None
            assert change.after is not None
            old, new = table_schema(change.before), table_schema(change.after)
            (step,), keeps = table_steps(change.before, change.after, old, new, change.origins)
            assert keeps, column
            ((found,),) = oracle.query(f"select {_as_text('c', step.default)} from t{number}")
            assert found == _text(step.default), column
            known += 1
    assert known > len(_COLUMNS) - 3


def _as_text(column: str, value: Any) -> str:
    if isinstance(value, bytes):
        return f"hex(concat({column}))"
    if isinstance(value, bool):
        return f"{column} + 0"
    return f"concat({column})" if isinstance(value, str) else column


def _text(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.hex().upper()
    return value.replace(tzinfo=None) if getattr(value, "tzinfo", None) else value


def test_values_survive_every_change_of_type_that_is_said_to_keep_them(oracle: ServerOracle) -> None:
    oracle.query("set sql_mode = ''")
    kept = 0
    for number, (was, value) in enumerate(_VALUES.items()):
        for now in _VALUES:
            if not _is_said_to_keep(oracle, number, was, now):
                continue
            table = f"v{number}"
            oracle.query(f"create table {table} (c {was})")
            oracle.query(f"insert into {table} values ({value})")
            before = oracle.query(f"select hex(cast(c as char)), c + 0e0 from {table}")
            oracle.query(f"alter table {table} modify c {now}")
            after = oracle.query(f"select hex(cast(c as char)), c + 0e0 from {table}")
            numeric = was.startswith(("decimal", "float", "datetime"))
            assert before[0][numeric] == after[0][numeric], (was, now)
            oracle.query(f"drop table {table}")
            kept += was != now
    assert kept > 20


def _is_said_to_keep(oracle: ServerOracle, number: int, was: str, now: str) -> bool:
    """What the history says, without the server."""
    from replicator_sdk.schema import TableId
    from replicator_source_mysql.ddl.apply.apply_effects import apply_effects
    from replicator_source_mysql.ddl.apply.known_tables import KnownTables
    from replicator_source_mysql.ddl.lex.session import Session
    from replicator_source_mysql.ddl.parse.statement import read_statement

    structures, session = KnownTables(), Session("d", is_mariadb=oracle.is_mariadb)
    structures.put_database("d", "utf8mb4")
    apply_effects(read_statement(f"create table t (c {was})", session), structures)
    (change,) = apply_effects(read_statement(f"alter table t modify c {now}", session), structures)
    assert change.table == TableId("d", "t"), number
    assert change.before is not None
    assert change.after is not None
    old, new = table_schema(change.before), table_schema(change.after)
    return table_steps(change.before, change.after, old, new, change.origins)[1]
