"""Shows the metrics of one run where its pipeline and its command say."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import structlog

from replicator_runtime.config.default_paths import expand_home
from replicator_runtime.config.sections.metrics import parsed_address
from replicator_runtime.exposition.spark_watch import watching_spark
from replicator_sdk.errors import NeedsUserError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client.registry import CollectorRegistry

    from replicator_runtime.config import PipelineConfig
    from replicator_runtime.engine.run_state.progress import Progress
    from replicator_runtime.engine.run_state.run import Run
    from replicator_runtime.exposition.collector import RunCollector
    from replicator_runtime.exposition.otlp import OtlpExporter

log = structlog.get_logger()


class Exposition:
    """Where the metrics of a run are shown.

    Args:
        config: The pipeline's settings.

    Attributes:
        addresses: Where they are served, once they are.
    """

    def __init__(self, config: PipelineConfig) -> None:
        self._config = config
        self._collector: RunCollector | None = None
        self._opened = ExitStack()
        self.addresses: list[str] = []

    def began(self, run: Run) -> None:
        """The run has begun: its counters are shown from now on."""
        if self._collector is not None:
            self._collector.began(run)
            self._opened.enter_context(watching_spark(run.spark))

    @contextmanager
    def shown(self, progress: Progress) -> Iterator[None]:
        """Show them within the block, nowhere unless a setting says where.

        Raises:
            NeedsUserError: RPL-7210 without `prometheus-client`, RPL-7211 and RPL-7212 when the address or the file cannot be had,
                RPL-7214 without OpenTelemetry's packages where a collector is named.
        """
        settings = self._config.metrics
        if settings.address is None and settings.textfile is None and settings.otlp is None:
            yield
            return
        try:
            from replicator_runtime.exposition.collector import RunCollector
            from replicator_runtime.exposition.endpoint import Endpoint
            from replicator_runtime.exposition.text_file import TextFile
        except ImportError as error:
            raise NeedsUserError(
                "metrics need prometheus-client, which is not installed",
                code="RPL-7210",
                hint="pip install 'replicator[metrics]'",
            ) from error
        self._collector = RunCollector(label(self._config), settings.table_limit, progress)
        registry = self._collector.registry()
        with self._opened as opened:
            if settings.address is not None:
                wanted = parsed_address(settings.address)
                endpoint = Endpoint(wanted, registry)
                opened.callback(endpoint.close)
                self.addresses.append(f"http://{replace(wanted, port=endpoint.port)}/metrics")
                log.info("metrics.served", at=self.addresses[-1])
            if settings.textfile is not None:
                opened.callback(TextFile(expand_home(settings.textfile), registry).close)
            if settings.otlp is not None:
                opened.callback(_exporter(settings.otlp, registry).close)
            yield


def _exporter(endpoint: str, registry: CollectorRegistry) -> OtlpExporter:
    try:
        from replicator_runtime.exposition.otlp import OtlpExporter
    except ImportError as error:
        raise NeedsUserError(
            "metrics by OTLP need OpenTelemetry's packages, which are not installed",
            code="RPL-7214",
            hint="pip install 'replicator[otlp]'",
        ) from error
    return OtlpExporter(endpoint, registry)


def label(config: PipelineConfig) -> str:
    """What the label `pipeline` has: the name, after its namespace unless that is the default one."""
    return config.name if config.namespace == "default" else f"{config.namespace}/{config.name}"
