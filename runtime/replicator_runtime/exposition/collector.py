"""Gives Prometheus' client the values of a run whenever it asks; the run itself does nothing for it."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
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
        table_limit: So many tables have series of their own, those that came first; the others share `__other__`. A table's series stay
            what they are while it is replicated, also under another name, so that no counter of `__other__` falls.
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
        self._unseen: set[TableId] = set()
        self._lock = threading.Lock()

    def began(self, run: Run) -> None:
        """The run has begun: its counters are shown from now on."""
        run.metrics.on_rename = self._renamed
        self.run = run

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
        taken = list(samples(self._progress.snapshot(), self.run))
        with self._lock:
            for sample in taken:
                found[sample.metric].setdefault(self._label_values(sample), []).append(sample)
            self._forget_unseen({sample.table for sample in taken})
        for metric in METRICS:
            if metric.name in found:
                yield self._family(metric, found[metric.name])

    def _label_values(self, sample: Sample) -> tuple[str, ...]:
        has_table = "table" in _LABELS[sample.metric]
        return (self._pipeline, *((self._table(sample.table),) if has_table else ()), *sample.labels)

    def _table(self, table: TableId | str | None) -> str:
        """Its label: a table keeps the one that it had first."""
        if table is None or isinstance(table, str):
            return table or ""
        if table not in self._labels:
            own = sum(label != OTHER for label in self._labels.values())
            self._labels[table] = str(table) if own < self._limit else OTHER
        return self._labels[table]

    def _forget_unseen(self, seen: set[TableId | str | None]) -> None:
        """Give the place of a table that is gone to the next one. Twice in a row: the first time it may be one that is just renamed."""
        unseen = self._labels.keys() - seen
        for table in unseen & self._unseen:
            del self._labels[table]
        self._unseen = unseen & self._labels.keys()

    def _renamed(self, names: Mapping[TableId, TableId]) -> None:
        with self._lock:
            known = {new: self._labels[old] for old, new in names.items() if old in self._labels}
            self._labels |= {new: label if label == OTHER else str(new) for new, label in known.items()}
            self._unseen -= known.keys()

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
