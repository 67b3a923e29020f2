"""Target plugin: BigQuery tables, written by load jobs and one MERGE a batch, by merge flushes, or by change data capture.

Importing it needs none of Google's libraries.
"""

from __future__ import annotations

from collections.abc import Iterable

from replicator_sdk import hookimpl
from replicator_sdk.target import DeltaTarget
from replicator_target_bigquery.plugin import BigQueryTarget

__all__ = ["BigQueryTarget"]


@hookimpl
def delta_targets() -> Iterable[type[DeltaTarget]]:
    """The target of this package."""
    return [BigQueryTarget]
