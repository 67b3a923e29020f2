"""What targets say of what they store of the table of their tests."""

from __future__ import annotations

from replicator_sdk.discovery.table_storage import TableStorage
from replicator_sdk.testing.contexts import CountingMetrics, TestTargetContext
from tests.plugins.targets.changes import TABLE


def said(context: TestTargetContext) -> TableStorage | None:
    """What the target has reported to the metrics of a run last."""
    assert isinstance(context.metrics, CountingMetrics)
    return context.metrics.storage.get(TABLE)
