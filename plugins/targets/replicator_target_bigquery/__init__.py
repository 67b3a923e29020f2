"""Target plugin: BigQuery tables, written by load jobs and one MERGE a batch, by merge flushes, or by change data capture.

Importing it needs none of Google's libraries, and comes before them: gRPC reads its settings when it is imported.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from replicator_sdk import hookimpl
from replicator_sdk.target import DeltaTarget
from replicator_target_bigquery.plugin import BigQueryTarget

__all__ = ["BigQueryTarget"]

# Without this, gRPC's threads abort some of the processes that this one forks, such as Spark's JVM when it is started again.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")


@hookimpl
def delta_targets() -> Iterable[type[DeltaTarget]]:
    """The target of this package."""
    return [BigQueryTarget]
