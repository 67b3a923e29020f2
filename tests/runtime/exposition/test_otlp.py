"""An OpenTelemetry collector gets the metrics that Prometheus would; one that fails or hangs does the run no harm."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from structlog.testing import capture_logs

from replicator_runtime.config import InvalidPipelineError
from replicator_runtime.config.sections.metrics import otlp_endpoint
from replicator_runtime.engine.run_state.progress import Progress
from replicator_runtime.exposition.otlp import OtlpExporter
from replicator_runtime.exposition.shown import Exposition
from replicator_sdk.errors import NeedsUserError
from replicator_sdk.schema import TableId
from tests.runtime.exposition.conftest import Shown, parsed
from tests.runtime.exposition.test_exposition import config
from tests.waits import until

Values = dict[tuple[str, frozenset[tuple[str, str]]], float]


class Collector:
    """What an OpenTelemetry collector is given.

    Attributes:
        status: Its answer.
        requests: What came, with the path.
        hang: While it is set, answers wait.
    """

    def __init__(self) -> None:
        self.status = 200
        self.requests: list[tuple[str, ExportMetricsServiceRequest]] = []
        self.hang = threading.Event()
        self.ended = threading.Event()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                request = ExportMetricsServiceRequest.FromString(body)
                while outer.hang.is_set() and not outer.ended.wait(0.01):
                    pass
                outer.requests.append((self.path, request))
                self.send_response(outer.status)
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def values(self, request: int = -1) -> Values:
        """The values of one request, but for the label `pipeline`."""
        found: Values = {}
        for metric in self.requests[request][1].resource_metrics[0].scope_metrics[0].metrics:
            kind = metric.sum if metric.HasField("sum") else metric.gauge
            for point in kind.data_points:
                labels = {a.key: a.value.string_value for a in point.attributes}
                assert labels.pop("pipeline") in {"shop", "eu/shop"}
                found[metric.name, frozenset(labels.items())] = point.as_double
        return found

    def close(self) -> None:
        self.ended.set()
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def collector() -> Iterator[Collector]:
    made = Collector()
    yield made
    made.close()


def test_the_collector_gets_what_prometheus_would_get(shown: Shown, collector: Collector) -> None:
    shown.metrics.count("dml.insert", 3, table=TableId("db", "orders"))
    OtlpExporter(f"{collector.url}/v1/metrics", shown.collector.registry()).close()
    prometheus = parsed(shown.text)
    assert {path for path, _ in collector.requests} == {"/v1/metrics"}
    sent = collector.values()
    assert sent.keys() == prometheus.keys()
    changing = "replicator_shown_timestamp_seconds"
    assert {k: v for k, v in sent.items() if k[0] != changing} == {
        k: v for k, v in prometheus.items() if k[0] != changing
    }


def test_counters_are_cumulative_and_the_resource_says_which_program(shown: Shown, collector: Collector) -> None:
    shown.metrics.count("dml.insert", 3, table=TableId("db", "orders"))
    OtlpExporter(f"{collector.url}/v1/metrics", shown.collector.registry()).close()
    [found] = collector.requests[-1][1].resource_metrics
    assert {a.key: a.value.string_value for a in found.resource.attributes}["service.name"] == "replicator"
    kinds = {m.name: m for m in found.scope_metrics[0].metrics}
    assert kinds["replicator_changes_total"].sum.is_monotonic
    assert kinds["replicator_changes_total"].sum.aggregation_temporality == 2
    assert kinds["replicator_phase"].HasField("gauge")


def test_values_are_sent_again_and_again_and_when_the_run_ends(shown: Shown, collector: Collector) -> None:
    exporter = OtlpExporter(f"{collector.url}/v1/metrics", shown.collector.registry(), every=0.05)
    until(lambda: len(collector.requests) >= 3)
    shown.metrics.count("dml.delete", 5, table=TableId("db", "orders"))
    exporter.close()
    assert collector.values()["replicator_changes_total", frozenset({("table", "db.orders"), ("op", "delete")})] == 5


def test_a_failing_collector_is_logged_once_until_it_answers(shown: Shown, collector: Collector) -> None:
    collector.status = 400
    with capture_logs() as logs:
        exporter = OtlpExporter(f"{collector.url}/v1/metrics", shown.collector.registry(), every=0.02)
        until(lambda: len(collector.requests) >= 4)
        collector.status = 200
        until(lambda: any(line["event"] == "metrics.sent" for line in logs))
        exporter.close()
    assert [line["event"] for line in logs] == ["metrics.not_sent", "metrics.sent"]


def test_a_collector_that_hangs_delays_the_end_by_seconds_only(shown: Shown, collector: Collector) -> None:
    collector.hang.set()
    exporter = OtlpExporter(f"{collector.url}/v1/metrics", shown.collector.registry())
    began = time.monotonic()
    exporter.close()
    assert time.monotonic() - began < 30


def test_a_pipeline_names_its_collector(tmp_path: Path, collector: Collector) -> None:
    with Exposition(config(tmp_path, otlp=collector.url)).shown(Progress()):
        until(lambda: bool(collector.requests))
    assert collector.requests[0][0] == "/v1/metrics"


@pytest.mark.parametrize("text", ["collector:4318", "grpc://collector:4317", "http://", "http://a:b@collector", ""])
def test_what_is_no_collector_is_refused_without_repeating_it(tmp_path: Path, text: str) -> None:
    with pytest.raises(InvalidPipelineError, match=r"at metrics\.otlp") as refused:
        config(tmp_path, otlp=text)
    assert "a:b@" not in str(refused.value)


def test_a_path_that_is_given_stays() -> None:
    assert otlp_endpoint("https://x.example/otlp/v1/metrics") == "https://x.example/otlp/v1/metrics"
    assert otlp_endpoint("https://x.example:4318/") == "https://x.example:4318/v1/metrics"


def test_without_the_packages_the_command_to_install_them_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "replicator_runtime.exposition.otlp", None)
    with pytest.raises(NeedsUserError) as refused, Exposition(config(tmp_path, otlp="http://x")).shown(Progress()):
        pass
    assert refused.value.code == "RPL-7214"
