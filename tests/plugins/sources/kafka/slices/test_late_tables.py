"""Topics keep the changes of a paused or failing table: it is read by itself later, gets them once, and says so when they are lost."""

from __future__ import annotations

import contextlib
import random
import threading
import time
import uuid
from typing import TYPE_CHECKING, Any

import pytest

from replicator_runtime.config import build_pipeline
from replicator_runtime.engine.control.control import carry_out_alone
from replicator_runtime.engine.run_state.progress import Progress
from replicator_runtime.engine.slices import slice_size
from replicator_sdk import TableId, failpoint
from replicator_sdk.errors import DataError, ReplicatorError
from replicator_sdk.testing.histories.values import difference
from replicator_sdk.testing.in_memory.target import MemoryConsumer, MemoryStore, MemoryTarget
from replicator_source_kafka import KafkaOffset, KafkaSource
from replicator_source_kafka.client import consumer_group
from replicator_state import ReplicatorDirectory
from tests.plugins.sources.kafka.harness.group_offsets import group_offsets
from tests.plugins.sources.kafka.harness.source_runs import Planner, deletes, inserts, orders
from tests.plugins.sources.kafka.slices.test_distributed_log import TopicLog, _records
from tests.runtime.engine.partitioned_shop import Host, PartitionedShop, run_pipeline
from tests.runtime.engine.slices.test_late_tables import POINTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from replicator_runtime.engine.worker import RunResult
    from replicator_sdk.testing.histories.reference import RowChange
    from tests.services.kafka.broker import KafkaBroker
    from tests.services.kafka.fixtures import MakeTopic

HOST = Host(MemoryTarget, KafkaSource)


class OneTopic(TopicLog):
    """All tables in one topic."""

    def append(self, changes: Iterable[RowChange], timestamp: int = 0) -> None:
        for change in changes:
            for content in _records(change, timestamp):
                self._waiting.append((f"{self.name}.all", 0 if content[0] is None else None, content))


class Pipeline:
    """Topics into memory."""

    def __init__(self, folder: Path, broker: KafkaBroker, **properties: Any) -> None:
        self.folder = folder
        self.document = PartitionedShop(folder, 1).document("memory", {"store": str(folder)})
        self.document["stages"][0]["plugin"]["properties"] = {
            "bootstrapServers": broker.bootstrap,
            "metadataIntervalSeconds": 0.1,
            "kafka": {"fetch.max.wait.ms": 50},
            **properties,
        }

    def run(self, **more: Any) -> RunResult:
        return run_pipeline(self.document, HOST, **more)

    def ask(self, command: str, *tables: str) -> None:
        requests = ReplicatorDirectory(str(self.folder / "state"), "default", "shop").requests()
        for table in tables:
            requests.submit(f"table.{command}", {"tables": [table]})

    def alone(self, command: str, *tables: str) -> None:
        self.ask(command, *tables)
        carry_out_alone(build_pipeline(self.document, host=HOST))  # type: ignore[arg-type]

    def states(self) -> dict[str, str]:
        progress = Progress()
        with contextlib.suppress(ReplicatorError):
            self.run(progress=progress)
        return {t.table.table: t.state.value for t in progress.snapshot().tables}

    def ids(self, name: str = "orders") -> list[int]:
        return sorted(row["id"] for row in MemoryStore.of(str(self.folder)).rows(TableId("shop", name, "public")))


@pytest.fixture
def topics(kafka: KafkaBroker) -> Iterator[dict[str, str]]:
    """A topic for each of two tables, named after it."""
    name = f"shop{uuid.uuid4().hex[:8]}"
    made = {table: kafka.create_topic(f"{name}.public.{table}", 2) for table in ("orders", "goods")}
    yield made
    kafka.delete_topics(*made.values())


@pytest.fixture(autouse=True)
def _forgotten(tmp_path: Path) -> Iterator[None]:
    yield
    failpoint.arm("")
    MemoryStore.forget(str(tmp_path))


