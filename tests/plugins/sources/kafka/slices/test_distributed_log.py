"""Topics read in slices: a random history of a database ends with equal tables, whatever the slices."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from replicator_runtime.engine.slices import slice_size
from replicator_sdk import DMLOperation, SchemaSeen, TableId, failpoint
from replicator_sdk.batch import ChangeBatch
from replicator_sdk.datatype import INT64
from replicator_sdk.distributed.slices import read_partitions
from replicator_sdk.errors import DataError, NeedsUserError, ReplicatorError, RetryableError
from replicator_sdk.schema import Column
from replicator_sdk.testing.contexts import CountingMetrics
from replicator_sdk.testing.histories.reference import RowChange
from replicator_sdk.testing.histories.values import difference
from replicator_sdk.testing.in_memory.target import MemoryStore, MemoryTarget
from replicator_source_kafka import KafkaOffset, KafkaSource
from replicator_source_kafka.client import consumer_group
from replicator_source_kafka.record_batches import decoding
from replicator_source_kafka.tables import quarantine
from tests.plugins.sources.kafka.harness.connect_json import envelope, key_of
from tests.plugins.sources.kafka.harness.group_offsets import group_offsets
from tests.plugins.sources.kafka.harness.source_runs import Planner, deletes, inserts, orders
from tests.runtime.engine.partitioned_shop import Host, PartitionedShop, run_pipeline
from tests.services.kafka.broker import Content, KafkaBroker
from tests.services.kafka.fixtures import MakeTopic


class TopicLog:
    """Takes changes as `LogFolder` does, and writes what a connector would; a topic of three partitions a table."""

    def __init__(self, broker: KafkaBroker) -> None:
        self._broker = broker
        self.name = f"shop{uuid.uuid4().hex[:8]}"
        self._topics: set[str] = set()
        self._waiting: list[tuple[str, int | None, Content]] = []

    def append(self, changes: Iterable[RowChange], timestamp: int = 0) -> None:
        """Keep the records of some changes, to be sent by `flush`."""
        for change in changes:
            for content in _records(change, timestamp):
                topic = f"{self.name}.{change.schema.table.table}"
                self._waiting.append((topic, 0 if content[0] is None else None, content))

    def flush(self) -> None:
        """Send the records that are kept."""
        for topic in dict.fromkeys(topic for topic, _, _ in self._waiting):
            if topic not in self._topics:
                self._topics.add(self._broker.create_topic(topic, 3))
        with self._broker.producer() as producer:
            for topic, partition, (key, value) in self._waiting:
                producer.send(topic, key=key, value=value, partition=partition)
        self._waiting = []

    def close(self) -> None:
        """Delete the topics."""
        if self._topics:
            self._broker.delete_topics(*self._topics)


def _records(change: RowChange, timestamp: int) -> list[Content]:
    schema, before = change.schema, None if change.before is None else dict(change.before)
    if change.operation is DMLOperation.DELETE:
        assert before is not None
        key = key_of(schema, before)
        gone: list[Content] = [(key, envelope(schema, "d", before, microseconds=timestamp))]
        return gone if key is None else [*gone, (key, None)]
    if change.operation is DMLOperation.INSERT:
        return [(key_of(schema, change.row), envelope(schema, "c", None, change.row, microseconds=timestamp))]
    moved = before is not None and bool(schema.primary_key)
    if moved and key_of(schema, before or {}) != key_of(schema, change.row):
        gone_change = RowChange(schema, DMLOperation.DELETE, {}, before)
        come = RowChange(schema, DMLOperation.INSERT, change.row)
        return [*_records(gone_change, timestamp), *_records(come, timestamp)]
    return [(key_of(schema, change.row), envelope(schema, "u", before, change.row, microseconds=timestamp))]


@pytest.fixture
def topic_log(kafka: KafkaBroker) -> Iterator[TopicLog]:
    log = TopicLog(kafka)
    yield log
    log.close()
    failpoint.arm("")


@pytest.mark.parametrize("seed", [1, 2])
def test_a_random_history_ends_as_the_database(
    kafka: KafkaBroker, topic_log: TopicLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """With columns and a topic that are added on the way, and a crash in the middle of a slice."""
    monkeypatch.setattr(slice_size, "_FIRST_BYTES", 60_000)
    monkeypatch.setattr(slice_size, "_LEAST_BYTES", 60_000)
    shop = PartitionedShop(tmp_path, seed)
    document = shop.document("memory", {"store": str(tmp_path)})
    shop.log = topic_log  # type: ignore[assignment]
    document["stages"][0]["plugin"]["properties"] = {
        "bootstrapServers": kafka.bootstrap,
        "topicPattern": rf"{topic_log.name}\..*",
        "metadataIntervalSeconds": 0.1,
        "kafka": {"fetch.max.wait.ms": 50},
    }
    host = Host(MemoryTarget, KafkaSource)
    shop.trade(40)
    topic_log.flush()
    run_pipeline(document, host)
    shop.trade(20)
    shop.grow()
    shop.trade(20)
    shop.open_late_table()
    shop.grow()
    shop.trade(20)
    topic_log.flush()
    failpoint.arm("engine.slice.applied=raise@2")
    with pytest.raises(ReplicatorError, match=r"engine\.slice\.applied"):
        run_pipeline({**document, "retries": {"maxDurationSeconds": 0}}, host)
    shop.trade(10)
    topic_log.flush()
    monkeypatch.setattr(slice_size, "_FIRST_BYTES", 90_000)
    run_pipeline(document, host)
    for schema in shop.schemas:
        found = MemoryStore.of(str(tmp_path)).rows(schema.table)
        assert difference(schema, shop.rows(schema.table), found) == ""
    MemoryStore.forget(str(tmp_path))


# ------------------------------------------------------------ planning


@pytest.fixture
def planner(kafka: KafkaBroker, kafka_topic: MakeTopic) -> Iterator[tuple[Planner, str, KafkaOffset]]:
    topic = kafka_topic(3)
    kafka.produce(topic, inserts(range(30)))
    made = Planner(kafka, [orders()], topics=[topic])
    start = made.log.initialize(None)
    assert isinstance(start, KafkaOffset)
    yield made, topic, start
    made.log.close()


def test_slices_of_any_size_hold_every_record_once(planner: tuple[Planner, str, KafkaOffset]) -> None:
    made, _, start = planner
    assert made.ids(start) == list(range(30))
    found: list[int] = []
    slices, last = 0, 0
    while (piece := made.log.plan(start, 4000)) is not None:
        assert piece.first_sequence > last
        start, slices, last = piece.end, slices + 1, piece.last_sequence  # type: ignore[assignment]
        read = read_partitions(made.log.read, piece.partitions, {orders().table: orders()})
        for batch in read.batches[orders().table]:
            assert (batch.sequence_numbers[1:] > batch.sequence_numbers[:-1]).all()  # type: ignore[index]
            found += batch.row.field("id").to_pylist()
    assert sorted(found) == list(range(30))
    assert slices > 2


def test_a_slice_does_not_cross_the_end_it_is_given(
    kafka: KafkaBroker, planner: tuple[Planner, str, KafkaOffset]
) -> None:
    made, topic, start = planner
    piece = made.log.plan(start, 1 << 30)
    assert piece is not None
    kafka.produce(topic, inserts(range(30, 40)))
    assert made.ids(start, piece.end) == list(range(30))  # type: ignore[arg-type]
    assert made.ids(piece.end) == list(range(30, 40))  # type: ignore[arg-type]


def test_a_new_topic_joins_in_a_slice_without_records(kafka: KafkaBroker, kafka_topic: MakeTopic) -> None:
    name = f"join{uuid.uuid4().hex[:6]}"
    first = kafka_topic(prefix=name)
    kafka.produce(first, inserts([1]))
    made = Planner(kafka, [orders()], topicPattern=rf"{name}\..*")
    start = made.log.initialize(None)
    second = kafka_topic(prefix=name)
    kafka.produce(second, inserts([2]))
    joined = made.log.plan(start, 1 << 30)
    assert joined is not None
    assert joined.partitions == ()
    assert made.ids(joined.end) == [1, 2]  # type: ignore[arg-type]
    after = made.log.plan(joined.end, 1 << 30)
    assert after is not None
    assert made.ids(start, after.end) == [1, 2], "a replay from before it joined"  # type: ignore[arg-type]
    made.log.close()


def test_the_durable_offset_is_committed_to_the_group(
    kafka: KafkaBroker, kafka_topic: MakeTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumer_group, "_SECONDS", 0.0)
    topic = kafka_topic()
    kafka.produce(topic, inserts(range(5)))
    made = Planner(kafka, [orders()], topics=[topic], kafka={"group.id": f"group-{topic}"})
    start = made.log.initialize(None)
    piece = made.log.plan(start, 1 << 30)
    assert piece is not None
    made.context.committed = piece.end
    kafka.produce(topic, inserts(range(5, 9)))
    counted = CountingMetrics()
    made.context.metrics = counted
    deadline = time.monotonic() + 60
    while True:  # the broker may have to create the topic of group offsets first
        before = counted.counters["source.group_commits_failed"]
        assert made.log.plan(piece.end, 1 << 30) is not None
        if counted.counters["source.group_commits_failed"] == before:
            break
        assert time.monotonic() < deadline, "commits to the group keep failing"
        time.sleep(0.1)
    assert group_offsets(kafka, f"group-{topic}") == {(topic, 0): 5}
    made.log.close()


def test_a_small_range_of_a_compressed_topic_is_read_without_the_rest(
    kafka: KafkaBroker, kafka_topic: MakeTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer may hold much more than is wanted, and a batch expand to much more than its bytes: both stay compressed."""
    topic = kafka_topic(1, compression_type="gzip")
    for begin in range(0, 4000, 100):
        kafka.produce(topic, inserts(range(begin, begin + 100), note="the same in every row " * 50))
    made = Planner(kafka, [orders()], topics=[topic])
    start = made.log.initialize(None)
    assert isinstance(start, KafkaOffset)
    unpacked, true_unpacked = [], decoding.RecordBatch.unpacked

    def noted(self: decoding.RecordBatch) -> bytes | memoryview:
        unpacked.append(self.count)
        return true_unpacked(self)

    piece = made.log.plan(start, 100)
    assert piece is not None
    assert isinstance(piece.end, KafkaOffset)
    monkeypatch.setattr(decoding.RecordBatch, "unpacked", noted)
    wanted = piece.end.next[topic, 0]
    assert made.ids(start, piece.end) == list(range(wanted))
    assert 0 < wanted < 200
    assert sum(unpacked) < wanted + 1000
    made.log.close()


