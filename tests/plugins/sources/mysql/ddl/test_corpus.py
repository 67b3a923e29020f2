"""What the history derives from the log's statements is what the server's catalogue says."""

from __future__ import annotations

import contextlib

import pymysql
import pytest

from replicator_sdk.schema import TableId
from tests.plugins.sources.mysql.ddl.corpus import SCRIPTS, TABLES
from tests.plugins.sources.mysql.ddl.server_oracle import ServerOracle, compare


def test_every_way_to_write_a_table(oracle: ServerOracle) -> None:
    oracle.query("create sequence sq" if oracle.is_mariadb else "do 0")
    taken = 0
    for number, statement in enumerate(TABLES):
        with contextlib.suppress(pymysql.MySQLError):  # not every server takes every statement
            oracle.query(oracle.placed(statement))
            # The table's name does not matter, its definition does: the next one is made beside it.
            database = "h2" if "`h2`" in statement else "h1"
            oracle.query(oracle.placed(f"rename table {database}.t to h1.t{number}"))
            taken += 1
    oracle.follow()
    oracle.structures.drop(TableId(oracle.databases[0], "sq"))
    compare(oracle)
    assert taken > 290


@pytest.mark.parametrize("name", SCRIPTS)
def test_every_way_to_change_a_table(oracle: ServerOracle, name: str) -> None:
    taken = 0
    for statement in SCRIPTS[name]:
        with contextlib.suppress(pymysql.MySQLError):
            oracle.run(oracle.placed(statement))
            taken += 1
        compare(oracle)
    assert taken > 1


def test_timestamps_without_explicit_defaults(oracle: ServerOracle) -> None:
    """A TIMESTAMP is NOT NULL by itself, the first one updates itself, others begin at zero."""
    oracle.query("set explicit_defaults_for_timestamp = off, sql_mode = ''")
    oracle.session = oracle.session_with(has_explicit_timestamps=False)
    oracle.run("create table t (a timestamp, b timestamp, c timestamp null, d timestamp(3) null default null)")
    compare(oracle)
    oracle.run("alter table t add e timestamp, add f timestamp(2) not null default '2020-01-01', modify c timestamp")
    compare(oracle)
    oracle.run("create table u (a timestamp default current_timestamp, b timestamp(3))")
    compare(oracle)


def test_modes_of_the_session(oracle: ServerOracle) -> None:
    oracle.query("set sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES,REAL_AS_FLOAT'")
    oracle.session = oracle.session_with(has_ansi_quotes=True, has_backslash_escapes=False, real_is_float=True)
    oracle.run("""create table "t" ("a""b" varchar(9) default 'x\\', c real, d varchar(9) default '\\''"', e int)""")
    compare(oracle)


def test_a_lenient_server_makes_text_of_what_is_too_long(oracle: ServerOracle) -> None:
    oracle.query("set sql_mode = ''")
    oracle.run("create table t (a varchar(20000), b varbinary(70000), c varchar(60000) charset latin1)")
    compare(oracle)
