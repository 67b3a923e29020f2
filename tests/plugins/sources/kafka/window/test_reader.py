"""The reader on a real broker: start positions, windows, errors."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import pytest

from replicator_sdk import AlterKind, Commits, DDLOperation, Offset, TableId
from replicator_sdk.datatype import STRING
from replicator_sdk.errors import DataError, HistoryLostError, NeedsUserError, SchemaDriftError
from replicator_sdk.schema import Column
from replicator_sdk.testing.contexts import CollectingEmitter, TestSourceContext
from replicator_source_kafka import KafkaOffset
from replicator_source_kafka.client.cluster import Cluster
from replicator_source_kafka.client.fetch import read_range, read_ranges
from replicator_source_kafka.client.leader_epochs import LeaderEpochs
from replicator_source_kafka.partition_range import PartitionRange
from tests.plugins.sources.kafka.harness.group_offsets import group_offsets
from tests.plugins.sources.kafka.harness.simulated_database import source_of
from tests.plugins.sources.kafka.harness.source_runs import Pump, Run, deletes, inserts, orders
from tests.services.kafka.broker import KafkaBroker
from tests.services.kafka.fixtures import MakeTopic

QUARANTINE = TableId("_replicator", "kafka_quarantine")


def upserted(ids: list[int]) -> list[tuple[str, int]]:
    return [("I", number) for number in ids]


# ------------------------------------------------------------ where it begins


def test_every_form_of_start_begins_where_it_says(kafka: KafkaBroker, kafka_topic: MakeTopic) -> None:
    topic = kafka_topic(retention_ms=-1)
    kafka.produce(topic, inserts([0, 1]), timestamp_ms=1_000_000)
    kafka.produce(topic, inserts([2, 3]), timestamp_ms=2_000_000)
    moment = datetime.fromtimestamp(1_500, UTC).isoformat()
    late = datetime.fromtimestamp(9_000, UTC).isoformat()
    expected: list[tuple[Any, list[int]]] = [
        ("earliest", [0, 1, 2, 3, 9]),
        ("latest", [9]),
        (moment, [2, 3, 9]),
        (late, [9]),
        ({topic: {"0": 3}}, [3, 9]),
    ]
    pumps = [(Pump(kafka, [topic], startFrom=start), ids) for start, ids in expected]
    for pump, _ in pumps:
        pump.prepare()
    kafka.produce(topic, inserts([9]))
    for pump, ids in pumps:
        assert pump.ids(pump.read()) == upserted(ids)


def test_latest_is_decided_once(kafka: KafkaBroker, kafka_topic: MakeTopic) -> None:
    """Records between two starts are read, although the first run read nothing."""
    topic = kafka_topic()
    kafka.produce(topic, inserts([0]))
    pump = Pump(kafka, [topic], startFrom="latest")
    first = pump.prepare()
    kafka.produce(topic, inserts([1]))
    assert pump.prepare() == first
    pump.offset = None  # nothing was saved before the first run ended
    assert pump.prepare() == first
    assert pump.ids(pump.read()) == upserted([1])


def test_missing_start_offsets_are_refused(kafka: KafkaBroker, kafka_topic: MakeTopic) -> None:
    topic = kafka_topic()
    kafka.produce(topic, inserts([0]))
    for start in ({topic: {"0": 2}}, {topic: {"1": 0}}):
        with pytest.raises(NeedsUserError, match="RPL-3952"):
            Pump(kafka, [topic], startFrom=start).prepare()


def test_a_missing_topic_is_named(kafka: KafkaBroker) -> None:
    with pytest.raises(NeedsUserError, match=r"RPL-3951.*no-such-topic"):
        Pump(kafka, ["no-such-topic"])


# ------------------------------------------------------------ what it reads


def test_a_replay_from_every_window_is_the_same(kafka: KafkaBroker, kafka_topic: MakeTopic) -> None:
    """A restart has the same windows as the first run."""
    topics = [kafka_topic(3), kafka_topic(1, prefix="more")]
    pump = Pump(kafka, topics, tables=[], kafka={"fetch.max.wait.ms": 20, "fetch.max.bytes": 20_000})
    emitter = CollectingEmitter()
    with pump.running(emitter) as run:
        for i in range(6):
            kafka.produce(topics[0], inserts(range(50 * i, 50 * i + 50)))
            kafka.produce(topics[1], [*inserts([i], orders("more")), *deletes([i], orders("more"))])
        run.wait_for(pump.source.latest_offset())
    windows = emitter.closed_windows
    assert pump.offset is not None
    ends = [pump.offset, *(window.commits.last for window in windows if window.commits)]
    assert len(ends) > 6
    for place, offset in enumerate(ends[:-1]):
        pump.offset = offset
        again = CollectingEmitter()
        with pump.running(again) as run:
            run.wait_for(ends[-1])
        found = again.closed_windows[: len(windows) - place]
        assert [w.commits.last for w in found if w.commits] == ends[place + 1 :]
        assert [list(map(list, w.ordinals)) for w in found] == [list(map(list, w.ordinals)) for w in windows[place:]]


class _Dying(CollectingEmitter):
    """Fails at the end of the first window, like a process that is killed there."""

    end: Offset | None = None

    def emit_commits(self, commits: Commits) -> None:
        self.end = commits.last
        raise ConnectionError


def test_an_interrupted_window_is_emitted_with_the_same_end(kafka: KafkaBroker, kafka_topic: MakeTopic) -> None:
    """A table may have applied the window already, and knows it by its end; more records were written since."""
    topic = kafka_topic(3)
    kafka.produce(topic, inserts(range(30)))
    pump = Pump(kafka, [topic])
    dying = _Dying()
    run = Run(pump, dying)
    run.wait_until(lambda: run.error is not None)
    run.stop()
    kafka.produce(topic, inserts(range(30, 60)))
    first, *others = pump.read().emitter.closed_windows
    assert first.commits is not None
    assert first.commits.last == dying.end
    assert sum(len(ordinals) for ordinals in first.ordinals) == 30
    assert sum(len(ordinals) for window in others for ordinals in window.ordinals) == 30


def test_offsets_of_windows_form_a_chain_and_ordinals_follow_the_records(
    kafka: KafkaBroker, kafka_topic: MakeTopic
) -> None:
    topic = kafka_topic(4)
    removals = [record for record in deletes(range(0, 400, 7)) if record[1] is not None]  # tombstones are no events
    kafka.produce(topic, [*inserts(range(400)), *removals], batch_size=4096)
    pump = Pump(kafka, [topic], kafka={"fetch.max.wait.ms": 20, "fetch.max.bytes": 30_000})
    run = pump.read()
    windows = run.emitter.closed_windows
    assert len(windows) > 3
    for window in windows:
        ordinals = sorted(ordinal for event in window.ordinals for ordinal in event)
        assert window.commits is not None
        assert ordinals == list(range(len(ordinals), window.commits.events))
    ends = [window.commits.last for window in windows if window.commits]
    assert all(a < b and not b < a for a, b in pairwise(ends))
    assert sum(op == "D" for op, _ in pump.ids(run)) == len(range(0, 400, 7))


def test_order_holds_within_a_partition(kafka: KafkaBroker, kafka_topic: MakeTopic) -> None:
    topic = kafka_topic(3)
    for i in range(20):
        kafka.produce(topic, inserts([i % 5], note=f"v{i}"))
    pump = Pump(kafka, [topic])
    last = {row["id"]: row["note"] for _, row, _, _ in pump.read().changes("orders")}
    assert last == {i % 5: f"v{i}" for i in range(15, 20)}


def test_only_committed_transactions_are_read_and_the_end_is_reached(
    kafka: KafkaBroker, kafka_topic: MakeTopic
) -> None:
    topic = kafka_topic()
    kafka.produce(topic, inserts([0]))
    kafka.transaction(topic, inserts([1, 2]), commit=False)
    kafka.transaction(topic, inserts([3, 4]))
    kafka.transaction(topic, inserts([5]), commit=False)
    pump = Pump(kafka, [topic])
    assert pump.ids(pump.read()) == upserted([0, 3, 4])
    assert isinstance(pump.offset, KafkaOffset)
    assert pump.offset.next == {(topic, 0): kafka.ends(topic)[0]}


def test_a_compacted_topic_is_read_to_its_end(kafka: KafkaBroker, kafka_topic: MakeTopic) -> None:
    topic = kafka_topic(cleanup_policy="compact", segment_ms=100, min_cleanable_dirty_ratio=0.01, delete_retention_ms=0)
    for _ in range(3):
        kafka.produce(topic, inserts(range(5)))
    kafka.produce(topic, deletes(range(4)))
    end = kafka.ends(topic)[0]
    deadline = time.monotonic() + 90
    while len(kafka.records(topic)) >= end:
        assert time.monotonic() < deadline, "the broker has not compacted the topic"
        kafka.produce(topic, [(b"heartbeat", None)])
        time.sleep(0.2)
    pump = Pump(kafka, [topic])
    pump.read()
    assert isinstance(pump.offset, KafkaOffset)
    assert pump.offset.next[topic, 0] >= end


def test_a_range_is_read_by_itself(kafka: KafkaBroker, kafka_topic: MakeTopic) -> None:
    """As on an executor, with settings, ids and a range only."""
    topic = kafka_topic(2)
    kafka.produce(topic, [(b"k", b"v%d" % i) for i in range(3000)], partition=1)
    source = source_of(kafka, topics=[topic], kafka={"fetch.max.bytes": 4000})
    ids = source.latest_offset().topics
    records = read_range(source.config, ids, PartitionRange(topic, 1, 100, 2900))
    assert records.offset.tolist() == list(range(100, 2900))
    assert records.value.to_pylist() == [b"v%d" % i for i in range(100, 2900)]


def test_ranges_that_are_read_together_are_complete(kafka: KafkaBroker, kafka_topic: MakeTopic) -> None:
    """An answer without records of a partition does not mean that the partition has none."""
    topic = kafka_topic(3)
    for partition in range(3):
        for _ in range(4):
            kafka.produce(topic, [(b"k", b"v" * 100)] * 50, partition=partition)
    source = source_of(kafka, topics=[topic], kafka={"fetch.max.bytes": 3000})
    wanted = [PartitionRange(topic, 0, 0, 40), PartitionRange(topic, 1, 5, 190), PartitionRange(topic, 2, 0, 200)]
    with Cluster(source.config) as cluster:
        pieces = read_ranges(cluster, wanted, LeaderEpochs())
    assert [piece.range for piece in pieces] == wanted
    assert [piece.records.offset.tolist() for piece in pieces] == [list(range(r.begin, r.end)) for r in wanted]


# ------------------------------------------------------------ tables


def test_a_new_topic_becomes_a_new_table(kafka: KafkaBroker, kafka_topic: MakeTopic) -> None:
    first = kafka_topic(prefix="join")
    kafka.produce(first, inserts([1]))
    prefix = first.replace(".", r"\.")
    pump = Pump(kafka, topicPattern=rf"{prefix}.*")
    with pump.running() as run:
        run.wait_for(pump.source.latest_offset())
        later = kafka.create_topic(f"{first}.later", 2)
        kafka.produce(later, inserts(range(10), orders("later")))
        run.wait_for(pump.source.latest_offset())
    kafka.delete_topics(later)
    (created,) = run.ddl
    assert (created.operation, created.table) == (DDLOperation.CREATE_TABLE, pump.table("later"))
    assert sorted(number for _, number in pump.ids(run, "later")) == list(range(10))


def test_a_new_column_is_added_before_its_rows(kafka: KafkaBroker, kafka_topic: MakeTopic) -> None:
    topic = kafka_topic(2)
    kafka.produce(topic, inserts([1]), partition=0)
    pump = Pump(kafka, [topic])
    wide = orders("orders", Column("extra", STRING))
    kafka.produce(topic, inserts([2], wide, extra="e"), partition=1)
    kafka.produce(topic, inserts([3]), partition=0)
    run = pump.read()
    (altered,) = run.ddl
    assert [alter.kind for alter in altered.alters] == [AlterKind.ADD_COLUMN]
    assert {row["id"]: row.get("extra") for _, row, _, _ in run.changes("orders")} == {1: None, 2: "e", 3: None}


def test_rows_around_a_truncate_keep_their_order(kafka: KafkaBroker, kafka_topic: MakeTopic) -> None:
    from tests.plugins.sources.kafka.harness.connect_json import envelope

    topic = kafka_topic()
    kafka.produce(topic, inserts([1, 2]))
    pump = Pump(kafka, [topic])
    kafka.produce(topic, [(None, envelope(orders(), "t"))])
    kafka.produce(topic, inserts([3]))
    kinds = [type(event).__name__ for event in pump.read().events]
    assert kinds == ["ChangeBatch", "DDLEvent", "ChangeBatch"]


# ------------------------------------------------------------ records that cannot be read


def test_an_unreadable_record_stops_the_run_and_names_its_position(kafka: KafkaBroker, kafka_topic: MakeTopic) -> None:
    topic = kafka_topic()
    kafka.produce(topic, inserts([1]))
    pump = Pump(kafka, [topic])
    kafka.produce(topic, [(b"k", b'{"secret": 42')])
    with pytest.raises(DataError) as caught:
        pump.read()
    assert caught.value.position == f"{topic}-0@1"
    assert "quarantine" in caught.value.hint
    assert "secret" not in str(caught.value)


def test_an_unreadable_record_is_put_into_quarantine_once_and_others_are_emitted(
    kafka: KafkaBroker, kafka_topic: MakeTopic
) -> None:
    topic = kafka_topic(retention_ms=-1)
    kafka.produce(topic, inserts([1]))
    pump = Pump(kafka, [topic], onPoison="quarantine")
    kafka.produce(topic, [(b"k", b"{not json")], timestamp_ms=1_234)
    kafka.produce(topic, inserts([2]))
    run = pump.read()
    assert pump.ids(run) == upserted([1, 2])
    (kept,) = (row for op, row, _, _ in run.changes("kafka_quarantine"))
    assert (kept["topic"], kept["partition"], kept["offset"]) == (topic, 0, 1)
    assert (kept["key"], kept["value"]) == (b"k", b"{not json")
    assert kept["timestamp"] == datetime.fromtimestamp(1.234, UTC)
    assert kept["reason"]


def test_a_quarantine_table_that_is_not_selected_is_refused(kafka: KafkaBroker, kafka_topic: MakeTopic) -> None:
    topic = kafka_topic()
    kafka.produce(topic, inserts([1]))
    pump = Pump(kafka, [topic], tables=["orders"], onPoison="quarantine")
    with pytest.raises(NeedsUserError, match="RPL-3959"):
        pump.prepare()


# ------------------------------------------------------------ what it gives up on


def test_records_deleted_by_retention_are_an_error(kafka: KafkaBroker, kafka_topic: MakeTopic) -> None:
    topic = kafka_topic(2)
    kafka.produce(topic, inserts(range(10)), partition=1)
    pump = Pump(kafka, [topic])
    pump.prepare()
    assert pump.offset is not None
    pump.source.check_log(pump.offset, namespace="default", name="any")
    kafka.delete_records(topic, {1: 4})
    with pytest.raises(HistoryLostError, match=r"RPL-3953"):
        pump.source.check_log(pump.offset, namespace="default", name="any")
    with pytest.raises(HistoryLostError, match=r"RPL-3953.*begins at 4.*replicator reset"):
        pump.prepare()


def test_records_deleted_after_they_were_read_are_not_an_error(kafka: KafkaBroker, kafka_topic: MakeTopic) -> None:
    topic = kafka_topic()
    kafka.produce(topic, inserts(range(10)))
    pump = Pump(kafka, [topic])
    pump.read()
    kafka.delete_records(topic, {0: 10})
    kafka.produce(topic, inserts([10]))
    assert pump.ids(pump.read()) == upserted([10])


def test_a_topic_created_again_is_an_error_also_with_as_many_records(
    kafka: KafkaBroker, kafka_topic: MakeTopic
) -> None:
    topic = kafka_topic()
    kafka.produce(topic, inserts(range(3)))
    pump = Pump(kafka, [topic])
    pump.read()
    kafka.delete_topics(topic)
    kafka.create_topic(topic)
    kafka.produce(topic, inserts(range(3, 8)))
    with pytest.raises(HistoryLostError, match="RPL-3955"):
        pump.prepare()


def test_a_topic_created_again_while_it_is_read_is_an_error(kafka: KafkaBroker, kafka_topic: MakeTopic) -> None:
    topic = kafka_topic()
    kafka.produce(topic, inserts(range(3)))
    pump = Pump(kafka, [topic], metadataIntervalSeconds=600)
    run = Run(pump, CollectingEmitter())
    run.wait_for(pump.source.latest_offset())
    kafka.delete_topics(topic)
    kafka.create_topic(topic)
    kafka.produce(topic, inserts(range(3, 8)))
    run.wait_until(lambda: run.error is not None)
    run.stop()
    assert getattr(run.error, "code", "") in {"RPL-3954", "RPL-3955"}  # it may have been seen gone
    assert pump.ids(run) == upserted([0, 1, 2])
    with pytest.raises(HistoryLostError, match="RPL-3955"):
        pump.prepare()


def test_a_topic_that_is_deleted_is_an_error(kafka: KafkaBroker, kafka_topic: MakeTopic) -> None:
    topic = kafka_topic()
    kafka.produce(topic, inserts(range(3)))
    pump = Pump(kafka, [topic])
    run = Run(pump, CollectingEmitter())
    run.wait_for(pump.source.latest_offset())
    kafka.delete_topics(topic)
    run.wait_until(lambda: run.error is not None)
    run.stop()
    assert isinstance(run.error, NeedsUserError)
    assert run.error.code == "RPL-3954"


def test_added_partitions_are_an_error_unless_the_settings_allow_them(
    kafka: KafkaBroker, kafka_topic: MakeTopic
) -> None:
    topic = kafka_topic(1)
    kafka.produce(topic, inserts(range(3)))
    pump = Pump(kafka, [topic])
    pump.read()
    kafka.add_partitions(topic, 3)
    kafka.produce(topic, inserts(range(3, 20)))
    with pytest.raises(SchemaDriftError, match=r"RPL-3957.*onNewPartitions"):
        pump.prepare()
    reading = Pump(kafka, [topic], onNewPartitions="read")
    reading.offset, reading.context = pump.offset, TestSourceContext(state=pump.context.state)
    assert sorted(number for _, number in reading.ids(reading.read())) == list(range(3, 20))


# ------------------------------------------------------------ how far


def test_valid_through_is_the_earliest_of_the_partitions_newest_records(
    kafka: KafkaBroker, kafka_topic: MakeTopic
) -> None:
    topic = kafka_topic(2, retention_ms=-1)
    kafka.produce(topic, inserts([1, 2]), partition=0, timestamp_ms=5_000)
    kafka.produce(topic, inserts([3]), partition=1, timestamp_ms=3_000)
    pump = Pump(kafka, [topic])
    read = pump.read()
    assert pump.context.metrics.gauges["source.valid_through"] == 3.0  # type: ignore[attr-defined]
    [said] = {window.commits.valid_through for window in read.emitter.windows if window.commits is not None}
    assert said == 3_000_000


def test_only_the_durable_offset_is_committed_to_the_group(kafka: KafkaBroker, kafka_topic: MakeTopic) -> None:
    topic = kafka_topic(2)
    kafka.produce(topic, inserts(range(20)))
    group = f"group-{topic}"
    pump = Pump(kafka, [topic], kafka={"group.id": group, "fetch.max.wait.ms": 50})
    durable = pump.read().emitter.last_offset
    kafka.produce(topic, inserts(range(20, 40)))

    with pump.running() as run:
        run.wait_for(pump.source.latest_offset())
        run.wait_until(lambda: bool(group_offsets(kafka, group)))
        assert isinstance(durable, KafkaOffset)
        assert group_offsets(kafka, group) == durable.next
