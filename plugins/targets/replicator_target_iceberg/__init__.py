"""Target plugin: Apache Iceberg tables, written by Arrow and committed through Iceberg's Java library.

Importing it starts nothing and needs neither Spark nor Java.
"""

from __future__ import annotations

from collections.abc import Iterable

from replicator_sdk import hookimpl
from replicator_sdk.target import DeltaTarget
from replicator_target_iceberg.plugin import IcebergTarget

__all__ = ["IcebergTarget"]


@hookimpl
def delta_targets() -> Iterable[type[DeltaTarget]]:
    """The target of this package."""
    return [IcebergTarget]