def test_records_deleted_by_retention_are_an_error_in_a_slice(
    kafka: KafkaBroker, planner: tuple[Planner, str, KafkaOffset]
) -> None:
    made, topic, start = planner
    piece = made.log.plan(start, 1 << 30)
    assert piece is not None
    kafka.delete_records(topic, kafka.ends(topic))
    with pytest.raises(RetryableError, match="RPL-3987") as caught:  # the next attempt finds whose records are lost
        read_partitions(made.log.read, piece.partitions, {orders().table: orders()})
    assert getattr(caught.value.__cause__, "code", "") == "RPL-3971"


# ------------------------------------------------------------ reading


def test_new_columns_are_reported_and_their_rows_are_not_emitted(kafka: KafkaBroker, kafka_topic: MakeTopic) -> None:
    topic = kafka_topic()
    wide = orders("orders", Column("more", INT64))
    kafka.produce(topic, [*inserts([1]), *inserts([2], wide), *inserts([3])])
    made = Planner(kafka, [orders()], topics=[topic])
    start = made.log.initialize(None)
    piece = made.log.plan(start, 1 << 30)
    assert piece is not None
    (partition,) = piece.partitions
    items = list(made.log.read(partition, {orders().table: orders()}))
    [seen] = [item for item in items if isinstance(item, SchemaSeen)]
    assert "more" in seen.schema
    assert not any(isinstance(item, ChangeBatch) for item in items)
    step = made.log.reconcile(orders(), seen.schema)
    assert step is not None
    assert made.ids(start, schema=step.schema) == [1, 2, 3]  # type: ignore[arg-type]
    made.log.close()


