"""What tests from source to target share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import pytest

from tests.crash.cellar import install_cellar
from tests.end_to_end.mysql_pair import TABLES, MysqlPair, make_mysql_pair
from tests.services.mysql import MysqlDatabase
from tests.services.mysql_fixtures import PrivateMysql
from tests.services.mysql_programs import MARIADB_10_11, MYSQL_9

MakeMysqlPair: TypeAlias = Callable[..., MysqlPair]


@pytest.fixture(scope="session")
def cellar_package(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The PYTHONPATH of a process for which the cellar, a target without Spark, is an installed plugin."""
    return install_cellar(tmp_path_factory.mktemp("packages"))


@pytest.fixture
def make_mysql(tmp_path: Path, cellar_package: str) -> MakeMysqlPair:
    """Makes a replicator of some tables: `make_mysql(database)`, which are made if they are the usual ones."""

    def make(database: MysqlDatabase, *tables: str) -> MysqlPair:
        pair = make_mysql_pair(database, tmp_path / "pair", cellar_package, tables or TABLES)
        if not tables:
            pair.create()
        return pair

    return make


@pytest.fixture
def mysql_pair(mysql_database: MysqlDatabase, make_mysql: MakeMysqlPair) -> MysqlPair:
    """A pair on the shared MySQL."""
    return make_mysql(mysql_database)


@pytest.fixture
def both_pair(mysql_and_mariadb: MysqlDatabase, make_mysql: MakeMysqlPair) -> MysqlPair:
    """A pair; the test runs once on MySQL and once on MariaDB."""
    return make_mysql(mysql_and_mariadb)


@pytest.fixture(params=[MYSQL_9, MARIADB_10_11], ids=lambda release: release.name)
def own_pair(
    request: pytest.FixtureRequest, mysql_server: PrivateMysql, make_mysql: MakeMysqlPair
) -> Iterator[MysqlPair]:
    """The same on servers of the test's own, for what concerns all of a server's databases."""
    with mysql_server(request.param).database() as database:
        yield make_mysql(database)
