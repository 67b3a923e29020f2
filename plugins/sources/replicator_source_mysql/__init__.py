"""Source plugin: MySQL 8 and 9, MariaDB 10 and 11, through the binlog.

Importing this package imports no driver; PyMySQL is needed once a connection is made.
"""

from __future__ import annotations

from collections.abc import Iterable

from replicator_sdk import hookimpl
from replicator_sdk.source import DeltaSource
from replicator_source_mysql.config import MySqlConfig
from replicator_source_mysql.offset import MySqlOffset
from replicator_source_mysql.plugin import MySqlSource

__all__ = ["MySqlConfig", "MySqlOffset", "MySqlSource", "delta_sources"]


@hookimpl
def delta_sources() -> Iterable[type[DeltaSource]]:
    """The one source of this package."""
    return [MySqlSource]
