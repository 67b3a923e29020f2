"""Whoever does what the next step of an error says has a copy that is equal to the database."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from replicator_runtime.config import build_pipeline
from replicator_runtime.engine.control.reset import reset
from replicator_sdk import TableId
from replicator_sdk.errors import HistoryLostError, NeedsUserError, ReplicatorError, SchemaDriftError
from replicator_sdk.testing.in_memory.target import MemoryStore, MemoryTarget
from replicator_source_kafka import KafkaSource
from tests.follows import follows
from tests.plugins.sources.kafka.harness.lost_end import LostEnd
from tests.plugins.sources.kafka.harness.source_runs import deletes, inserts, now, orders, snapshot
from tests.runtime.engine.partitioned_shop import Host, PartitionedShop, run_pipeline
from tests.services.kafka.broker import KafkaBroker
from tests.services.kafka.client import Content
from tests.services.kafka.fixtures import MakeTopic, PrivateKafka


class Copies:
    """Pipelines of one broker, each with a name and a target of its own."""

    def __init__(self, folder: Path, broker: KafkaBroker) -> None:
        self._folder = folder
        self._broker = broker
        self._host = Host(MemoryTarget, KafkaSource)
        self._stores: set[str] = set()

    def run(self, name: str, *topics: str, **settings: Any) -> dict[int, str]:
        """Run a pipeline until it has everything; returns the table's notes by id."""
        run_pipeline(self._document(name, topics, settings), self._host)
        rows = MemoryStore.of(self._store(name)).rows(TableId("shop", "orders", "public"))
        return {row["id"]: row["note"] for row in rows}

    def reset(self, name: str, *topics: str, **settings: Any) -> dict[int, str]:
        """`replicator reset`, then a run as above."""
        reset(build_pipeline(self._document(name, topics, settings), host=self._host))  # type: ignore[arg-type]
        return self.run(name, *topics, **settings)

    def _document(self, name: str, topics: Sequence[str], settings: Mapping[str, Any]) -> dict[str, Any]:
        store = self._store(name)
        self._stores.add(store)
        document = PartitionedShop(self._folder, 1).document("memory", {"store": store}) | {"name": name}
        document["stages"][0]["plugin"]["properties"] = {
            "bootstrapServers": self._broker.bootstrap,
            **({"topics": list(topics)} if topics else {}),
            "kafka": {"fetch.max.wait.ms": 50},
            **settings,
        }
        return document

    def _store(self, name: str) -> str:
        return str(self._folder / name)

    def fails(self, kind: type[ReplicatorError], code: str, name: str, *topics: str, **settings: Any) -> str:
        """Run a pipeline that ends with an error; returns its next step."""
        with pytest.raises(kind, match=code) as caught:
            self.run(name, *topics, **settings)
        return caught.value.hint

    def forget(self) -> None:
        for store in self._stores:
            MemoryStore.forget(store)


@pytest.fixture
def copies(kafka: KafkaBroker, tmp_path: Path) -> Iterator[Copies]:
    made = Copies(tmp_path, kafka)
    yield made
    made.forget()


def changed(ids: Iterable[int], note: str) -> list[Content]:
    """Rows that get another note."""
    return inserts(ids, note=note)


BOTH = pytest.mark.parametrize("distributed", [True, False])


@follows("RPL-3953")
@BOTH
def test_after_retention_a_new_snapshot_and_a_reset_are_equal(
    kafka: KafkaBroker, kafka_topic: MakeTopic, copies: Copies, *, distributed: bool
) -> None:
    topic = kafka_topic(2)
    kafka.produce(topic, inserts(range(10)))
    copies.run("first", topic, distributed=distributed)
    kafka.produce(topic, [*deletes([3]), *changed([4], "late")])
    kafka.delete_records(topic, kafka.ends(topic))
    kafka.produce(topic, changed([5], "later"))
    hint = copies.fails(HistoryLostError, "RPL-3953", "first", topic, distributed=distributed)
    assert "`replicator reset PIPELINE`" in hint
    rows = {n: f"n{n}" for n in range(10) if n != 3} | {4: "late", 5: "later"}
    kafka.produce(topic, snapshot(rows))
    assert copies.reset("first", topic, distributed=distributed) == rows


def test_a_topic_that_is_no_longer_selected_goes_on_when_its_name_is_back(
    kafka: KafkaBroker, kafka_topic: MakeTopic, copies: Copies
) -> None:
    topic, other = kafka_topic(), kafka_topic()
    kafka.produce(other, inserts([1], orders("goods")))
    kafka.produce(topic, inserts(range(3)))
    copies.run("first", topic, other)
    kafka.produce(topic, inserts(range(3, 5)))
    hint = copies.fails(NeedsUserError, "RPL-3954.*no longer selected", "first", other)
    assert "put it back into `topics`" in hint
    assert copies.run("first", topic, other) == {n: f"n{n}" for n in range(5)}


