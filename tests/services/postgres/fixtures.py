"""Fixtures for PostgreSQL: shared servers with a database per test, and private servers for tests that break theirs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from tests.services.postgres.programs import NEWEST, OLDEST
from tests.services.postgres.server import PostgresDatabase, PostgresServer

PostgresServers: TypeAlias = Callable[[int], PostgresServer]
PrivatePostgres: TypeAlias = Callable[..., PostgresServer]


@pytest.fixture(scope="session")
def postgres_servers() -> Iterator[PostgresServers]:
    """The running server of a major version, started at its first use and shared by all tests; do not stop or kill it."""
    servers: dict[int, PostgresServer] = {}

    def running(version: int) -> PostgresServer:
        if version not in servers:
            servers[version] = PostgresServer(version).start()
        return servers[version]

    yield running
    for server in servers.values():
        server.remove()


@pytest.fixture
def postgres_database(request: pytest.FixtureRequest, postgres_servers: PostgresServers) -> Iterator[PostgresDatabase]:
    """A fresh database on the newest server, or on the version named by `indirect` parametrisation."""
    version: int = getattr(request, "param", NEWEST)
    with postgres_servers(version).database() as database:
        yield database


@pytest.fixture(params=[OLDEST, NEWEST], ids=lambda version: f"postgres{version}")
def postgres_oldest_and_newest(
    request: pytest.FixtureRequest, postgres_servers: PostgresServers
) -> Iterator[PostgresDatabase]:
    """A fresh database; the test runs once on the oldest and once on the newest supported server."""
    with postgres_servers(request.param).database() as database:
        yield database


@pytest.fixture
def private_postgres() -> Iterator[PrivatePostgres]:
    """Starts servers of the test's own, `private_postgres(18, max_slot_wal_keep_size="1MB")`, and removes them afterwards."""
    with contextlib.ExitStack() as servers:

        def start(
            version: int = NEWEST, *, tls: bool = False, stored: Path | None = None, **settings: Any
        ) -> PostgresServer:
            server = PostgresServer(version, tls=tls, stored=stored, **settings)
            servers.callback(server.remove)
            return server.start()

        yield start


@pytest.fixture(scope="session")
def tls_postgres() -> Iterator[PostgresServer]:
    """A server that accepts TLS only, with a certificate of the tests' own authority (`server.certificate.authority`)."""
    server = PostgresServer(NEWEST, tls=True)
    try:
        yield server.start()
    finally:
        server.remove()
