"""Changes of structure are emitted where they are in the log; rows are decoded with the structure of their time."""

from __future__ import annotations

import pytest

from replicator_sdk import AlterKind, DDLOperation
from replicator_sdk.errors import NeedsUserError, SchemaDriftError
from tests.plugins.sources.mysql.pump import Pump
from tests.services.mysql.server import MysqlDatabase


@pytest.fixture
def shop(mysql_and_mariadb: MysqlDatabase) -> MysqlDatabase:
    database = mysql_and_mariadb
    database.execute("CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR(20))")
    return database


def test_rows_before_and_after_an_alter_have_their_own_columns(shop: MysqlDatabase) -> None:
    pump = Pump(shop, "t")
    pump.prepare()
    shop.execute("INSERT INTO t VALUES (1, 'a')")
    shop.execute("ALTER TABLE t ADD COLUMN n INT UNSIGNED NOT NULL DEFAULT 7 AFTER id, CHANGE name title VARCHAR(30)")
    shop.execute("INSERT INTO t VALUES (2, 4000000000, 'b')")
    run = pump.read()
    assert [row for _, row, _, _ in run.changes("t")] == [
        {"id": 1, "name": "a"},
        {"id": 2, "n": 4_000_000_000, "title": "b"},
    ]
    (event,) = run.ddl
    kinds = {alter.kind: alter for alter in event.alters}
    assert kinds[AlterKind.ADD_COLUMN].default == 7
    assert kinds[AlterKind.RENAME_COLUMN].previous is not None
    assert not event.needs_snapshot


def test_a_restart_from_an_older_offset_decodes_with_the_structure_of_then(shop: MysqlDatabase) -> None:
    """The catalogue and the stored history show a later structure; the place that is read again decides."""
    pump = Pump(shop, "t")
    start = pump.prepare()
    shop.execute("INSERT INTO t VALUES (1, 'a')")
    shop.execute(
        "ALTER TABLE t DROP COLUMN name, ADD COLUMN a BIGINT UNSIGNED, ADD COLUMN b VARCHAR(5) CHARACTER SET latin1"
    )
    shop.execute("INSERT INTO t VALUES (2, 18446744073709551615, 'ü')")
    first = pump.read()
    pump.offset = start
    again = pump.read()
    assert again.changes("t") == first.changes("t")
    assert [(e.operation, e.alters) for e in again.ddl] == [(e.operation, e.alters) for e in first.ddl]


def test_a_table_that_replaces_another_is_read_again(shop: MysqlDatabase) -> None:
    """As gh-ost and pt-online-schema-change do: its rows are another table's, so the log alone cannot make it."""
    pump = Pump(shop, "t")
    pump.prepare()
    shop.execute("CREATE TABLE _t_gho LIKE t")
    shop.execute("ALTER TABLE _t_gho ADD COLUMN more INT")
    shop.execute("INSERT INTO _t_gho SELECT id, name, 1 FROM t")
    shop.execute("RENAME TABLE t TO _t_del, _t_gho TO t")
    shop.execute("INSERT INTO t VALUES (5, 'e', 6)")
    run = pump.read()
    (event,) = run.ddl
    assert (event.operation, event.needs_snapshot) == (DDLOperation.ALTER_TABLE, True)
    assert event.schema is not None
    assert event.schema.names == ("id", "name", "more")
    assert [row for _, row, _, _ in run.changes("t")] == [{"id": 5, "name": "e", "more": 6}]


def test_a_later_table_of_a_name_is_read_by_a_replay_from_before_the_rename(shop: MysqlDatabase) -> None:
    """It was copied after the offset; the runtime leaves the former table's changes out by their position."""
    pump = Pump(shop, "t")
    pump.prepare()
    shop.execute("INSERT INTO t VALUES (1, 'former')")
    shop.execute("RENAME TABLE t TO u")
    shop.execute("INSERT INTO u VALUES (2, 'former')")
    shop.execute("CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR(20))")
    shop.execute("INSERT INTO t VALUES (3, 'later')")
    run = pump.read()
    assert [(e.operation, e.table.table) for e in run.ddl] == [(DDLOperation.RENAME_TABLE, "u")]
    assert [row["id"] for _, row, _, _ in run.changes("t")] == [1, 3]
    assert [row["id"] for _, row, _, _ in run.changes("u")] == [2]


def test_two_tables_that_swap_names_are_both_renamed(shop: MysqlDatabase) -> None:
    """Each by the name before the statement and the one after it; the rows that follow have the new names."""
    shop.execute("CREATE TABLE u (id INT PRIMARY KEY, what BLOB)")
    pump = Pump(shop, "t", "u")
    pump.prepare()
    shop.execute("RENAME TABLE t TO aside, u TO t, aside TO u")
    shop.execute("INSERT INTO t VALUES (1, x'00ff')")
    shop.execute("INSERT INTO u VALUES (2, 'b')")
    run = pump.read()
    assert {(e.prev_table and e.prev_table.table, e.table.table, e.needs_snapshot) for e in run.ddl} == {
        ("t", "u", False),
        ("u", "t", False),
    }
    assert run.changes("t")[0][1] == {"id": 1, "what": b"\x00\xff"}
    assert run.changes("u")[0][1] == {"id": 2, "name": "b"}


