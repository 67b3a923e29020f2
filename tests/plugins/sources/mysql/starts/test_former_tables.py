"""What tables were at an earlier position is found exactly, or refused with a later position at which it is."""

from __future__ import annotations

import random
import re
from collections import Counter
from dataclasses import replace

import pytest

from replicator_sdk.errors import NeedsUserError
from replicator_sdk.schema import TableId
from replicator_source_mysql.binlog.query_event import Query
from replicator_source_mysql.ddl.apply.table_change import ChangeKind
from replicator_source_mysql.ddl.history.schema_history import SchemaHistory
from replicator_source_mysql.ddl.lex.session import Session
from replicator_source_mysql.ddl.parse.statement import read_statement
from replicator_source_mysql.definition import TableDefinition
from replicator_source_mysql.offset import MySqlOffset
from replicator_source_mysql.starts.former_tables import FormerTables, former_tables
from replicator_source_mysql.streaming.schema_baseline import Baseline
from tests.plugins.sources.mysql.ddl.test_random_statements import ALTERED, any_statement

USED = Session("h1")
START = ("create table h1.a (`x` int, `y` varchar(20), unique `u` (`x`))", "create table h1.b (`x` int primary key)")


class Log:
    """The statements of a log and what they made of the tables, place by place."""

    def __init__(self, mode: int = 0) -> None:
        self.mode = mode
        empty = Baseline(at(0), {"h1": "utf8mb4", "h2": "utf8mb4"}, {}, {})
        self._history = SchemaHistory.begin(at(0), empty, lower_case_table_names=mode)
        self.statements: list[tuple[Query, MySqlOffset]] = []
        self.tables: list[dict[TableId, TableDefinition]] = [{}]
        for text in START:
            self.run(text)

    def run(self, text: str) -> bool:
        """Whether the statement fits the tables; nothing happens when it does not."""
        before, place = self._history.dump(), at(len(self.tables))
        try:
            changes = self._history.apply(read_statement(text, USED), place)
            fits = all(change.kind is not ChangeKind.UNKNOWN for change in changes)
        except ValueError:  # a server refuses it, and so it is in no log
            fits = False
        if not fits:
            self._history = SchemaHistory.load(before)
            self._history.rewind(at(len(self.tables) - 1))
            return False
        self.statements.append((Query(text, USED), place))
        self.tables.append({table: self._history.definition(table) for table in self._history.tables()})
        return True

    def former(self, place: int, *names: str, columns: frozenset[str] | None = None) -> FormerTables:
        now = Baseline(at(len(self.tables) - 1), {"h1": "utf8mb4", "h2": "utf8mb4"}, self.tables[-1], {})
        selected = {TableId("h1", name): columns for name in names}
        return former_tables(now, self.statements[place:], at(place), selected, self.mode)


def at(place: int) -> MySqlOffset:
    return MySqlOffset("binlog.000001", place, server="s")


A, B = TableId("h1", "a"), TableId("h1", "b")


def test_added_and_renamed_columns_and_keys_are_undone() -> None:
    log = Log()
    for text in (
        "alter table a add column z int unique after x, add unique v (y)",
        "alter table a add column w int, rename column y to name, rename index v to vv",
        "truncate a",
        "create index i on a (w)",
        "alter table a alter x set default 7",
    )[1:]:
        assert log.run(text.replace("rename index v to vv", "add unique v (name)"))
    found = log.former(2, "a", "b")
    assert [column.name for column in found.captured[A].columns] == ["x", "y"]
    assert found.captured[B] == log.tables[2][B]
    assert (_columns(found.captured[A]), found.captured[A].keys) == (_columns(log.tables[2][A]), log.tables[2][A].keys)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("alter table a drop column y", "what it made of it"),
        ("alter table a modify y varchar(30)", "what it made of it"),
        ("alter table a drop index u", "what it made of it"),
        ("alter table a add primary key (x)", "added a key"),
        ("rename table a to c, c to a", "another name"),
        ("alter table a convert to character set latin1", "what it made of it"),
        ("alter table a frobnicate", "not understood"),
    ],
)
def test_what_a_statement_has_replaced_is_refused_with_the_position_after_it(text: str, why: str) -> None:
    log = Log()
    log.statements.append((Query(text, USED), at(3)))
    log.tables.append(log.tables[-1])
    log.run("alter table a add column w int")
    with pytest.raises(NeedsUserError, match=f"RPL-3818.*{re.escape(why)}") as refused:
        log.former(2, "a", "b")
    assert refused.value.table == "h1.a"
    assert '"offset": "binlog.000001:3"' in refused.value.hint
    assert set(log.former(2, "b").captured) == {B}
    assert log.former(3, "a").captured == {A: log.tables[2][A]}