@follows("RPL-3954", "RPL-3955")
@BOTH
def test_a_deleted_topic_is_copied_from_its_successor_after_a_reset(
    kafka: KafkaBroker, kafka_topic: MakeTopic, copies: Copies, *, distributed: bool
) -> None:
    """Whether the run sees it gone or created again: a topic that is created again is another one."""
    topic = kafka_topic(prefix="gone")
    pattern = {"topicPattern": f"{topic}.*", "distributed": distributed}
    kafka.produce(kafka.create_topic(f"{topic}.other"), inserts([1], orders("goods")))
    kafka.produce(topic, inserts(range(3)))
    copies.run("first", **pattern)
    kafka.delete_topics(topic)
    gone = copies.fails(NeedsUserError, "RPL-3954.*no longer exists", "first", **pattern)
    kafka.create_topic(topic)
    rows = {n: f"n{n}" for n in range(1, 5)}
    kafka.produce(topic, snapshot(rows))
    again = copies.fails(HistoryLostError, "RPL-3955", "first", **pattern)
    assert "`replicator reset PIPELINE`" in gone
    assert "`replicator reset PIPELINE`" in again
    assert copies.reset("first", **pattern) == rows
    kafka.delete_topics(f"{topic}.other")


def test_partitions_added_to_a_topic_that_was_read_to_its_end_are_read(
    kafka: KafkaBroker, kafka_topic: MakeTopic, copies: Copies
) -> None:
    topic = kafka_topic(1)
    kafka.produce(topic, inserts(range(10)))
    copies.run("first", topic)
    kafka.add_partitions(topic, 3)
    kafka.produce(topic, changed(range(5, 15), "late"))
    hint = copies.fails(SchemaDriftError, "RPL-3957", "first", topic)
    assert "onNewPartitions to read" in hint
    rows = {n: f"n{n}" for n in range(5)} | dict.fromkeys(range(5, 15), "late")
    assert copies.run("first", topic, onNewPartitions="read") == rows


@follows("RPL-3957")
@BOTH
def test_partitions_added_before_the_end_was_read_need_a_snapshot_from_its_beginning_on(
    kafka: KafkaBroker, kafka_topic: MakeTopic, copies: Copies, *, distributed: bool
) -> None:
    """Keys moved from the second partition to the first, which is read before it."""
    topic = kafka_topic(2)
    kafka.produce(topic, inserts(range(10)), partition=1)
    copies.run("first", topic, distributed=distributed)
    kafka.produce(topic, changed(range(10), "unread"), partition=1)
    kafka.add_partitions(topic, 3)
    kafka.produce(topic, changed(range(5), "late"), partition=0)
    hint = copies.fails(SchemaDriftError, "RPL-3957", "first", topic, distributed=distributed)
    assert "startFrom" in hint
    begins = now()
    rows = dict.fromkeys(range(5), "late") | dict.fromkeys(range(5, 10), "unread")
    kafka.produce(topic, snapshot(rows), partition=0)
    assert copies.reset("first", topic, distributed=distributed, startFrom=begins) == rows


@follows("RPL-3956", "RPL-3974")
@BOTH
def test_after_a_lost_end_records_from_the_new_snapshot_on_are_equal(
    private_kafka: PrivateKafka, tmp_path: Path, *, distributed: bool
) -> None:
    """The topic still has the insert of a row whose delete was lost: it is not read from its beginning."""
    deleted = [*deletes([3]), *changed([4], "lost")]
    lost_end = LostEnd(private_kafka(), inserts(range(10)), deleted)
    copies = Copies(tmp_path, lost_end.broker)
    copies.run("first", lost_end.topic, distributed=distributed)
    lost_end.lose()
    ended = copies.fails(HistoryLostError, "RPL-3956", "first", lost_end.topic, distributed=distributed)
    lost_end.broker.produce(lost_end.topic, changed(range(5, 9), "late"))
    grown = copies.fails(HistoryLostError, "RPL-3974", "first", lost_end.topic, distributed=distributed)
    begins = now()
    rows = {n: f"n{n}" for n in (0, 1, 2, 9)} | {4: "lost"} | dict.fromkeys(range(5, 9), "late")
    lost_end.broker.produce(lost_end.topic, snapshot(rows))
    for hint in (ended, grown):
        assert "set `startFrom` to the time when that snapshot began, then `replicator reset PIPELINE`" in hint
    assert copies.reset("first", lost_end.topic, distributed=distributed, startFrom=begins) == rows
    copies.forget()
