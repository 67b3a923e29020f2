"""The Postgres source passes the conformance kit, as a third-party source would."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from replicator_sdk.testing.source_suite import SourceConformance
from tests.depth import ALL_CASES
from tests.plugins.sources.postgres.source_system import PostgresSystem
from tests.services.postgres.server import PostgresDatabase


class TestPostgres(SourceConformance):
    supports_retype_column = False  # rewritten rows are not in the log: the reader asks for a new copy (RPL-3606)
    supports_null_keys = False  # a primary key, or an index that is a replica identity, holds no NULL in Postgres
    alters_come_with_the_next_change = True
    unsupported_types = frozenset({"record"})
    random_histories = 10 if ALL_CASES else 5

    @pytest.fixture
    def system(self, postgres_database: PostgresDatabase) -> Iterator[PostgresSystem]:
        system = PostgresSystem(postgres_database)
        yield system
        system.close()
