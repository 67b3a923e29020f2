"""The history by places of the log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pytest

from replicator_sdk.errors import HistoryLostError, SchemaDriftError
from replicator_sdk.schema import TableId
from replicator_source_mysql.ddl.apply.table_change import ChangeKind, TableChange
from replicator_source_mysql.ddl.history.schema_history import SchemaHistory
from replicator_source_mysql.ddl.lex.session import Session
from replicator_source_mysql.ddl.parse.statement import read_statement
from replicator_source_mysql.definition import ColumnDefinition, TableDefinition
from replicator_source_mysql.gtid import GtidSet
from replicator_source_mysql.offset import MySqlOffset

T, U = TableId("d", "t"), TableId("d", "u")
_SERVER = "3e11fa47-71ca-11e1-9e33-c80aa9429562"


@dataclass
class Tables:
    databases: Mapping[str, str] = field(default_factory=lambda: {"d": "utf8mb4"})
    definitions: Mapping[TableId, TableDefinition] = field(default_factory=dict)


def at(position: int) -> MySqlOffset:
    return MySqlOffset("binlog.000009", position, server="server")


def begin(lower_case_table_names: int = 0) -> SchemaHistory:
    definition = TableDefinition(T, (ColumnDefinition("a", "int", default=""),), (), "utf8mb4")
    return SchemaHistory.begin(
        at(100), Tables(definitions={T: definition}), lower_case_table_names=lower_case_table_names
    )


def run(history: SchemaHistory, text: str, position: int, **session: bool) -> list[TableChange]:
    return history.apply(read_statement(text, Session("d", **session)), at(position))  # type: ignore[arg-type]


def names(history: SchemaHistory, table: TableId = T) -> list[str]:
    return [column.name for column in history.definition(table).columns]


def test_going_back_finds_the_definition_of_that_time_also_after_a_restart() -> None:
    history = begin()
    run(history, "alter table t add b int", 200)
    run(history, "alter table t add c int", 300)
    for place, expected in ((300, ["a", "b", "c"]), (299, ["a", "b"]), (200, ["a", "b"]), (199, ["a"])):
        again = SchemaHistory.load(history.dump())
        again.rewind(at(place))
        assert names(again) == expected
        history.rewind(at(place))
        assert names(history) == expected
        assert again.dump() == history.dump()


def test_what_was_read_of_another_server_before_a_failover_is_known_where_reading_begins_again() -> None:
    """It begins before the offset where a distributed transaction was prepared on the new server."""
    old = [GtidSet.parse(f"{_SERVER}:1-{count}") for count in (50, 60)]
    definition = TableDefinition(T, (ColumnDefinition("a", "int", default=""),), (), "utf8mb4")
    history = SchemaHistory.begin(replace(at(100), gtids=old[0]), Tables(definitions={T: definition}))
    alter = read_statement("alter table t add b int", Session("d"))
    history.apply(alter, replace(at(200), gtids=old[1]))
    offset = MySqlOffset("binlog.000002", 900, GtidSet.parse(f"{_SERVER}:1-80"), "another", "binlog.000002:500")
    for prune in (False, True):
        if prune:
            history.prune(offset.reading_from)
        again = SchemaHistory.load(history.dump())
        again.rewind(offset.reading_from)
        assert names(again) == ["a", "b"]


def test_statements_before_a_database_was_learned_of_are_ignored_also_when_they_are_read_again() -> None:
    """Tables are captured after the position where reading begins, and a crash may come before the offset gets there."""
    history = SchemaHistory.begin(at(100), Tables(databases={}))
    later = Tables(definitions={T: TableDefinition(T, (ColumnDefinition("b", "int", default=""),), (), "utf8mb4")})
    assert run(history, "alter table t change a b int", 150) == []
    for _ in range(2):
        history.extend(at(200), later)
        assert names(history) == ["b"]
        history = SchemaHistory.load(history.dump())
        history.rewind(at(100))
        assert run(history, "alter table t change a b int", 150) == []
        assert not history.knows(T)


def test_reading_on_from_an_older_position_ends_in_the_same_history() -> None:
    history = begin()
    statements = ["create table u like t", "rename table t to x, u to t", "alter table x add z int", "drop table t"]
    for number, text in enumerate(statements):
        run(history, text, 200 + number)
    whole = history.dump()
    for number in range(len(statements)):
        history.rewind(at(199 + number))
        for rank in range(number, len(statements)):
            run(history, statements[rank], 200 + rank)
        assert history.dump() == whole


def test_what_is_older_than_the_committed_position_is_forgotten_and_what_is_valid_there_is_kept() -> None:
    history = begin()
    for number in range(50):
        run(history, f"alter table t add c{number} int", 200 + number)
    run(history, "create table u (a int)", 300)
    run(history, "drop table u", 301)
    size = len(history.dump())
    history.prune(at(225))
    assert len(history.dump()) < size
    history.rewind(at(225))
    assert len(names(history)) == 27
    history.prune(at(400))
    assert history.tables() == [T]
    assert not history.knows(U)
    history = SchemaHistory.load(history.dump())
    with pytest.raises(HistoryLostError, match="RPL-3753"):
        history.rewind(at(399))


def test_what_is_before_its_beginning_stays_unknown_when_it_forgets_up_to_an_earlier_offset() -> None:
    """As after a heal: it begins at a later offset, and earlier ones are still kept."""
    history = begin()
    history.prune(at(99))
    history = SchemaHistory.load(history.dump())
    for go_back in (history.check_reaches, history.rewind):
        with pytest.raises(HistoryLostError, match="RPL-3753"):
            go_back(at(99))
    history.rewind(at(100))
    assert history.tables() == [T]


@pytest.mark.parametrize("text", ["alter table t frobnicate 'secret'", "something 'secret'"])
def test_a_table_touched_by_what_is_not_understood_is_an_error_from_there_on(text: str) -> None:
    history = begin()
    (change,) = run(history, text, 200)
    assert (change.kind, change.table) == (ChangeKind.UNKNOWN, T)
    history = SchemaHistory.load(history.dump())
    with pytest.raises(SchemaDriftError, match="RPL-3750") as caught:
        history.definition(T)
    assert "secret" not in str(caught.value)
    assert caught.value.position == "binlog.000009:200"
    assert caught.value.hint
    run(history, "rename table t to u", 300)
    assert history.unknown(U)
    history.extend(at(300), Tables(definitions={U: TableDefinition(U, (ColumnDefinition("n", "int"),))}))
    assert names(history, U) == ["n"]
    history.rewind(at(100))
    assert names(history) == ["a"]


def test_a_statement_that_does_not_fit_what_is_known_is_not_guessed() -> None:
    history = begin()
    (change,) = run(history, "alter table t drop column nope", 200)
    assert change.kind is ChangeKind.UNKNOWN


def test_a_statement_on_another_table_stops_nothing() -> None:
    history = begin()
    run(history, "alter table other.t frobnicate", 200)
    run(history, "create table other.x (a int)", 201)
    assert names(history) == ["a"]
    assert history.tables() == [T]


def test_a_table_that_does_not_exist_is_an_error() -> None:
    assert not begin().knows(U)
    with pytest.raises(KeyError):
        begin().definition(U)


def test_gh_ost_and_pt_online_schema_change_end_in_the_right_table() -> None:
    history = begin()
    run(history, "create table `d`.`_t_gho` like `d`.`t`", 200)
    run(history, "alter table `d`.`_t_gho` add column b int", 201)
    changes = run(history, "rename /* gh-ost */ table `d`.`t` to `d`.`_t_del`, `d`.`_t_gho` to `d`.`t`", 202)
    assert [(c.previous_table, c.table) for c in changes] == [(T, TableId("d", "_t_del")), (TableId("d", "_t_gho"), T)]
    assert names(history) == ["a", "b"]
    assert names(history, TableId("d", "_t_del")) == ["a"]


def test_tables_swap_over_databases() -> None:
    history = begin()
    history.extend(at(100), Tables({"e": "latin1"}))
    run(history, "create table e.t (z varchar(3))", 200)
    run(history, "rename table d.t to d.tmp, e.t to d.t, d.tmp to e.t", 201)
    assert (names(history), names(history, TableId("e", "t"))) == (["z"], ["a"])
    assert history.definition(T)["z"].charset == "latin1"


def test_a_database_created_again_has_its_new_default() -> None:
    history = begin()
    run(history, "drop database d", 200)
    assert history.tables() == []
    run(history, "create database d character set latin1", 201)
    run(history, "create table t (v varchar(3))", 202)
    assert history.definition(T)["v"].charset == "latin1"
    history.rewind(at(150))
    assert names(history) == ["a"]


def test_a_table_moved_in_from_elsewhere_is_not_known() -> None:
    history = begin()
    run(history, "rename table other.x to d.u", 200)
    assert history.unknown(U)
    run(history, "rename table d.t to other.y", 201)
    assert not history.knows(T)


@pytest.mark.parametrize(("mode", "found"), [(0, False), (1, True), (2, True)])
def test_names_have_case_as_the_server_says(mode: int, found: bool) -> None:
    history = SchemaHistory.load(begin(lower_case_table_names=mode).dump())
    run(history, "alter table D.T add b int", 200)
    assert (len(names(history)) == 2) is found


def test_a_table_that_nothing_changed_is_stored_once() -> None:
    history = begin()
    size = len(history.dump())
    for number in range(200):
        run(history, f"create table copy{number} like t", 200 + number)
    assert len(history.dump()) < size + 200 * 25


@pytest.mark.parametrize("stored", [b"", b"nonsense", b"x\x9c\x03\x00\x00\x00\x00\x01"])
def test_bytes_that_are_no_history_are_refused(stored: bytes) -> None:
    with pytest.raises(HistoryLostError, match="RPL-3752"):
        SchemaHistory.load(stored)
