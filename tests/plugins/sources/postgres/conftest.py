"""Fixtures of the tests of the Postgres source."""

from __future__ import annotations

import pytest

from tests.plugins.sources.postgres.faults import PREPARED
from tests.plugins.sources.postgres.pump import Pump
from tests.services.postgres.server import PostgresDatabase


@pytest.fixture
def pump(postgres_database: PostgresDatabase) -> Pump:
    postgres_database.execute(PREPARED)
    made = Pump(postgres_database, "t")
    made.prepare()
    return made
