"""An oracle on every make of server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.plugins.sources.mysql.ddl.server_oracle import ServerOracle
from tests.services.mysql.fixtures import MysqlServers
from tests.services.mysql.programs import MARIADB_10_11, MARIADB_11_8, MYSQL_9


@pytest.fixture(params=[MYSQL_9, MARIADB_10_11, MARIADB_11_8], ids=lambda release: release.name)
def oracle(request: pytest.FixtureRequest, mysql_servers: MysqlServers) -> Iterator[ServerOracle]:
    """Two fresh databases on each server, and a history of both."""
    server = mysql_servers(request.param)
    with server.database("one") as one, server.database("two") as two, one.connect() as connection:
        yield ServerOracle(connection, server.is_mariadb, [one.name, two.name])
