"""Pairs of a database and its replicator."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crash.mysql.pair import MysqlPair, make_pair
from tests.services.mysql.server import MysqlDatabase


@pytest.fixture
def each_pair(mysql_and_mariadb: MysqlDatabase, tmp_path: Path, file_target_package: str) -> MysqlPair:
    """The test runs once on MySQL and once on MariaDB."""
    return make_pair(mysql_and_mariadb, tmp_path, file_target_package)


@pytest.fixture
def mysql_pair(mysql_database: MysqlDatabase, tmp_path: Path, file_target_package: str) -> MysqlPair:
    """On MySQL."""
    return make_pair(mysql_database, tmp_path, file_target_package)
