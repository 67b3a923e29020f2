"""Changes of one row in several partitions: the source's rows in Delta in any order of reading, or an error."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from replicator_sdk.errors import ReplicatorError
from tests.plugins.sources.kafka.harness.connect_json import envelope
from tests.plugins.sources.kafka.harness.delta_copy import DeltaCopy
from tests.plugins.sources.kafka.harness.source_runs import inserts, orders
from tests.services.kafka.broker import KafkaBroker
from tests.services.kafka.fixtures import MakeTopic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_keys_that_moved_when_partitions_were_added_are_one_row_with_their_newest_values(
    tmp_path: Path, spark: SparkSession, kafka: KafkaBroker, kafka_topic: MakeTopic
) -> None:
    """First with the topic read to its end; then with older changes still unread, which are read first."""
    topic = kafka_topic(1)
    copy = DeltaCopy(tmp_path, spark, kafka, topics=[topic])
    kafka.produce(topic, inserts(range(4)), partition=0)
    copy.run()
    kafka.add_partitions(topic, 2)
    kafka.produce(topic, inserts([0, 1], note="moved"), partition=1)
    copy.run()
    assert copy.notes() == [(0, "moved"), (1, "moved"), (2, "n2"), (3, "n3")]
    kafka.produce(topic, inserts([2, 3, 5], note="older"), partition=0)
    kafka.add_partitions(topic, 3)
    kafka.produce(topic, inserts([2, 5], note="newer"), partition=2)
    copy.run()
    assert copy.notes() == [(0, "moved"), (1, "moved"), (2, "newer"), (3, "older"), (5, "newer")]


@pytest.mark.parametrize(("distributed", "code"), [(True, "RPL-5406"), (False, "RPL-5002")])
@pytest.mark.parametrize("is_new", [True, False])
def test_two_topics_with_changes_of_one_key_stop_that_table_only(
    tmp_path: Path,
    spark: SparkSession,
    kafka: KafkaBroker,
    kafka_topic: MakeTopic,
    code: str,
    *,
    is_new: bool,
    distributed: bool,
) -> None:
    """Read by executors, and by one stream."""
    topics = [kafka_topic(1), kafka_topic(1)]
    copy = DeltaCopy(tmp_path, spark, kafka, topics=topics, distributed=distributed)
    if not is_new:
        kafka.produce(topics[0], inserts([1]))
        copy.run()
    kafka.produce(topics[0], [*inserts([1], note="a"), *inserts([8], orders("others"))])
    kafka.produce(topics[1], inserts([1], note="b"))
    with pytest.raises(ReplicatorError, match=code):
        copy.run()
    assert copy.notes() == ([] if is_new else [(1, "n1")])
    assert copy.notes("others") == [(8, "n8")]


def test_a_delete_that_is_alone_in_its_slice_stops_a_table_without_a_key_in_several_partitions(
    tmp_path: Path, spark: SparkSession, kafka: KafkaBroker, kafka_topic: MakeTopic
) -> None:
    """The insert of its row may be in another partition and a later slice; one stream keeps it until then."""
    topic, schema = kafka_topic(2), orders(keyless=True)
    copy = DeltaCopy(tmp_path, spark, kafka, topics=[topic])
    kafka.produce(topic, inserts([1, 2], schema), partition=0)
    copy.run()
    kafka.produce(topic, [(None, envelope(schema, "d", {"id": 3, "note": "n3"}, None))], partition=1)
    with pytest.raises(ReplicatorError, match="RPL-5404"):
        copy.run()
    alone = DeltaCopy(tmp_path / "one stream", spark, kafka, topics=[topic], distributed=False)
    alone.run()
    kafka.produce(topic, inserts([3, 4], schema), partition=0)
    alone.run()
    assert alone.notes() == [(1, "n1"), (2, "n2"), (4, "n4")]
