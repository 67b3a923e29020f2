"""Fixtures for MySQL and MariaDB: shared servers with a database per test, and private servers for tests that break theirs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import pytest

from tests.services.mysql.mariadb import MariadbServer
from tests.services.mysql.programs import MARIADB_10_11, MARIADB_11_8, MYSQL_9, Release
from tests.services.mysql.server import MysqlDatabase, MysqlServer

MysqlServers: TypeAlias = Callable[[Release], MysqlServer]
PrivateMysql: TypeAlias = Callable[..., MysqlServer]


def make_server(release: Release, *, gtid: bool = True, **options: object) -> MysqlServer:
    """A server of the release, not started yet; the caller removes it."""
    kind = MariadbServer if release.is_mariadb else MysqlServer
    return kind(release, gtid=gtid, **options)


@pytest.fixture(scope="session")
def mysql_servers() -> Iterator[MysqlServers]:
    """The running server of a release, started at its first use and shared by all tests; do not stop or reconfigure it."""
    servers: dict[Release, MysqlServer] = {}

    def running(release: Release) -> MysqlServer:
        if release not in servers:
            servers[release] = make_server(release)
            servers[release].start()
        return servers[release]

    try:
        yield running
    finally:
        for server in servers.values():
            server.remove()


@pytest.fixture(scope="session")
def mysql(mysql_servers: MysqlServers) -> MysqlServer:
    """The shared server of the newest MySQL, with GTIDs."""
    return mysql_servers(MYSQL_9)


@pytest.fixture(scope="session")
def mariadb(mysql_servers: MysqlServers) -> MysqlServer:
    """The shared server of MariaDB 10.11."""
    return mysql_servers(MARIADB_10_11)


@pytest.fixture(scope="session")
def mariadb_11(mysql_servers: MysqlServers) -> MysqlServer:
    """The shared server of MariaDB 11.8."""
    return mysql_servers(MARIADB_11_8)


@pytest.fixture
def mysql_database(mysql: MysqlServer) -> Iterator[MysqlDatabase]:
    """A fresh database on the shared MySQL."""
    with mysql.database() as database:
        yield database


@pytest.fixture
def mariadb_database(mariadb: MysqlServer) -> Iterator[MysqlDatabase]:
    """A fresh database on the shared MariaDB 10.11."""
    with mariadb.database() as database:
        yield database


@pytest.fixture(params=[MYSQL_9, MARIADB_10_11], ids=lambda release: release.name)
def mysql_and_mariadb(request: pytest.FixtureRequest, mysql_servers: MysqlServers) -> Iterator[MysqlDatabase]:
    """A fresh database; the test runs once on MySQL and once on MariaDB 10.11."""
    with mysql_servers(request.param).database() as database:
        yield database


@pytest.fixture
def mysql_server() -> Iterator[PrivateMysql]:
    """Starts servers of the test's own, `mysql_server(MARIADB_11_8, gtid=False, log_bin_compress=True)`, and removes them.

    Without a release it is the newest MySQL.
    """
    with contextlib.ExitStack() as servers:

        def start(release: Release = MYSQL_9, *, gtid: bool = True, **options: Any) -> MysqlServer:
            server = make_server(release, gtid=gtid, **options)
            servers.callback(server.remove)
            return server.start()

        yield start
