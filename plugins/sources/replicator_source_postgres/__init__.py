"""Source plugin: PostgreSQL 13 to 18, through logical replication (pgoutput).

Importing this package imports no driver; psycopg is needed once a connection is made.
"""

from __future__ import annotations

from collections.abc import Iterable

from replicator_sdk import hookimpl
from replicator_sdk.source import DeltaSource
from replicator_source_postgres.config import PostgresConfig
from replicator_source_postgres.offset import PostgresOffset
from replicator_source_postgres.plugin import PostgresSource

__all__ = ["PostgresConfig", "PostgresOffset", "PostgresSource", "delta_sources"]


@hookimpl
def delta_sources() -> Iterable[type[DeltaSource]]:
    """The one source of this package."""
    return [PostgresSource]
