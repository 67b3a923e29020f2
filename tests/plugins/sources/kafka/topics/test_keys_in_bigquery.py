"""Changes of one row in several partitions stop its table in BigQuery, until what the error advises is done."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from replicator_runtime.config import build_pipeline
from replicator_runtime.engine.control.reset import reset
from replicator_sdk.errors import ReplicatorError
from replicator_source_kafka import KafkaSource
from replicator_target_bigquery import BigQueryTarget
from replicator_target_bigquery.batch import table_merge
from tests.follows import follows
from tests.plugins.sources.kafka.harness.connect_json import envelope
from tests.plugins.sources.kafka.harness.source_runs import inserts, now, orders, snapshot
from tests.runtime.engine.partitioned_shop import Host, PartitionedShop, run_pipeline
from tests.services.bigquery.emulators import PROJECT, Emulators, rows, target_settings
from tests.services.kafka.broker import KafkaBroker
from tests.services.kafka.fixtures import MakeTopic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.services.kafka.client import Content

_ADVICE = "snapshot its tables again.*set the source's `startFrom`.*replicator reset PIPELINE"
_KEYED, _KEYLESS = orders(), orders(keyless=True)
_TWICE = [*inserts([1], note="a"), *inserts([8])], inserts([1], note="b")
_REMOVED = inserts([1], _KEYLESS), [(None, envelope(_KEYLESS, "d", {"id": n, "note": "x"}, None)) for n in (2, 3)]


@follows("RPL-6532", "RPL-6543")
@pytest.mark.parametrize(("code", "changes"), [("RPL-6543", _TWICE), ("RPL-6532", _REMOVED)])
def test_the_records_of_before_are_not_read_again_after_the_reset_that_is_advised(
    tmp_path: Path,
    spark: SparkSession,
    kafka: KafkaBroker,
    kafka_topic: MakeTopic,
    bigquery_emulators: Emulators,
    monkeypatch: pytest.MonkeyPatch,
    code: str,
    changes: tuple[list[Content], list[Content]],
) -> None:
    monkeypatch.setattr(table_merge, "MOST_UNMATCHED", 1)
    bigquery_emulators.gate.clear()
    topic, dataset, host = kafka_topic(2), f"d{uuid.uuid4().hex[:12]}", Host(BigQueryTarget, KafkaSource)
    document = PartitionedShop(tmp_path, 1).document("bigquery", target_settings(bigquery_emulators, dataset))
    source: dict[str, Any] = {
        "bootstrapServers": kafka.bootstrap,
        "topics": [topic],
        "kafka": {"fetch.max.wait.ms": 50},
    }
    document["stages"][0]["plugin"]["properties"] = source
    document["retries"] = {"maxDurationSeconds": 0}
    for partition, records in enumerate(changes):
        kafka.produce(topic, records, partition=partition)
    with pytest.raises(ReplicatorError, match=f"{code}.*{_ADVICE}"):
        run_pipeline(document, host)
    source["startFrom"] = now()
    kafka.produce(topic, snapshot({1: "b", 4: "d"}))
    reset(build_pipeline(document, host=host))  # type: ignore[arg-type]
    kafka.produce(topic, inserts([4], note="later"))
    run_pipeline(document, host)
    found = rows(bigquery_emulators, f"SELECT id, note FROM `{PROJECT}`.`{dataset}`.orders ORDER BY id")
    assert found == [["1", "b"], ["4", "later"]]