def test_an_unreadable_record_stops_or_is_put_into_quarantine(kafka: KafkaBroker, kafka_topic: MakeTopic) -> None:
    topic = kafka_topic()
    kafka.produce(topic, [*inserts([1]), (b"{}", b"no json"), *deletes([1])])
    tables = {orders().table: orders(), quarantine.TABLE: quarantine.SCHEMA}
    for policy in ("stop", "quarantine"):
        made = Planner(kafka, tables.values(), topics=[topic], onPoison=policy)
        piece = made.log.plan(made.log.initialize(None), 1 << 30)
        assert piece is not None
        if policy == "stop":
            with pytest.raises(DataError, match=f"{topic}-0@1"):
                read_partitions(made.log.read, piece.partitions, tables)
        else:
            found = read_partitions(made.log.read, piece.partitions, tables)
            [kept] = found.batches[quarantine.TABLE]
            assert kept.row.to_pylist()[0]["offset"] == 1
            assert found.tallies[orders().table].rows == 2
        made.log.close()


def test_a_truncate_is_an_error_that_names_the_table(kafka: KafkaBroker, kafka_topic: MakeTopic) -> None:
    topic = kafka_topic()
    kafka.produce(topic, [*inserts([1]), (None, envelope(orders(), "t"))])
    made = Planner(kafka, [orders()], topics=[topic])
    piece = made.log.plan(made.log.initialize(None), 1 << 30)
    assert piece is not None
    with pytest.raises(NeedsUserError, match=r"RPL-3948.*shop|public") as caught:
        read_partitions(made.log.read, piece.partitions, {orders().table: orders()})
    assert caught.value.table == str(orders().table)
    found = read_partitions(made.log.read, piece.partitions, {})
    assert TableId("shop", "orders", "public") in {schema.table for schema in found.seen}
    made.log.close()