def test_a_renamed_tables_rows_follow_under_its_last_name(shop: MysqlDatabase) -> None:
    pump = Pump(shop, "t")
    pump.prepare()
    shop.execute("RENAME TABLE t TO u, u TO v")
    shop.execute("INSERT INTO v VALUES (1, 'a')")
    shop.execute("ALTER TABLE v RENAME TO w, ADD COLUMN more INT")
    shop.execute("INSERT INTO w VALUES (2, 'b', 3)")
    run = pump.read()
    assert [(e.table.table, e.operation, e.needs_snapshot) for e in run.ddl] == [
        ("v", DDLOperation.RENAME_TABLE, False),
        ("w", DDLOperation.RENAME_TABLE, True),
    ]
    assert [row for _, row, _, _ in run.changes("v")] == [{"id": 1, "name": "a"}]
    assert [row for _, row, _, _ in run.changes("w")] == [{"id": 2, "name": "b", "more": 3}]


def test_a_table_under_another_name_is_emitted_as_renamed_and_a_dropped_one_as_dropped(shop: MysqlDatabase) -> None:
    shop.execute("CREATE TABLE u (id INT PRIMARY KEY)")
    pump = Pump(shop, "t", "u")
    pump.prepare()
    shop.execute("ALTER TABLE t RENAME TO elsewhere")
    shop.execute("DROP TABLE u")
    run = pump.read()
    assert [(e.operation, e.table.table) for e in run.ddl] == [
        (DDLOperation.RENAME_TABLE, "elsewhere"),
        (DDLOperation.DROP_TABLE, "u"),
    ]


def test_a_conversion_that_may_change_values_asks_for_the_rows_again(shop: MysqlDatabase) -> None:
    pump = Pump(shop, "t")
    pump.prepare()
    shop.execute("INSERT INTO t VALUES (1, '12')")
    shop.execute("ALTER TABLE t MODIFY name INT")
    (event,) = pump.read().ddl
    assert event.needs_snapshot


@pytest.mark.parametrize("statement", ["REPAIR TABLE t, absent QUICK", "ALTER TABLE t MODIFY id INT AUTO_INCREMENT"])
def test_a_statement_that_may_remove_or_renumber_rows_asks_for_them_again(shop: MysqlDatabase, statement: str) -> None:
    """Neither has row events."""
    shop.execute("ALTER TABLE t ENGINE MyISAM")
    pump = Pump(shop, "t")
    pump.prepare()
    shop.execute(statement)
    (event,) = pump.read().ddl
    assert event.needs_snapshot
    shop.execute("ALTER TABLE t MODIFY id BIGINT AUTO_INCREMENT")
    (event,) = pump.read().ddl
    assert event.needs_snapshot == statement.startswith("REPAIR"), "one that is numbered already keeps its numbers"


@pytest.mark.parametrize("engine", ["ENGINE=BLACKHOLE", "ENGINE `blackhole`, COMMENT 'x'"])
def test_rows_that_an_engine_throws_away_are_asked_for_again(mysql_database: MysqlDatabase, engine: str) -> None:
    """Also when the table has another engine by the time that the log is read."""
    mysql_database.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    pump = Pump(mysql_database, "t")
    pump.prepare()
    mysql_database.execute(f"ALTER TABLE t {engine}")
    mysql_database.execute("ALTER TABLE t ENGINE=InnoDB")
    (event,) = pump.read().ddl
    assert event.needs_snapshot


def test_truncate_is_emitted_in_order(shop: MysqlDatabase) -> None:
    pump = Pump(shop, "t")
    pump.prepare()
    shop.execute("INSERT INTO t VALUES (1, 'a')")
    shop.execute("TRUNCATE t")
    shop.execute("INSERT INTO t VALUES (2, 'b')")
    run = pump.read()
    assert [e.operation for e in run.ddl] == [DDLOperation.TRUNCATE_TABLE]
    assert [row["id"] for _, row, _, _ in run.changes("t")] == [1, 2]


