"""The source `partitioned`, a log in files, as a plugin."""

from __future__ import annotations

from replicator_sdk import DeltaSource, hookimpl
from replicator_sdk.testing.in_memory.partitioned import PartitionedSource


@hookimpl
def delta_sources() -> list[type[DeltaSource]]:
    return [PartitionedSource]
