"""Tables as found in the topics' records."""

from __future__ import annotations

import pytest

from replicator_sdk import TableId
from replicator_sdk.datatype import INT64, STRING
from replicator_sdk.errors import NeedsUserError, RetryableError, SchemaDriftError
from replicator_sdk.schema import Column
from replicator_source_kafka.offset import KafkaOffset
from replicator_source_kafka.tables import table_registry
from tests.plugins.sources.kafka.harness.simulated_database import source_of
from tests.plugins.sources.kafka.harness.source_runs import inserts, now, orders
from tests.services.kafka.broker import KafkaBroker
from tests.services.kafka.fixtures import MakeTopic


def test_a_table_has_the_columns_of_its_first_and_of_its_last_records(
    kafka: KafkaBroker, kafka_topic: MakeTopic
) -> None:
    topic = kafka_topic(2)
    kafka.produce(topic, inserts([1], orders("orders", Column("old", STRING))), partition=0)
    kafka.produce(topic, inserts(range(300)), partition=0)
    kafka.produce(topic, inserts([2], orders("orders", Column("new", INT64))), partition=0)
    with source_of(kafka, topics=[topic]).create_table_registry() as registry:
        (listed,) = registry.list_tables()
        schema = registry.describe_table(listed.table)
    assert listed.table == TableId("shop", "orders", "public")
    assert listed.estimated_rows == 302
    assert set(schema.names) == {"id", "note", "old", "new"}
    assert schema.primary_key == ("id",)


def test_records_from_before_the_start_say_nothing_of_a_table(kafka: KafkaBroker, kafka_topic: MakeTopic) -> None:
    """They may have another key: what RPL-3920 advises was stopped by it again."""
    topic = kafka_topic(2)
    kafka.produce(topic, inserts([1], orders(keyless=True)), partition=0)
    begins = now()
    before = source_of(kafka, topics=[topic], startFrom=begins)
    with before.create_table_registry() as registry:
        assert registry.describe_table(orders().table).primary_key == (), "there are no others"
    kafka.produce(topic, inserts([2]), partition=1)
    for start in (begins, {topic: {0: 1}}):
        with source_of(kafka, topics=[topic], startFrom=start).create_table_registry() as registry:
            assert registry.describe_table(orders().table).primary_key == ("id",)
    with (
        source_of(kafka, topics=[topic]).create_table_registry() as registry,
        pytest.raises(SchemaDriftError, match="RPL-3920"),
    ):
        registry.describe_table(orders().table)


def test_topics_without_any_record_are_a_retryable_error(kafka: KafkaBroker, kafka_topic: MakeTopic) -> None:
    topic = kafka_topic()
    with (
        source_of(kafka, topics=[topic]).create_table_registry() as registry,
        pytest.raises(RetryableError, match="RPL-3982"),
    ):
        registry.list_tables()


def test_topics_whose_records_were_deleted_have_no_table(kafka: KafkaBroker, kafka_topic: MakeTopic) -> None:
    """A pipeline whose tables are known continues without records."""
    topic = kafka_topic()
    kafka.produce(topic, inserts([1]))
    kafka.delete_records(topic, {0: 1})
    with source_of(kafka, topics=[topic]).create_table_registry() as registry:
        assert registry.list_tables() == []
        with pytest.raises(NeedsUserError, match="RPL-3970"):
            registry.describe_table(TableId("shop", "orders", "public"))


def test_records_that_are_deleted_while_they_are_sampled_are_no_lost_history(
    kafka: KafkaBroker, kafka_topic: MakeTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing was to be read of them: the next look finds the table."""
    topic = kafka_topic()
    kafka.produce(topic, inserts([1]))
    monkeypatch.setattr(table_registry, "check_any_record", lambda ends: kafka.delete_records(topic, {0: 1}))
    source = source_of(kafka, topics=[topic])
    with source.create_table_registry() as registry, pytest.raises(RetryableError, match="RPL-3971"):
        registry.list_tables()
    kafka.produce(topic, inserts([2]))
    with source.create_table_registry() as registry:
        assert [summary.table.table for summary in registry.list_tables()] == ["orders"]


def test_the_quarantine_table_is_listed_if_configured(kafka: KafkaBroker, kafka_topic: MakeTopic) -> None:
    topic = kafka_topic()
    kafka.produce(topic, inserts([1]))
    with source_of(kafka, topics=[topic], onPoison="quarantine").create_table_registry() as registry:
        assert [str(summary.table) for summary in registry.list_tables()] == [
            "_replicator.kafka_quarantine",
            "public.orders",
        ]


def test_a_table_is_ahead_of_an_offset_that_has_read_none_of_its_topic(
    kafka: KafkaBroker, kafka_topic: MakeTopic
) -> None:
    """Only such a table may be selected later, since none of its records was read."""
    read, new = kafka_topic(), kafka_topic()
    kafka.produce(read, inserts([1]))
    kafka.produce(new, inserts([2], orders("others")))
    kafka.produce(new, inserts([3], orders("others")))
    kafka.delete_records(new, {0: 1})
    both = source_of(kafka, topics=[read, new])
    end = source_of(kafka, topics=[read]).latest_offset()
    assert isinstance(end, KafkaOffset)
    with both.create_table_registry() as registry:
        table = TableId("shop", "others", "public")
        assert registry.is_ahead(table, end)
        assert registry.is_ahead(table, end.joined({new: ""}, {(new, 0): 1})), "its first record is the next one"
        assert not registry.is_ahead(table, end.joined({new: ""}, {(new, 0): 2}))
        assert not registry.is_ahead(TableId("shop", "orders", "public"), end)
        assert not registry.is_ahead(TableId("shop", "unknown", "public"), end)