@pytest.mark.parametrize("rotated", [False, True])
def test_a_table_that_joins_later_is_decoded_from_where_it_joined(shop: MysqlDatabase, rotated: bool) -> None:
    """Its rows of before come by its snapshot; its structure of then need not be known. Where it joins need not be the
    end of a transaction, as at the beginning of a file.
    """
    pump = Pump(shop, "t")
    pump.prepare()
    with shop.server.database() as other:
        other.execute("CREATE TABLE late (a INT PRIMARY KEY)")
        other.execute("INSERT INTO late VALUES (1)")
        other.execute("ALTER TABLE late ADD COLUMN b INT UNSIGNED")
        both = Pump(shop, "t")
        late = Pump(other, "late")
        both.context, both.offset = pump.context, pump.offset
        both.schemas |= late.schemas
        if rotated:
            other.execute("FLUSH BINARY LOGS")
        both.prepare()
        other.execute("INSERT INTO late VALUES (2, 4000000000)")
        run = both.read()
        assert [row for _, row, _, _ in run.changes("late")] == [{"a": 2, "b": 4_000_000_000}]


def test_a_statement_that_is_not_understood_stops_only_the_tables_it_touches(shop: MysqlDatabase) -> None:
    shop.execute("CREATE TABLE other (id INT PRIMARY KEY, g GEOMETRY NOT NULL)")
    pump = Pump(shop, "t")
    pump.prepare()
    for statement in (
        "CREATE PROCEDURE p() BEGIN UPDATE t SET id = id; END",
        "CREATE VIEW v AS SELECT * FROM t",
        "GRANT SELECT ON *.* TO root@'%'",
        "ALTER TABLE other ADD SPATIAL INDEX (g)",
    ):
        shop.execute(statement)
    shop.execute("INSERT INTO t VALUES (1, 'a')")
    assert len(pump.read().changes("t")) == 1


def test_rows_changed_by_a_logged_statement_are_refused(shop: MysqlDatabase) -> None:
    """`binlog_format=STATEMENT` in one session, where the server still allows it."""
    pump = Pump(shop, "t")
    pump.prepare()
    with shop.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SET SESSION binlog_format = 'STATEMENT'")
        cursor.execute("INSERT INTO t VALUES (1, 'a')")
    with pytest.raises((NeedsUserError, SchemaDriftError), match="RPL-3793"):
        pump.read()


def test_a_key_without_a_name_gets_the_servers_name_also_beside_an_older_index(shop: MysqlDatabase) -> None:
    """An index called `a` is there, so the server calls the new key `a_2`; dropping that one must be understood."""
    shop.execute("CREATE TABLE k (a INT NOT NULL, b INT NOT NULL, INDEX a (b))")
    pump = Pump(shop, "k")
    pump.prepare()
    shop.execute("ALTER TABLE k ADD UNIQUE (a)")
    shop.execute("INSERT INTO k VALUES (1, 1)")
    shop.execute("ALTER TABLE k DROP INDEX a_2")
    shop.execute("INSERT INTO k VALUES (1, 1)")
    run = pump.read()
    assert [e.schema.primary_key for e in run.ddl if e.schema] == [("a",), ()]


def test_ddl_inside_other_statements_is_followed_on_mariadb(mariadb_database: MysqlDatabase) -> None:
    """SET STATEMENT is logged with the statement, what a compound or a prepared statement runs without it."""
    shop = mariadb_database
    shop.execute("CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR(20))")
    pump = Pump(shop, "t")
    pump.prepare()
    for statement in (
        "SET STATEMENT lock_wait_timeout=5 FOR ALTER TABLE t ADD COLUMN a INT DEFAULT 7",
        "SET STATEMENT sql_mode='', max_statement_time=10 FOR ALTER TABLE t CHANGE a b BIGINT DEFAULT 8",
        "SET STATEMENT explicit_defaults_for_timestamp=0 FOR ALTER TABLE t ADD COLUMN at TIMESTAMP",
        "SET STATEMENT sql_mode='' FOR SET STATEMENT lock_wait_timeout=5 FOR ALTER TABLE t MODIFY b TEXT",
        "BEGIN NOT ATOMIC ALTER TABLE t ADD COLUMN c INT; END",
        "EXECUTE IMMEDIATE 'SET STATEMENT sql_mode='''' FOR ALTER TABLE t DROP COLUMN c'",
        "/*M!100000 ALTER */ /*!50000 TABLE t */ ADD COLUMN d INT",
        "SET STATEMENT lock_wait_timeout=5 FOR TRUNCATE t",
        "INSERT INTO t (id, b) VALUES (1, 'x')",
        "SET STATEMENT lock_wait_timeout=5 FOR RENAME TABLE t TO u",
    ):
        shop.execute(statement)
    run = pump.read()
    assert [event.operation for event in run.ddl[-2:]] == [DDLOperation.TRUNCATE_TABLE, DDLOperation.RENAME_TABLE]
    assert len(run.ddl) == 9
    last = run.ddl[-2].schema
    assert last is not None
    assert last.names == ("id", "name", "b", "at", "d")
    assert not next(column for column in last.columns if column.name == "at").nullable
    ((_, row, _, _),) = run.changes("t")
    assert row["b"] == "x"
