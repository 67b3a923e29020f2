"""A judge on every make of server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.plugins.sources.mysql.history.judge import Judge
from tests.services.mysql_fixtures import MysqlServers
from tests.services.mysql_programs import MARIADB_10_11, MARIADB_11_8, MYSQL_9


@pytest.fixture(params=[MYSQL_9, MARIADB_10_11, MARIADB_11_8], ids=lambda release: release.name)
def judge(request: pytest.FixtureRequest, mysql_servers: MysqlServers) -> Iterator[Judge]:
    """Two fresh databases on each server, and a history of both."""
    server = mysql_servers(request.param)
    with server.database("one") as one, server.database("two") as two, one.connect() as connection:
        yield Judge(connection, server.is_mariadb, [one.name, two.name])
