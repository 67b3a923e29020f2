"""Sends a run's metrics to an OpenTelemetry collector, by OTLP over HTTP.

The values are those of Prometheus' registry, under the same names and labels, so that alerts and dashboards fit both.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Final

import structlog
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Metric,
    MetricExportResult,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from replicator_sdk.authoring.stored_form import release

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client.core import Metric as Family
    from prometheus_client.registry import CollectorRegistry

EVERY_SECONDS: Final = 15.0
_ANSWER_SECONDS: Final = 5.0
_POINTS: Final = 2000
log = structlog.get_logger()


class OtlpExporter:
    """Sends from construction on, every 15 seconds and when it is closed, in a thread of its own.

    A collector that does not answer is tried again at the next time, with the values of then; the run waits for it only when
    it ends, for five seconds at most. That it does not answer is logged once, until it does.

    Args:
        endpoint: The URL, with its path. Headers, certificates and compression are those of the standard environment variables
            (`OTEL_EXPORTER_OTLP_HEADERS` and others), attributes of the resource those of `OTEL_RESOURCE_ATTRIBUTES`.
        registry: What is sent.
        every: Seconds between two times.
    """

    def __init__(self, endpoint: str, registry: CollectorRegistry, every: float = EVERY_SECONDS) -> None:
        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL + 1)  # each failure is logged below, shorter
        self._endpoint = endpoint
        self._registry = registry
        self._every = every
        self._began = time.time_ns()
        self._resource = Resource.create({SERVICE_NAME: "replicator", SERVICE_VERSION: release()})
        self._exporter = OTLPMetricExporter(endpoint, timeout=_ANSWER_SECONDS, max_export_batch_size=_POINTS)
        self._failed = False
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="metrics-otlp", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Send a last time; return after five seconds whatever the collector does."""
        self._done.set()
        self._thread.join(_ANSWER_SECONDS)
        self._exporter.shutdown()

    def _loop(self) -> None:
        self._send()
        while not self._done.wait(self._every):
            self._send()
        self._send()

    def _send(self) -> None:
        try:
            sent = self._exporter.export(self._data()) is MetricExportResult.SUCCESS
        except Exception as error:
            log.debug("metrics.not_sent", exc_info=error)
            sent = False
        if sent == self._failed:
            self._failed = not sent
            (log.info if sent else log.warning)("metrics.sent" if sent else "metrics.not_sent", to=self._endpoint)

    def _data(self) -> MetricsData:
        now = time.time_ns()
        metrics = [metric for family in self._registry.collect() for metric in self._metrics(family, now)]
        scope = ScopeMetrics(InstrumentationScope("replicator", release()), metrics, "")
        return MetricsData([ResourceMetrics(self._resource, [scope], "")])

    def _metrics(self, family: Family, now: int) -> Iterator[Metric]:
        """A family's samples by name: a summary has two of them, its count and its sum."""
        points: dict[str, list[NumberDataPoint]] = {}
        for sample in family.samples:
            if not sample.name.endswith("_created"):
                point = NumberDataPoint(dict(sample.labels), self._began, now, float(sample.value))
                points.setdefault(sample.name, []).append(point)
        for name, found in points.items():
            yield Metric(name, family.documentation, "", _data_of(family.type, found))


def _data_of(kind: str, points: list[NumberDataPoint]) -> Gauge | Sum:
    if kind == "gauge":
        return Gauge(points)
    return Sum(points, AggregationTemporality.CUMULATIVE, is_monotonic=True)