@pytest.mark.parametrize("log", [TopicLog, OneTopic])
def test_a_random_history_of_pauses_ends_and_changes_makes_the_target_equal(
    kafka: KafkaBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log: type[TopicLog]
) -> None:
    for name in ("_FIRST_BYTES", "_LEAST_BYTES"):
        monkeypatch.setattr(slice_size, name, 40_000)
    chance, shop, topics = random.Random(5), PartitionedShop(tmp_path, 5), log(kafka)
    shop.log = topics  # type: ignore[assignment]
    pipeline = Pipeline(tmp_path, kafka, topicPattern=rf"{topics.name}\..*")

    def assert_equal() -> None:
        topics.flush()
        pipeline.run()
        for schema in shop.schemas:
            found = MemoryStore.of(str(tmp_path)).rows(schema.table)
            assert difference(schema, shop.rows(schema.table), found) == ""

    try:
        shop.trade(40)
        assert_equal()
        for _ in range(7):
            for table in ("customers", "stock", "notes"):
                if chance.random() < 0.4:
                    pipeline.ask(chance.choice(["pause", "resume"]), table)
            shop.trade(chance.randrange(40))
            if chance.random() < 0.4:
                shop.grow()
            topics.flush()
            failpoint.arm(f"{chance.choice(POINTS)}=raise@{chance.randrange(1, 5)}")
            with contextlib.suppress(ReplicatorError):
                run_pipeline({**pipeline.document, "retries": {"maxDurationSeconds": 0}}, HOST)
            failpoint.arm("")
        pipeline.ask("resume", "customers", "stock", "notes")
        for _ in range(3):
            assert_equal()
            shop.trade(20)
            shop.grow()
        assert_equal()
    finally:
        topics.close()


def passed_beside_paused(kafka: KafkaBroker, topics: dict[str, str], folder: Path) -> Pipeline:
    """A pipeline whose table `orders` has 5 rows and is paused, while its topic has 9 as the others; the offset is at the end."""
    pipeline = Pipeline(folder, kafka, topics=list(topics.values()))
    for name, topic in topics.items():
        kafka.produce(topic, inserts(range(5), orders(name)))
    pipeline.run()
    pipeline.alone("pause", "orders")
    for name, topic in topics.items():
        kafka.produce(topic, inserts(range(5, 9), orders(name)))
    pipeline.run()
    return pipeline


def test_a_paused_table_whose_records_retention_deleted_stops_for_good_and_the_others_go_on(
    kafka: KafkaBroker, topics: dict[str, str], tmp_path: Path
) -> None:
    pipeline = passed_beside_paused(kafka, topics, tmp_path)
    kafka.delete_records(topics["orders"], kafka.ends(topics["orders"]))
    kafka.produce(topics["goods"], inserts(range(9, 12), orders("goods")))
    with pytest.raises(ReplicatorError) as found:
        pipeline.run()
    assert (found.value.code, found.value.table) == ("RPL-3985", "public.orders")
    kafka.produce(topics["goods"], inserts(range(12, 14), orders("goods")))
    pipeline.states()
    assert (pipeline.ids("orders"), pipeline.ids("goods")) == (list(range(5)), list(range(14)))


def test_records_of_another_table_that_retention_deleted_are_no_concern_of_a_paused_one(
    kafka: KafkaBroker, topics: dict[str, str], tmp_path: Path
) -> None:
    pipeline = passed_beside_paused(kafka, topics, tmp_path)
    kafka.delete_records(topics["goods"], kafka.ends(topics["goods"]))
    pipeline.alone("resume", "orders")
    pipeline.run()
    assert (pipeline.ids("orders"), pipeline.ids("goods")) == (list(range(9)), list(range(9)))


