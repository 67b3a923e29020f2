"""The server says what it keeps for a slot, and how far the log is beyond an offset."""

from __future__ import annotations

import time

import pytest

from replicator_sdk.discovery.source_health import SourceHealth
from replicator_sdk.errors import RetryableError
from replicator_source_postgres import PostgresOffset
from tests.plugins.sources.postgres.faults import PREPARED
from tests.plugins.sources.postgres.pump import Pump, source_of
from tests.services.postgres.fixtures import PrivatePostgres
from tests.services.postgres.server import PostgresDatabase


def health(pump: Pump) -> SourceHealth:
    context, offset = pump.context, pump.offset
    assert isinstance(offset, PostgresOffset)
    found = pump.source.health(offset, namespace=context.namespace, name=context.replicator_name)
    assert found is not None
    return found


@pytest.mark.parametrize("postgres_database", [13, 18], indirect=True)
def test_log_that_comes_is_after_the_offset_and_held_by_the_slot(postgres_database: PostgresDatabase) -> None:
    postgres_database.execute(PREPARED)
    pump = Pump(postgres_database, "t")
    pump.prepare()
    before = health(pump)
    postgres_database.execute("INSERT INTO t SELECT i, repeat('x', 500) FROM generate_series(1, 2000) i")
    after = health(pump)
    for name in ("waiting_bytes", "held_bytes"):
        grown = getattr(after, name) - getattr(before, name)
        assert 500 * 2000 < grown < 500 * 2000 * 10, name
    assert after.held_limit_bytes is None, "the server has no limit"
    assert after.clock is not None
    assert abs(after.clock - time.time()) < 60


def test_a_limit_of_the_server_is_what_is_held_and_what_is_left(private_postgres: PrivatePostgres) -> None:
    server = private_postgres(max_slot_wal_keep_size="200MB", max_wal_size="32MB", min_wal_size="32MB")
    with server.database() as db:
        db.execute(PREPARED)
        pump = Pump(db, "t")
        pump.prepare()
        found = health(pump)
    assert found.held_limit_bytes is not None
    assert 150 << 20 < found.held_limit_bytes < 300 << 20


def test_nothing_is_held_by_a_slot_that_does_not_exist(postgres_database: PostgresDatabase) -> None:
    found = source_of(postgres_database).health(None, namespace="default", name="never")
    assert (found.waiting_bytes, found.held_bytes, found.held_limit_bytes) == (None, None, None)
    assert found.clock is not None


def test_a_server_that_is_away_raises(postgres_database: PostgresDatabase) -> None:
    with pytest.raises(RetryableError):
        source_of(postgres_database, port=1).health(None, namespace="default", name="never")
