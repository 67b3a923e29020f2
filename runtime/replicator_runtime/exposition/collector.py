"""Gives Prometheus' client the values of a run whenever it asks; the run itself does nothing for it."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, SummaryMetricFamily
from prometheus_client.registry import Collector, CollectorRegistry

from replicator_runtime.exposition.catalogue import METRICS, OTHER, Metric
from replicator_runtime.exposition.samples import samples

if TYPE_CHECKING:
    from prometheus_client.core import Metric as Family

    from replicator_runtime.engine.run_state.progress import Progress
    from replicator_runtime.engine.run_state.run import Run
    from replicator_runtime.exposition.samples import Sample
    from replicator_sdk import TableId

_Series = dict[tuple[str, ...], list["Sample"]]


class RunCollector(Collector):
    """Safe from any thread.

    Args:
        pipeline: The label of all series.
        table_limit: So many tables have series of their own, those that came first; the others share `__other__`.
        progress: The run's.

    Attributes:
        run: The run, once it has begun.
    """

    def __init__(self, pipeline: str, table_limit: int, progress: Progress) -> None:
        self.run: Run | None = None
        self._pipeline = pipeline
        self._limit = table_limit
        self._progress = progress
        self._labels: dict[TableId, str] = {}
        self._lock = threading.Lock()

    def registry(self) -> CollectorRegistry:
        """A registry of this alone."""
        made = CollectorRegistry(auto_describe=False)
        made.register(self)
        return made

    def describe(self) -> Iterable[Family]:
        """Nothing: the registry would ask for values to check the names."""
        return ()

    def collect(self) -> Iterator[Family]:
        """All metrics that have values now."""
        found: defaultdict[str, _Series] = defaultdict(dict)
        for sample in samples(self._progress.snapshot(), self.run):
            labels = self._label_values(sample)
            found[sample.metric].setdefault(labels, []).append(sample)
        for metric in METRICS:
            if metric.name in found:
                yield self._family(metric, found[metric.name])

    def _label_values(self, sample: Sample) -> tuple[str, ...]:
        has_table = "table" in _LABELS[sample.metric]
        return (self._pipeline, *((self._table(sample.table),) if has_table else ()), *sample.labels)

    def _table(self, table: TableId | None) -> str:
        """Its label: a table that had one of its own keeps it."""
        if table is None:
            return ""
        with self._lock:
            if table not in self._labels and len(self._labels) < self._limit:
                self._labels[table] = str(table)
            return self._labels.get(table, OTHER)

    def _family(self, metric: Metric, series: _Series) -> Family:
        labels = ("pipeline", *metric.labels)
        if metric.kind == "summary":
            summary = SummaryMetricFamily(metric.name, metric.meaning, labels=labels)
            for values, found in series.items():
                summary.add_metric(values, sum(s.times for s in found), sum(s.value for s in found))
            return summary
        make: Callable[..., CounterMetricFamily | GaugeMetricFamily]
        make = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
        family = make(metric.name, metric.meaning, labels=labels)
        for values, found in series.items():
            family.add_metric(values, metric.other(s.value for s in found))
        return family


_LABELS = {metric.name: metric.labels for metric in METRICS}
