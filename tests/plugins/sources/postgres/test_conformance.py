"""The Postgres source passes the kit, through the same door a stranger uses."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from replicator_sdk.testing.source_suite import SourceConformance
from tests.plugins.sources.postgres.shop import PostgresShop
from tests.services.postgres import PostgresDatabase


class TestPostgres(SourceConformance):
    supports_null_keys = False  # a primary key, or an index that is a replica identity, holds no NULL in Postgres
    alters_come_with_the_next_change = True
    unsupported_types = frozenset({"record"})
    random_histories = 10

    @pytest.fixture
    def system(self, postgres_database: PostgresDatabase) -> Iterator[PostgresShop]:
        shop = PostgresShop(postgres_database)
        yield shop
        shop.close()
