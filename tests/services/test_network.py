"""The network of the tests breaks in the ways the tests ask for, and recovers."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from tests.services.network import NetworkTo
from tests.services.postgres.server import PostgresDatabase


def test_clear_network_passes_everything(network: NetworkTo, postgres_database: PostgresDatabase) -> None:
    with postgres_database.connect(port=network(postgres_database.port).port) as connection:
        row = connection.execute("SELECT repeat('x', 1000000)").fetchone()
    assert row == ("x" * 1_000_000,)


def test_cut_network_ends_connections_and_refuses_new_ones(
    network: NetworkTo, postgres_database: PostgresDatabase
) -> None:
    proxy = network(postgres_database.port)
    connection = postgres_database.connect(port=proxy.port)
    proxy.cut()
    with pytest.raises(psycopg.OperationalError):
        connection.execute("SELECT 1")
    with pytest.raises(psycopg.OperationalError):
        postgres_database.connect(port=proxy.port)
    proxy.clear()
    with postgres_database.connect(port=proxy.port) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_frozen_network_keeps_connections_silent_and_loses_nothing(
    network: NetworkTo, postgres_database: PostgresDatabase
) -> None:
    proxy = network(postgres_database.port)
    with ThreadPoolExecutor(1) as threads, postgres_database.connect(port=proxy.port) as connection:
        proxy.freeze()
        answer = threads.submit(connection.execute, "SELECT 1")
        with pytest.raises(TimeoutError):
            answer.result(timeout=0.5)
        proxy.clear()
        assert answer.result(timeout=60).fetchone() == (1,)


def test_slow_network_is_slow(network: NetworkTo, postgres_database: PostgresDatabase) -> None:
    proxy = network(postgres_database.port)
    with postgres_database.connect(port=proxy.port) as connection:
        proxy.clear(delay_seconds=0.2)
        start = time.monotonic()
        connection.execute("SELECT 1")
        assert time.monotonic() - start >= 0.4
