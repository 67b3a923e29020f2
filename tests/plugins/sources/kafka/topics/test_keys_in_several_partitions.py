"""Changes of one row in several partitions: the source's rows in Delta in any order of reading, or an error."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from replicator_sdk.errors import ReplicatorError
from replicator_target_delta.apply import unmatched_rows
from tests.follows import follows
from tests.plugins.sources.kafka.harness.connect_json import envelope, key_of
from tests.plugins.sources.kafka.harness.delta_copy import DeltaCopy
from tests.plugins.sources.kafka.harness.source_runs import inserts, now, orders, snapshot
from tests.services.kafka.broker import KafkaBroker
from tests.services.kafka.fixtures import MakeTopic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ADVICE = "snapshot its tables again.*set the source's `startFrom`.*replicator reset PIPELINE"


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


@follows("RPL-5406", "RPL-5002")
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
    """Read by executors, and by one stream. The records of before are not read again after the reset that is advised."""
    topics = [kafka_topic(1), kafka_topic(1)]
    copy = DeltaCopy(tmp_path, spark, kafka, topics=topics, distributed=distributed)
    if not is_new:
        kafka.produce(topics[0], inserts([1]))
        copy.run()
    kafka.produce(topics[0], [*inserts([1], note="a"), *inserts([8], orders("others"))])
    kafka.produce(topics[1], inserts([1], note="b"))
    with pytest.raises(ReplicatorError, match=f"{code}.*{_ADVICE}"):
        copy.run()
    assert copy.notes() == ([] if is_new else [(1, "n1")])
    assert copy.notes("others") == [(8, "n8")]
    if is_new:
        return
    copy.source["startFrom"] = now()
    kafka.produce(topics[0], [*snapshot({1: "b", 2: "c"}), *snapshot({8: "n8"}, orders("others"))])
    copy.reset()
    kafka.produce(topics[0], inserts([2], note="later"))
    copy.run()
    assert copy.notes() == [(1, "b"), (2, "later")]
    assert copy.notes("others") == [(8, "n8")]


@follows("RPL-5405")
def test_updates_without_values_that_no_row_has_are_passed_over_by_a_snapshot_and_a_reset(
    tmp_path: Path, spark: SparkSession, kafka: KafkaBroker, kafka_topic: MakeTopic
) -> None:
    """As after a TRUNCATE, or compaction."""
    topic, schema = kafka_topic(), orders()
    copy = DeltaCopy(tmp_path, spark, kafka, topics=[topic])
    kafka.produce(topic, inserts([1]))
    copy.run()
    kafka.produce(topic, [(key_of(schema, {"id": 2}), envelope(schema, "u", None, {"id": 2}))])
    with pytest.raises(ReplicatorError, match=f"RPL-5405.*{_ADVICE}"):
        copy.run()
    copy.source["startFrom"] = now()
    kafka.produce(topic, snapshot({1: "a", 2: "b"}))
    copy.reset()
    copy.run()
    assert copy.notes() == [(1, "a"), (2, "b")]


@follows("RPL-5407")
def test_with_keys_removals_wait_for_no_rows_any_more(
    tmp_path: Path, spark: SparkSession, kafka: KafkaBroker, kafka_topic: MakeTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unmatched_rows, "MOST_ROWS", 1)
    topic, keyless = kafka_topic(2), orders(keyless=True)
    copy = DeltaCopy(tmp_path, spark, kafka, topics=[topic], distributed=False)
    kafka.produce(topic, inserts([1, 2, 3], keyless), partition=0)
    copy.run()
    gone = [(None, envelope(keyless, "d", {"id": number, "note": "lost"}, None)) for number in (1, 2)]
    kafka.produce(topic, gone, partition=1)
    with pytest.raises(ReplicatorError, match=f"RPL-5407.*{_ADVICE}"):
        copy.run()
    copy.source["startFrom"] = now()
    kafka.produce(topic, snapshot({3: "n3", 4: "n4"}))
    copy.reset()
    copy.run()
    assert copy.notes() == [(3, "n3"), (4, "n4")]


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