def test_partitions_that_are_added_while_a_table_is_paused_are_read_after_the_older_ones(
    kafka: KafkaBroker, kafka_topic: MakeTopic, tmp_path: Path
) -> None:
    """A key moves to another partition: its older change must not come last."""
    topics = {name: kafka_topic(1) for name in ("orders", "goods")}
    pipeline = Pipeline(tmp_path, kafka, topics=list(topics.values()), onNewPartitions="read")
    for name, topic in topics.items():
        kafka.produce(topic, inserts(range(20), orders(name)))
    pipeline.run()
    pipeline.alone("pause", "orders")
    kafka.produce(topics["orders"], inserts(range(20, 40)))
    pipeline.run()
    kafka.add_partitions(topics["orders"], 4)
    kafka.produce(topics["orders"], deletes(range(20, 40)))
    time.sleep(0.2)
    pipeline.run()
    pipeline.run()
    assert len(pipeline.ids()) == 20
    pipeline.alone("resume", "orders")
    pipeline.run()
    assert pipeline.ids() == list(range(20))
    kafka.produce(topics["orders"], inserts(range(50, 60)))
    pipeline.run()
    assert pipeline.ids() == [*range(20), *range(50, 60)]


def test_the_group_goes_on_while_a_table_fails_beside_one_that_works(
    kafka: KafkaBroker, kafka_topic: MakeTopic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumer_group, "_SECONDS", 0.0)
    topics = {name: kafka_topic(1) for name in ("orders", "goods")}
    group = f"group-{topics['orders']}"
    kafka_settings = {"fetch.max.wait.ms": 50, "group.id": group}
    pipeline = Pipeline(tmp_path, kafka, topics=list(topics.values()), kafka=kafka_settings)
    pipeline.document["failingTables"] = {"laneAfterMinutes": 1e-9}
    for name, topic in topics.items():
        kafka.produce(topic, inserts(range(5), orders(name)))
    pipeline.run()
    apply, fails = MemoryConsumer.apply_batch, threading.Event()
    fails.set()

    def refuse(self: MemoryConsumer, changes: Any) -> None:
        if fails.is_set() and changes.table.table == "orders":
            raise DataError("it does not fit", code="RPL-5001", table=str(changes.table))
        apply(self, changes)

    monkeypatch.setattr(MemoryConsumer, "apply_batch", refuse)
    stop = threading.Event()
    following = threading.Thread(target=pipeline.run, kwargs={"until_current": False, "stop": stop})
    following.start()
    try:
        number = 5
        deadline = time.monotonic() + 120
        while group_offsets(kafka, group).get((topics["orders"], 0), 0) < 8 and time.monotonic() < deadline:
            for name, topic in topics.items():
                kafka.produce(topic, inserts([number], orders(name)))
            number += 1
            time.sleep(0.2)
        assert group_offsets(kafka, group)[topics["orders"], 0] >= 8
        assert pipeline.ids() == list(range(5))
    finally:
        stop.set()
        following.join(60)
    fails.clear()
    pipeline.run()
    assert pipeline.ids() == pipeline.ids("goods") == list(range(number))


def test_only_the_topics_that_may_hold_a_table_are_planned_for_it(kafka: KafkaBroker, topics: dict[str, str]) -> None:
    for name, topic in topics.items():
        kafka.produce(topic, inserts(range(5), orders(name)))
    made = Planner(kafka, [orders(), orders("goods")], topics=list(topics.values()))
    start = made.log.initialize(None)
    whole = made.log.plan(start, 1 << 30)
    assert whole is not None
    piece = made.log.plan_table(orders().table, start, 1 << 30, whole.end)
    assert piece is not None
    assert isinstance(piece.end, KafkaOffset)
    planned = {partition.bounds.topic for partition in piece.partitions}
    assert piece.end == whole.end
    assert made.log.plan_table(orders().table, whole.end, 1 << 30, whole.end) is None
    assert planned == {topics["orders"]}
    made.log.close()
