"""The findings about brokers, topics and records."""

from __future__ import annotations

from typing import Any

from replicator_sdk.discovery.assessment import Finding, Severity
from tests.plugins.sources.kafka.harness.simulated_database import source_of
from tests.plugins.sources.kafka.harness.source_runs import inserts, orders
from tests.services.kafka.broker import KafkaBroker
from tests.services.kafka.fixtures import MakeTopic


def findings(broker: KafkaBroker, *topics: str, **settings: Any) -> dict[str, Finding]:
    with source_of(broker, topics=list(topics), **settings).create_table_assessor() as assessor:
        return {finding.name: finding for finding in assessor.assess().findings}


def test_a_healthy_topic_has_no_warning(kafka: KafkaBroker, kafka_topic: MakeTopic) -> None:
    topic = kafka_topic(2)
    kafka.produce(topic, inserts(range(10)))
    assert {f.severity for f in findings(kafka, topic).values()} == {Severity.INFO}


def test_brokers_that_do_not_answer_are_an_error(kafka: KafkaBroker) -> None:
    found = findings(kafka, "t", bootstrapServers="127.0.0.1:1", kafka={"request.timeout.ms": 1000})
    assert found["unreachable"].severity is Severity.ERROR
    assert found["unreachable"].code == "RPL-3967"


def test_a_missing_topic_is_an_error(kafka: KafkaBroker) -> None:
    assert findings(kafka, "no-such-topic")["unreachable"].code == "RPL-3951"


def test_short_retention_is_a_warning_with_its_fix(kafka: KafkaBroker, kafka_topic: MakeTopic) -> None:
    topic = kafka_topic(retention_ms=3_600_000, retention_bytes=1_000_000)
    found = findings(kafka, topic)
    assert "1.0 hours" in found["retention"].description
    assert f"--topic {topic}" in found["retention"].fix
    assert found["retention_bytes"].severity is Severity.WARNING


def test_compaction_is_fine(kafka: KafkaBroker, kafka_topic: MakeTopic) -> None:
    found = findings(kafka, kafka_topic(cleanup_policy="compact", delete_retention_ms=7 * 86_400_000))
    assert found["compaction"].severity is Severity.INFO
    assert "retention" not in found


def test_compaction_that_keeps_removals_for_a_day_is_a_warning_with_its_fix(
    kafka: KafkaBroker, kafka_topic: MakeTopic
) -> None:
    topic = kafka_topic(cleanup_policy="compact")
    found = findings(kafka, topic)["compaction"]
    assert found.severity is Severity.WARNING
    assert "24.0 hours" in found.description
    assert f"--topic {topic} --add-config delete.retention.ms=" in found.fix


def test_records_without_keys_in_several_partitions_are_a_warning(kafka: KafkaBroker, kafka_topic: MakeTopic) -> None:
    topic = kafka_topic(2)
    kafka.produce(topic, inserts(range(10), orders(keyless=True)))
    assert findings(kafka, topic)["unkeyed_partitions"].severity is Severity.WARNING


def test_a_table_without_a_key_is_a_warning(kafka: KafkaBroker) -> None:
    with source_of(kafka, topics=["t"]).create_table_assessor() as assessor:
        (found,) = assessor.assess_table(orders(keyless=True)).findings
        assert found.name == "no_key"
        assert assessor.assess_table(orders()).findings == ()


def test_an_unreadable_record_is_an_error_or_is_put_into_quarantine(kafka: KafkaBroker, kafka_topic: MakeTopic) -> None:
    topic = kafka_topic()
    kafka.produce(topic, [(b"k", b"hush: no json")])
    found = findings(kafka, topic)["unreadable_record"]
    assert found.severity is Severity.ERROR
    assert f"{topic}-0@0" in found.description
    assert "hush" not in str(found)
    assert findings(kafka, topic, onPoison="quarantine")["unreadable_record"].severity is Severity.WARNING
