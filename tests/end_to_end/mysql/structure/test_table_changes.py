"""Tables that are created, dropped, renamed and swapped, while every table of the database is captured."""

from __future__ import annotations

import time

from tests.end_to_end.mysql.conftest import MakeMysqlPipeline
from tests.end_to_end.mysql.database import random_writers as shop
from tests.end_to_end.mysql.database.pipeline import MysqlPipeline
from tests.services.mysql.server import MysqlDatabase


def capturing_everything(pipeline: MysqlPipeline) -> MysqlPipeline:
    """The same replicator, of all tables there are and will be."""
    return pipeline.with_settings(
        tables=[{"database": pipeline.database.name, "table": "*"}], newTablesIntervalSeconds=0.5
    )


def test_tables_that_change_names_while_no_replicator_runs_end_in_the_right_copies(
    each_pipeline: MysqlPipeline,
) -> None:
    """A rename and back, a rename for good, a chain over a third name, all between two runs."""
    pipeline = capturing_everything(each_pipeline)
    pipeline.assert_nothing_lost()
    pipeline.execute(
        "CREATE TABLE other (id int PRIMARY KEY, name varchar(40), extra int)",
        "INSERT INTO other VALUES (1, 'other', 1)",
        "RENAME TABLE item TO away",
        "INSERT INTO away VALUES (5000, 'away')",
        "RENAME TABLE away TO item",
        "UPDATE item SET name = 'back' WHERE id < 10",
        "RENAME TABLE item TO spare, other TO item, spare TO other",
        "INSERT INTO item VALUES (2, 'swapped', 2)",
        "INSERT INTO other VALUES (5001, 'swapped')",
        "RENAME TABLE note TO remark",
        "INSERT INTO remark VALUES ('renamed')",
    )
    renamed = MysqlPipeline(pipeline.database, pipeline.replicator, ("item", "other", "remark"))
    renamed.assert_nothing_lost()
    renamed.execute("DELETE FROM item WHERE id = 1", "DELETE FROM other WHERE id = 5001", "DELETE FROM remark LIMIT 1")
    renamed.assert_nothing_lost()


def test_a_ghost_table_that_is_captured_too_replaces_its_original(
    mysql_and_mariadb: MysqlDatabase, make_mysql: MakeMysqlPipeline
) -> None:
    """As gh-ost does it; with `*` the ghost and what is left of the original are captured like any other table."""
    pipeline = capturing_everything(make_mysql(mysql_and_mariadb, "ticket"))
    pipeline.execute("CREATE TABLE ticket (id int PRIMARY KEY, title varchar(60), state varchar(10))")
    with pipeline.database.connect() as connection, connection.cursor() as cursor:
        cursor.executemany("INSERT INTO ticket VALUES (%s, 'a ticket', 'open')", [(i,) for i in range(300)])
        with shop.Writers(pipeline.database, 3, ((), ()), tables=("ticket",)):
            running = pipeline.replicator.start()
            running.said("streaming")
            for _ in range(2):
                shop.change_structure(cursor, shop.ghost_table)
                time.sleep(0.5)
                cursor.execute("ALTER TABLE ticket DROP COLUMN priority")
    assert running.stop().status in {0, 143}
    pipeline.assert_nothing_lost()


def test_a_database_that_is_dropped_takes_its_tables_along(each_pipeline: MysqlPipeline) -> None:
    """The copies stay; tables of another database go on."""
    database = each_pipeline.database
    other = f"{database.name}_b"
    pipeline = each_pipeline.with_settings(tables=[{"database": f"{database.name}*", "table": "*"}])
    try:
        pipeline.execute(f"CREATE DATABASE {other}", f"CREATE TABLE {other}.item (id int PRIMARY KEY)")
        pipeline.assert_nothing_lost()
        pipeline.execute(f"INSERT INTO {other}.item VALUES (1)", f"DROP DATABASE {other}")
        pipeline.change()
        pipeline.assert_nothing_lost()
    finally:
        pipeline.execute(f"DROP DATABASE IF EXISTS {other}")


def test_statements_that_touch_no_captured_table_stop_nothing(each_pipeline: MysqlPipeline) -> None:
    """Accounts, routines, views, triggers, partitions of other tables, and what only one of the servers knows."""
    each_pipeline.assert_nothing_lost()
    only = (
        ("CREATE SEQUENCE numbers", "DROP SEQUENCE numbers") if each_pipeline.database.is_mariadb else ("FLUSH LOGS",)
    )
    user = f"'u{each_pipeline.database.name[-8:]}'@'localhost'"
    each_pipeline.execute(
        f"CREATE USER {user} IDENTIFIED BY 'correct battery'",
        f"GRANT SELECT ON *.* TO {user}",
        f"DROP USER {user}",
        "CREATE VIEW seen AS SELECT * FROM item",
        "CREATE PROCEDURE add_note() BEGIN INSERT INTO note VALUES ('by a procedure'); DELETE FROM item WHERE id = 3; END",
        "CREATE TRIGGER noted AFTER DELETE ON item FOR EACH ROW INSERT INTO note VALUES ('by a trigger')",
        "CALL add_note()",
        "DROP PROCEDURE add_note",
        "CREATE TABLE parts (id int PRIMARY KEY) PARTITION BY HASH (id) PARTITIONS 3",
        "ALTER TABLE parts COALESCE PARTITION 1",
        "ANALYZE TABLE item",
        "OPTIMIZE TABLE item",
        "CREATE INDEX by_name ON item (name)",
        "ALTER TABLE item COMMENT 'not a change of structure', ENGINE InnoDB",
        "CREATE TEMPORARY TABLE item (id int)",
        "INSERT INTO item VALUES (4)",
        "DROP TEMPORARY TABLE item",
        *only,
    )
    each_pipeline.change()
    each_pipeline.assert_nothing_lost()
