"""A run that a test makes up, and what Prometheus' own parser reads of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from replicator_runtime.engine.run_state.progress import Progress
from replicator_runtime.exposition.collector import RunCollector
from replicator_runtime.observability.metrics import MetricsRegistry


def parsed(text: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """All samples but for the label `pipeline`, by name and labels."""
    return {
        (s.name, frozenset((k, v) for k, v in s.labels.items() if k != "pipeline")): s.value
        for family in text_string_to_metric_families(text)
        for s in family.samples
    }


@dataclass
class Shown:
    """A run's parts that metrics are made of."""

    limit: int = 1000
    progress: Progress = field(default_factory=Progress)
    metrics: MetricsRegistry = field(default_factory=lambda: MetricsRegistry("delta"))

    def __post_init__(self) -> None:
        self.collector = RunCollector("shop", self.limit, self.progress)
        self.spark = SimpleNamespace(usage=None)
        run: Any = SimpleNamespace(metrics=self.metrics, saved_sequence=7, freshness=None, spark=self.spark)
        self.collector.began(run)

    @property
    def text(self) -> str:
        """What Prometheus is given."""
        return generate_latest(self.collector.registry()).decode()

    def value(self, name: str, **labels: str) -> float | None:
        """One sample; None when there is none."""
        return parsed(self.text).get((name, frozenset(labels.items())))


@pytest.fixture
def shown() -> Shown:
    return Shown()
