"""What the history derives from the log's statements is what the server's catalogue says."""

from __future__ import annotations

import contextlib

import pymysql
import pytest

from replicator_sdk.schema import TableId
from tests.plugins.sources.mysql.history.corpus import SCRIPTS, TABLES
from tests.plugins.sources.mysql.history.judge import Judge, compare


def test_every_way_to_write_a_table(judge: Judge) -> None:
    judge.query("create sequence sq" if judge.is_mariadb else "do 0")
    taken = 0
    for number, statement in enumerate(TABLES):
        with contextlib.suppress(pymysql.MySQLError):  # not every server takes every statement
            judge.query(judge.placed(statement))
            # The table's name does not matter, its definition does: the next one is made beside it.
            database = "h2" if "`h2`" in statement else "h1"
            judge.query(judge.placed(f"rename table {database}.t to h1.t{number}"))
            taken += 1
    judge.follow()
    judge.structures.drop(TableId(judge.databases[0], "sq"))
    compare(judge)
    assert taken > 290


@pytest.mark.parametrize("name", SCRIPTS)
def test_every_way_to_change_a_table(judge: Judge, name: str) -> None:
    taken = 0
    for statement in SCRIPTS[name]:
        with contextlib.suppress(pymysql.MySQLError):
            judge.run(judge.placed(statement))
            taken += 1
        compare(judge)
    assert taken > 1


def test_timestamps_without_explicit_defaults(judge: Judge) -> None:
    """A TIMESTAMP is NOT NULL by itself, the first one updates itself, others begin at zero."""
    judge.query("set explicit_defaults_for_timestamp = off, sql_mode = ''")
    judge.session = judge.session_with(has_explicit_timestamps=False)
    judge.run("create table t (a timestamp, b timestamp, c timestamp null, d timestamp(3) null default null)")
    compare(judge)
    judge.run("alter table t add e timestamp, add f timestamp(2) not null default '2020-01-01', modify c timestamp")
    compare(judge)
    judge.run("create table u (a timestamp default current_timestamp, b timestamp(3))")
    compare(judge)


def test_modes_of_the_session(judge: Judge) -> None:
    judge.query("set sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES,REAL_AS_FLOAT'")
    judge.session = judge.session_with(has_ansi_quotes=True, has_backslash_escapes=False, real_is_float=True)
    judge.run("""create table "t" ("a""b" varchar(9) default 'x\\', c real, d varchar(9) default '\\''"', e int)""")
    compare(judge)


def test_a_lenient_server_makes_text_of_what_is_too_long(judge: Judge) -> None:
    judge.query("set sql_mode = ''")
    judge.run("create table t (a varchar(20000), b varbinary(70000), c varchar(60000) charset latin1)")
    compare(judge)
