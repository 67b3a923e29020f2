"""Target plugin: Delta Lake tables, written through Spark's Delta library.

Importing it starts nothing and needs neither Spark nor Java.
"""

from __future__ import annotations

from collections.abc import Iterable

from replicator_sdk import hookimpl
from replicator_sdk.target import DeltaTarget
from replicator_target_delta.plugin import DeltaLakeTarget

__all__ = ["DeltaLakeTarget"]


@hookimpl
def delta_targets() -> Iterable[type[DeltaTarget]]:
    """The target of this package."""
    return [DeltaLakeTarget]