def test_a_table_that_was_created_later_begins_as_it_was_created() -> None:
    log = Log()
    for text in ("create table h1.c (`x` int)", "alter table h1.c add column y int"):
        assert log.run(text)
    found = log.former(2, "c")
    assert [column.name for column in found.captured[TableId("h1", "c")].columns] == ["x"]
    assert TableId("h1", "c") not in found.known.definitions
    assert log.run("drop table h1.c")
    assert log.run("create table h1.c (`z` int)")
    with pytest.raises(NeedsUserError, match="dropped since then") as refused:
        log.former(2, "c")
    assert '"binlog.000001:5"' in refused.value.hint
    assert [column.name for column in log.former(5, "c").captured[TableId("h1", "c")].columns] == ["z"]


@pytest.mark.parametrize("text", ["alter table a add column w int", "alter table a rename column y to w"])
def test_a_selected_column_that_was_added_or_renamed_is_refused(text: str) -> None:
    log = Log()
    assert log.run(text)
    with pytest.raises(NeedsUserError, match="RPL-3818"):
        log.former(2, "a", columns=frozenset({"x", "w"}))
    assert log.former(2, "a", columns=frozenset({"x"})).captured[A] == log.tables[2][A]


def test_names_are_compared_as_the_server_does() -> None:
    log = Log(mode=1)
    assert log.run("alter table H1.A add column w int")
    assert log.former(2, "a").captured[A] == log.tables[2][A]


def test_what_the_statements_do_not_explain_is_refused() -> None:
    log = Log()
    assert log.run("alter table a add column w int")
    *columns, added = log.tables[-1][A].columns
    log.tables[-1][A] = log.tables[-1][A].with_columns([*columns, replace(added, type="bigint")])
    with pytest.raises(NeedsUserError, match=r"RPL-3818.*do not explain"):
        log.former(2, "a")


def test_random_statements() -> None:
    outcomes = Counter[bool]()
    for seed in range(60):
        rng, log = random.Random(seed), Log()
        while len(log.tables) < 12:
            altered = f"alter table h1.{rng.choice('ab')} {rng.choice(ALTERED)(rng)}"
            log.run(any_statement(rng) if rng.random() < 0.3 else altered)
        for place in range(2, len(log.tables)):
            for table in (table for table in log.tables[-1] if table.database == "h1"):
                outcomes[_is_found(log, place, table)] += 1
    assert min(outcomes[True], outcomes[False]) > 100


def _is_found(log: Log, place: int, table: TableId) -> bool:
    """Whether the table at `place` is found, and then rightly; else the error names a later place."""
    try:
        former = log.former(place, table.table)
    except NeedsUserError as error:
        later = int(error.hint.partition("binlog.000001:")[2].partition('"')[0])
        if later <= place:
            raise
        return False
    there = log.tables[place].get(table)
    assert (table in former.known.definitions) == (there is not None)
    assert there is None or _columns(former.captured[table]) == _columns(there)
    return True


def _columns(definition: TableDefinition) -> list[tuple[str, str, str]]:
    return [(column.name, column.type, column.charset) for column in definition.columns]
