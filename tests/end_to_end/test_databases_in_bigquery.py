"""Databases that MySQL creates and drops are datasets of BigQuery, whatever stops the run and whatever is read again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.crash.kills import killed
from tests.end_to_end.replicator import Replicator, mysql_source
from tests.services.bigquery.emulators import PROJECT, Emulators, rows, target_settings
from tests.services.mysql.programs import MYSQL_9
from tests.services.mysql.server import MysqlDatabase

_TABLE = "CREATE TABLE {0}.item (id int PRIMARY KEY, name varchar(40))"


@dataclass
class Server:
    """A database that is always there, some that come and go, and their copies.

    Attributes:
        database: The one that stays.
        new: The name of one that does not exist at first.
    """

    database: MysqlDatabase
    emulators: Emulators
    replicator: Replicator
    new: str

    def execute(self, *statements: str) -> None:
        """Run statements; `{0}` is the name of the new database."""
        for statement in statements:
            self.database.execute(statement.format(self.new))

    def datasets(self) -> set[str]:
        """Those of the two databases."""
        found = rows(self.emulators, f"SELECT schema_name FROM `{PROJECT}`.INFORMATION_SCHEMA.SCHEMATA")
        return {str(name) for (name,) in found} & {self.database.name, self.new}

    def copy(self) -> list[tuple[object, ...]]:
        """The rows of `item` in the new database's dataset."""
        return sorted(
            tuple(row) for row in rows(self.emulators, f"SELECT id, name FROM `{PROJECT}`.`{self.new}`.`item`")
        )


@pytest.fixture
def server(mysql_and_mariadb: MysqlDatabase, bigquery_emulators: Emulators, tmp_path: Path) -> Iterator[Server]:
    bigquery_emulators.gate.clear()
    database = mysql_and_mariadb
    replicator = Replicator(
        tmp_path,
        mysql_source(database),
        ("bigquery", target_settings(bigquery_emulators, "")),
        settings={
            "tables": [{"database": f"{database.name}*", "table": "*"}],
            "batch": {"maxIntervalSeconds": 0.1},
            "ddlBlacklist": [],
        },
    )
    database.execute("CREATE TABLE stays (id int PRIMARY KEY)")
    database.execute("INSERT INTO stays VALUES (1)")
    made = Server(database, bigquery_emulators, replicator, f"{database.name}_new")
    replicator.until_current()
    assert made.datasets() == {database.name}
    yield made
    made.execute("DROP DATABASE IF EXISTS {0}")


@pytest.mark.timeout(300)
def test_a_database_comes_with_its_tables_and_goes_with_them(server: Server) -> None:
    server.execute("CREATE DATABASE {0}")
    server.replicator.until_current()
    assert server.datasets() == {server.database.name, server.new}
    server.execute(_TABLE, "INSERT INTO {0}.item VALUES (1, 'a')", "CREATE TABLE {0}.other (id int PRIMARY KEY)")
    server.replicator.until_current()
    assert server.copy() == [("1", "a")]
    server.execute("UPDATE {0}.item SET name = 'b'", "DROP DATABASE {0}")
    server.replicator.until_current()
    assert server.datasets() == {server.database.name}
    server.execute("CREATE DATABASE {0}", _TABLE, "INSERT INTO {0}.item VALUES (2, 'c')")
    server.replicator.until_current()
    assert server.copy() == [("2", "c")]


@pytest.mark.timeout(300)
def test_a_database_that_came_back_between_two_runs_has_its_new_tables(server: Server) -> None:
    server.execute("CREATE DATABASE {0}", _TABLE, "INSERT INTO {0}.item VALUES (1, 'a')")
    server.replicator.until_current()
    server.execute("DROP DATABASE {0}", "CREATE DATABASE {0}", _TABLE, "INSERT INTO {0}.item VALUES (2, 'b')")
    for number in range(3, 6):
        server.replicator.until_current()
        wanted = [("2", "b"), *((str(key), "more") for key in range(3, number))]
        assert server.copy() == wanted
        server.execute(f"INSERT INTO {{0}}.item VALUES ({number}, 'more')")


@pytest.mark.timeout(300)
@pytest.mark.parametrize("mysql_and_mariadb", [MYSQL_9], ids=[MYSQL_9.name], indirect=True)
@pytest.mark.parametrize(
    "point", ["bigquery.ddl.done", "engine.ddl.after_apply", "bigquery.database.emptied", "state.offset.before_write"]
)
def test_three_runs_after_a_kill_beside_a_dropped_database_are_equal(server: Server, point: str) -> None:
    server.execute("CREATE DATABASE {0}", _TABLE, "INSERT INTO {0}.item VALUES (1, 'a')")
    server.replicator.until_current()
    server.execute("INSERT INTO {0}.item VALUES (9, 'z')", "DROP DATABASE {0}")
    place, _, count = point.partition("@")
    running = server.replicator.start("--until-current", REPLICATOR_FAILPOINTS=f"{place}=kill@{count or 1}")
    killed(running, point)
    server.replicator.until_current()
    assert server.datasets() == {server.database.name}
    server.execute("CREATE DATABASE {0}", _TABLE, "INSERT INTO {0}.item VALUES (2, 'b')")
    server.replicator.until_current()
    assert server.copy() == [("2", "b")]
    server.execute("INSERT INTO {0}.item VALUES (3, 'c')", "ALTER TABLE {0}.item ADD COLUMN more int")
    server.replicator.until_current()
    assert server.copy() == [("2", "b"), ("3", "c")]
