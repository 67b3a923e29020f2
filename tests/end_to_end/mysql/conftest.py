"""Pipelines of the tests: a few tables on MySQL or MariaDB and their replicator."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import pytest

from tests.end_to_end.mysql.database.pipeline import TABLES, MysqlPipeline, make_mysql_pipeline
from tests.services.mysql.fixtures import PrivateMysql
from tests.services.mysql.programs import MARIADB_10_11, MYSQL_9
from tests.services.mysql.server import MysqlDatabase

MakeMysqlPipeline: TypeAlias = Callable[..., MysqlPipeline]


@pytest.fixture
def make_mysql(tmp_path: Path, file_target_package: str) -> MakeMysqlPipeline:
    """Makes a replicator of some tables: `make_mysql(database)`, which are made if they are the usual ones."""

    def make(database: MysqlDatabase, *tables: str) -> MysqlPipeline:
        pipeline = make_mysql_pipeline(database, tmp_path / "pipeline", file_target_package, tables or TABLES)
        if not tables:
            pipeline.create()
        return pipeline

    return make


@pytest.fixture
def mysql_pipeline(mysql_database: MysqlDatabase, make_mysql: MakeMysqlPipeline) -> MysqlPipeline:
    """A pipeline on the shared MySQL."""
    return make_mysql(mysql_database)


@pytest.fixture
def each_pipeline(mysql_and_mariadb: MysqlDatabase, make_mysql: MakeMysqlPipeline) -> MysqlPipeline:
    """A pipeline; the test runs once on MySQL and once on MariaDB."""
    return make_mysql(mysql_and_mariadb)


@pytest.fixture(params=[MYSQL_9, MARIADB_10_11], ids=lambda release: release.name)
def own_pipeline(
    request: pytest.FixtureRequest, mysql_server: PrivateMysql, make_mysql: MakeMysqlPipeline
) -> Iterator[MysqlPipeline]:
    """The same on servers of the test's own, for what concerns all of a server's databases."""
    with mysql_server(request.param).database() as database:
        yield make_mysql(database)
