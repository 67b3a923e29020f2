"""One table that is dropped, may not be read any more or is refused stops only itself: the others go on, with the offset."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pytest

from replicator_sdk.errors import NeedsUserError
from replicator_source_mysql.connect.connection import Server
from tests.end_to_end.mysql.conftest import MakeMysqlPipeline
from tests.end_to_end.mysql.database.pipeline import MysqlPipeline
from tests.end_to_end.mysql.test_bad_input import account
from tests.services.mysql.fixtures import PrivateMysql
from tests.services.mysql.programs import MARIADB_10_11, MARIADB_11_8, MYSQL_9, Release
from tests.services.mysql.server import MysqlDatabase

WHOLE = ("item", "note")


def of(pipeline: MysqlPipeline, *tables: str) -> MysqlPipeline:
    """The pipeline with only these tables compared."""
    return MysqlPipeline(pipeline.database, pipeline.replicator, tables)


def selecting_all(pipeline: MysqlPipeline) -> MysqlPipeline:
    """The pipeline whose pipeline selects every table of the database."""
    return pipeline.with_settings(tables=[{"database": pipeline.database.name, "table": "*"}])


def failing(pipeline: MysqlPipeline) -> Mapping[str, str]:
    """The tables that a run shows as failing, with their codes; the run ends with an error."""
    ended = pipeline.replicator.run("--until-current")
    assert ended.status != 0, ended.messages
    return dict(re.findall(r"\.(\w+): FAILING (RPL-\d{4})", ended.messages))


def test_a_named_table_that_is_dropped_stops_only_itself(each_pipeline: MysqlPipeline) -> None:
    each_pipeline.assert_nothing_lost()
    each_pipeline.change()
    each_pipeline.execute("DROP TABLE item")
    note = of(each_pipeline, "note")
    for number in range(3):
        assert failing(each_pipeline) == {"item": "RPL-2001"}
        note.assert_equal()
        each_pipeline.execute(
            f"INSERT INTO note (text) VALUES ('{number}')", f"ALTER TABLE note ADD COLUMN n{number} int DEFAULT 3"
        )
    each_pipeline.execute(
        "CREATE TABLE item (id int PRIMARY KEY, other date)", "INSERT INTO item VALUES (1, '2024-01-01')"
    )
    for number in range(3):
        each_pipeline.assert_nothing_lost()
        each_pipeline.execute(
            f"INSERT INTO item (id) VALUES (1{number})", f"ALTER TABLE item ADD COLUMN m{number} int DEFAULT 4"
        )
    each_pipeline.assert_nothing_lost()


@pytest.mark.parametrize("is_altered", [False, True])
@pytest.mark.parametrize("by_pattern", [False, True])
def test_a_table_whose_select_is_revoked_goes_on_by_the_log(
    each_pipeline: MysqlPipeline, by_pattern: bool, is_altered: bool
) -> None:
    database = each_pipeline.database
    right = f"SELECT ON {database.name}"
    monitor = "BINLOG MONITOR, SLAVE MONITOR" if database.is_mariadb else "REPLICATION CLIENT"
    grants = (
        f"REPLICATION SLAVE, {monitor} ON *.*",
        f"LOCK TABLES ON {database.name}.*",
        f"{right}.item",
        f"{right}.note",
    )
    chosen = selecting_all(each_pipeline) if by_pattern else each_pipeline
    with account(each_pipeline, *grants) as settings:
        pipeline = chosen.with_source(**settings)
        user = f"'{settings['user']}'@'%%'"
        pipeline.assert_nothing_lost()
        database.server.execute(f"REVOKE SELECT ON {database.name}.item FROM {user}")
        for number in range(3):
            each_pipeline.change()
            if is_altered:
                each_pipeline.execute(f"ALTER TABLE item ADD COLUMN a{number} int DEFAULT 7")
            each_pipeline.execute(f"ALTER TABLE note ADD COLUMN n{number} int DEFAULT 3")
            pipeline.assert_nothing_lost()
        database.server.execute(f"GRANT {right}.item TO {user}")
        for number in range(3):
            pipeline.assert_nothing_lost()
            each_pipeline.change()
            each_pipeline.execute(f"ALTER TABLE item ADD COLUMN b{number} int DEFAULT 7")
        pipeline.assert_nothing_lost()


@pytest.mark.parametrize(
    ("create", "code", "repair"),
    [
        ("CREATE TABLE late (id int PRIMARY KEY) ENGINE MRG_MyISAM", "RPL-3844", "ALTER TABLE late ENGINE InnoDB"),
        ("CREATE TABLE late (id int PRIMARY KEY, secret int)", "RPL-2001", ""),
    ],
)
def test_a_new_table_that_is_refused_stops_only_itself(
    each_pipeline: MysqlPipeline, create: str, code: str, repair: str
) -> None:
    database = each_pipeline.database
    monitor = "BINLOG MONITOR, SLAVE MONITOR" if database.is_mariadb else "REPLICATION CLIENT"
    right = f"SELECT ON {database.name}"
    grants = (
        f"REPLICATION SLAVE, {monitor} ON *.*",
        f"LOCK TABLES ON {database.name}.*",
        f"{right}.item",
        f"{right}.note",
    )
    named = each_pipeline.with_settings(tables=[{"database": database.name, "table": t} for t in (*WHOLE, "late")])
    chosen = selecting_all(each_pipeline) if repair else named
    with account(each_pipeline, *grants) as settings:
        pipeline = chosen.with_source(**settings)
        user = f"'{settings['user']}'@'%%'"
        selecting_all(each_pipeline).with_source(**settings).assert_nothing_lost()
        each_pipeline.execute(create)
        database.server.execute(f"GRANT {'SELECT' if repair else 'SELECT (id)'} ON {database.name}.late TO {user}")
        for number in range(3):
            if not repair:
                each_pipeline.execute(f"INSERT INTO late (id) VALUES ({number})")
            each_pipeline.change()
            each_pipeline.execute(f"ALTER TABLE item ADD COLUMN n{number} int DEFAULT 3")
            assert failing(pipeline) == {"late": code}
            pipeline.assert_equal()
        if repair:
            each_pipeline.execute(repair)
        else:
            database.server.execute(f"GRANT {right}.late TO {user}")
        whole = of(pipeline, *WHOLE, "late")
        for number in range(3):
            whole.assert_nothing_lost()
            each_pipeline.change()
            each_pipeline.execute(
                f"INSERT INTO late (id) VALUES (1{number})", f"ALTER TABLE late ADD COLUMN n{number} int DEFAULT 3"
            )
        whole.assert_nothing_lost()


def test_a_table_that_gets_a_refused_structure_stops_only_itself(each_pipeline: MysqlPipeline) -> None:
    """MariaDB: system versioning. MySQL: rows of one session that are logged as text. The advice works."""
    each_pipeline.assert_nothing_lost()
    each_pipeline.change()
    if each_pipeline.database.is_mariadb:
        each_pipeline.execute("ALTER TABLE item ADD SYSTEM VERSIONING")
    else:
        each_pipeline.execute("SET SESSION binlog_format = STATEMENT", "UPDATE item SET name = 'by statement'")
    note = of(each_pipeline, "note")
    for number in range(3):
        each_pipeline.change()
        each_pipeline.execute(f"ALTER TABLE note ADD COLUMN n{number} int DEFAULT 3")
        assert failing(each_pipeline).keys() == {"item"}
        note.assert_equal()
    if each_pipeline.database.is_mariadb:
        each_pipeline.execute("ALTER TABLE item DROP SYSTEM VERSIONING")
        each_pipeline.change()
        assert failing(each_pipeline).keys() == {"item"}, "its changes in between are not in the log as rows of its own"
    database = each_pipeline.database.name
    each_pipeline.with_settings(tables=[{"database": database, "table": "note"}]).replicator.until_current()
    for number in range(3):
        each_pipeline.assert_nothing_lost()
        each_pipeline.change()
        each_pipeline.execute(f"ALTER TABLE item ADD COLUMN m{number} int DEFAULT 4")
    each_pipeline.assert_nothing_lost()


@pytest.mark.parametrize("pattern", ["item", "it*"])
def test_system_versioning_of_the_only_table_is_the_reason_shown(
    mariadb_database: MysqlDatabase, make_mysql: MakeMysqlPipeline, pattern: str
) -> None:
    pipeline = make_mysql(mariadb_database)
    pipeline = of(pipeline.with_settings(tables=[{"database": mariadb_database.name, "table": pattern}]), "item")
    pipeline.assert_nothing_lost()
    pipeline.execute("ALTER TABLE item ADD SYSTEM VERSIONING")
    for _ in range(3):
        pipeline.execute("DELETE FROM item ORDER BY id LIMIT 1")
        ended = pipeline.replicator.run("--until-current")
        assert ended.error["code"] in {"RPL-3790", "RPL-3845"}, ended.messages
        assert "versioning" in ended.error["message"] or "versioned" in ended.error["message"]


_GENERATED = """CREATE TABLE price (id int PRIMARY KEY, net int, note int, gross int GENERATED ALWAYS AS (net * 2) VIRTUAL,
    label varchar(20) GENERATED ALWAYS AS (concat('#', net)) STORED)"""


@pytest.mark.parametrize("image", ["FULL", "MINIMAL"])
@pytest.mark.parametrize("release", [MYSQL_9, MARIADB_10_11, MARIADB_11_8], ids=lambda release: release.name)
def test_generated_columns_are_equal_or_refused(
    release: Release, image: str, mysql_server: PrivateMysql, make_mysql: MakeMysqlPipeline
) -> None:
    """MariaDB leaves them out of updates in its log since 11.8.9: they must not be taken for unchanged."""
    server = mysql_server(release, binlog_row_image=image)
    is_new = server.is_mariadb and server.version >= (11, 8, 9)
    assert Server(".".join(map(str, server.version)), server.is_mariadb).logs_generated_columns is not is_new
    is_left_out = is_new or (server.is_mariadb and image == "MINIMAL")
    with server.database() as database:
        pipeline = make_mysql(database, "price")
        pipeline.execute(_GENERATED, "INSERT INTO price (id, net) VALUES (1, 10), (2, 20)")
        pipeline.assert_nothing_lost()
        for number in range(3):
            pipeline.execute(
                f"UPDATE price SET net = {number} WHERE id = 1", f"INSERT INTO price (id, net) VALUES (1{number}, 5)"
            )
            if is_left_out:
                pipeline.fails(
                    NeedsUserError, "the server leaves the generated column 'gross' out of the rows of its log"
                )
            else:
                pipeline.assert_nothing_lost()
        if is_left_out:
            table = {"database": database.name, "table": "price", "columns": ["id", "net"]}
            without = pipeline.with_settings(tables=[table])
            for number in range(3):
                without.replicator.until_current()
                pipeline.execute(
                    f"UPDATE price SET net = 1{number} WHERE id = 1", f"ALTER TABLE price ADD COLUMN c{number} int"
                )
