"""docs/types.md says what a real server's types become, and what Delta stores."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from replicator_sdk import TableId
from replicator_sdk.datatype import parse_type
from replicator_source_mysql.config import MySqlConfig
from replicator_source_mysql.plugin import MySqlSource
from replicator_source_postgres.config import PostgresConfig
from replicator_source_postgres.plugin import PostgresSource
from replicator_source_sqlite.types.mapping import standard_type as sqlite_type
from replicator_target_delta.schema.types import spark_type

if TYPE_CHECKING:
    from tests.services.mysql.server import MysqlDatabase
    from tests.services.postgres.server import PostgresDatabase

PAGE = (Path(__file__).parents[2] / "docs" / "types.md").read_text()


def rows(heading: str) -> list[tuple[str, str, str]]:
    section = PAGE.split(f"## {heading}", 1)[1].split("\n## ", 1)[0]
    found = re.findall(r"^\| `([^`]+)` \| ([^|]+?) \| ([^|]+?) \|", section, re.MULTILINE)
    assert len(found) > 5
    return found


def spark_text(kind: Any) -> str:
    return kind if isinstance(kind, str) else f"array<{spark_text(kind['elementType'])}>"


def test_postgres_types_arrive_as_the_page_says(postgres_database: PostgresDatabase) -> None:
    table = rows("PostgreSQL → standard type → Delta")
    columns = ", ".join(f"c{i} {declared}" for i, (declared, _, _) in enumerate(table))
    postgres_database.execute(f"CREATE TABLE kinds (id int PRIMARY KEY, {columns})")
    server = postgres_database.server
    config = PostgresConfig.model_validate(
        {
            "host": server.host,
            "port": server.port,
            "database": postgres_database.name,
            "user": server.user,
            "password": server.password,
            "sslMode": "disable",
        }
    )
    with PostgresSource(config).create_table_registry() as registry:
        schema = registry.describe_table(TableId(postgres_database.name, "kinds", "public"))
    for i, (declared, standard, delta) in enumerate(table):
        assert str(schema[f"c{i}"].type) == standard, declared
        assert spark_text(spark_type(parse_type(standard))) == delta, declared


def test_mysql_types_arrive_as_the_page_says(mysql_and_mariadb: MysqlDatabase) -> None:
    """On both servers; a type that only one of them has is created on that one."""
    database = mysql_and_mariadb
    table = [row for row in rows("MySQL and MariaDB → standard type → Delta") if is_known(row[0], database)]
    columns = ", ".join(f"c{i} {declared} NULL" for i, (declared, _, _) in enumerate(table))
    database.execute(f"CREATE TABLE kinds (id int PRIMARY KEY, {columns})")
    server = database.server
    settings = {"host": server.host, "port": server.port, "user": server.user, "password": server.password}
    config = MySqlConfig.model_validate({**settings, "sslMode": "disable"})
    with MySqlSource(config).create_table_registry() as registry:
        schema = registry.describe_table(TableId(database.name, "kinds"))
    for i, (declared, standard, delta) in enumerate(table):
        if not (declared == "json" and database.is_mariadb):
            assert str(schema[f"c{i}"].type) == standard, declared
        assert spark_text(spark_type(parse_type(standard))) == delta, declared


def is_known(declared: str, database: MysqlDatabase) -> bool:
    """Whether the server has the type."""
    if declared in {"uuid", "inet4", "inet6"}:
        return database.is_mariadb
    return not (declared.startswith("vector") and database.is_mariadb and database.server.version < (11, 7))


def test_sqlite_types_arrive_as_the_page_says() -> None:
    for declared, standard, delta in rows("SQLite → standard type → Delta"):
        assert str(sqlite_type("ANYTHING" if declared == "anything else" else declared)) == standard, declared
        assert spark_text(spark_type(parse_type(standard))) == delta, declared
