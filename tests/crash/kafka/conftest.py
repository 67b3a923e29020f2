"""Tables in Kafka and their replicator."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crash.kafka.pair import KafkaPair
from tests.crash.kafka.tables import KafkaTables
from tests.end_to_end.kafka.stream import kafka_source
from tests.end_to_end.replicator import Replicator
from tests.services.kafka.broker import KafkaBroker


@pytest.fixture
def pair(kafka: KafkaBroker, tmp_path: Path, file_target_package: str) -> KafkaPair:
    folder = tmp_path / "pair"
    tables = KafkaTables(kafka)
    replicator = Replicator(
        folder,
        kafka_source(kafka, tables.topics),
        ("file", {"path": str(folder / "target")}),
        {"retries": {"maxDurationSeconds": 20, "delaySeconds": 0.2}, "batch": {"maxIntervalSeconds": 0.1}},
        environment={"PYTHONPATH": file_target_package},
    )
    return KafkaPair(tables, replicator)
