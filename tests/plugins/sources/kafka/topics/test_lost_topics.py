"""A topic that is gone, replaced, cut, left out or grown stops its table only, where its name and those of all tables make it certain."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from replicator_sdk import TableId, failpoint
from replicator_sdk.discovery.assessment import Severity
from replicator_sdk.errors import HistoryLostError, ReplicatorError
from tests.plugins.sources.kafka.harness.lost_end import LostEnd
from tests.plugins.sources.kafka.harness.memory_copy import MemoryCopy, topics_of
from tests.plugins.sources.kafka.harness.source_runs import inserts, orders
from tests.services.held_point import held_at
from tests.services.kafka.broker import KafkaBroker
from tests.services.kafka.client import Content
from tests.services.kafka.fixtures import PrivateKafka

BOTH = pytest.mark.parametrize("distributed", [True, False])
FLAT: dict[str, Any] = {"format": "upsert-json", "tableFromTopic": r"[^.]+\.(?P<schema>public)\.(?P<table>.+)"}
FORMATS: dict[str, dict[str, Any]] = {"flat": FLAT, "debezium": {}}
EACH = pytest.mark.parametrize(("kind", "distributed"), [("flat", False), ("debezium", True)])


def rows(kind: str, table: str, *numbers: int) -> list[Content]:
    if kind == "debezium":
        return inserts(numbers, orders(table))
    return [(json.dumps({"id": n}).encode(), json.dumps({"id": n, "note": f"n{n}"}).encode()) for n in numbers]


def ids(copy: MemoryCopy, kind: str, table: str) -> list[int]:
    name = TableId("shop", table, "public") if kind == "debezium" else TableId("public", table)
    return sorted(row["id"] for row in copy.rows(name))


def delete(kafka: KafkaBroker, copy: MemoryCopy, topic: str) -> None:
    kafka.delete_topics(topic)


def create_again(kafka: KafkaBroker, copy: MemoryCopy, topic: str) -> None:
    kafka.delete_topics(topic)
    kafka.create_topic(topic, 2)
    kafka.produce(topic, [*rows("flat", "orders", 7)] * 9)


def leave_out(kafka: KafkaBroker, copy: MemoryCopy, topic: str) -> None:
    kafka.produce(topic, rows("flat" if "format" in copy.source else "debezium", "orders", 2))
    copy.source["topics"] = [name for name in copy.source["topics"] if name != topic]


def grow(kafka: KafkaBroker, copy: MemoryCopy, topic: str) -> None:
    kafka.add_partitions(topic, 3)
    for partition, number in enumerate((2, 3, 4)):
        kafka.produce(
            topic, rows("flat" if "format" in copy.source else "debezium", "orders", number), partition=partition
        )


def lost_logs(copy: MemoryCopy) -> dict[str, str]:
    """The codes of an assessment's findings about the log, by what they concern; each is an error."""
    found = [(place, finding) for place, finding in copy.assess().all_findings() if finding.name == "log"]
    assert all(finding.severity is Severity.ERROR for _, finding in found)
    assert all(("the others go on" in finding.impact) is (place != "source") for place, finding in found)
    return {place: finding.code for place, finding in found}


LOSSES: dict[str, tuple[Callable[[KafkaBroker, MemoryCopy, str], None], str, str]] = {
    "deleted": (delete, "RPL-3954.*no longer exists", "RPL-3954"),
    "created again": (create_again, "RPL-3986.*RPL-3955.*created again.*pipeline of its own", "RPL-2005"),
    "left out": (leave_out, "RPL-3954.*no longer selected", "RPL-3954"),
    "grown": (grow, "RPL-3957", "RPL-3957"),
}


@EACH
@pytest.mark.parametrize("loss", LOSSES)
def test_a_lost_topic_stops_its_table_only_also_after_a_run_that_was_cut_off(
    tmp_path: Path, kafka: KafkaBroker, loss: str, kind: str, *, distributed: bool
) -> None:
    lose, first, later = LOSSES[loss]
    with topics_of(kafka, "orders", "others") as topics:
        copy = MemoryCopy(tmp_path, kafka, topics=list(topics.values()), distributed=distributed, **FORMATS[kind])
        for table, topic in topics.items():
            kafka.produce(topic, rows(kind, table, 1))
        copy.run()
        lose(kafka, copy, topics["orders"])
        kafka.produce(topics["others"], rows(kind, "others", 2))
        with pytest.raises(ReplicatorError, match=first) as caught:
            copy.run()
        assert str(caught.value.table).endswith("public.orders")
        failpoint.arm("engine.slice.applied=raise" if distributed else "engine.batch.gathered=raise")
        kafka.produce(topics["others"], rows(kind, "others", 3))
        with pytest.raises(ReplicatorError, match="RPL-9900"):
            copy.run()
        failpoint.arm("")
        for number in (4, 5, 6):
            kafka.produce(topics["others"], rows(kind, "others", number))
            with pytest.raises(ReplicatorError, match=later):
                copy.run()
            assert ids(copy, kind, "others") == list(range(1, number + 1))
            assert ids(copy, kind, "orders") == [1], "a table with a gap takes no later changes"
        if loss in ("left out", "grown"):
            copy.source |= {"topics": list(topics.values()), "onNewPartitions": "read"}
            kafka.produce(topics["others"], rows(kind, "others", 7))
            kafka.produce(topics["orders"], rows(kind, "orders", 5))
            copy.run()
            assert ids(copy, kind, "orders") == ([1, 2, 5] if loss == "left out" else [1, 2, 3, 4, 5])
            assert ids(copy, kind, "others") == list(range(1, 8))


@EACH
def test_an_assessment_says_of_each_lost_topic_that_its_table_stops(
    tmp_path: Path, kafka: KafkaBroker, kind: str, *, distributed: bool
) -> None:
    """It was an error of the whole source, by which no run can go on; only the first topic was named."""
    with topics_of(kafka, "orders", "others", "third") as topics:
        copy = MemoryCopy(tmp_path, kafka, topics=list(topics.values()), distributed=distributed, **FORMATS[kind])
        for table, topic in topics.items():
            kafka.produce(topic, rows(kind, table, 1))
        copy.run()
        assert lost_logs(copy) == {}
        kafka.delete_topics(topics["orders"])
        kafka.add_partitions(topics["others"], 3)
        found = lost_logs(copy)
        assert {name.rpartition(".")[2]: code for name, code in found.items()} == {
            "orders": "RPL-3954",
            "others": "RPL-3957",
        }
        kafka.produce(topics["third"], rows(kind, "third", 2))
        with pytest.raises(ReplicatorError, match="RPL-395"):
            copy.run()
        assert ids(copy, kind, "third") == [1, 2]
        copy.document["onTableError"] = "stop"
        assert list(lost_logs(copy)) == ["source"]


@EACH
def test_without_its_table_and_its_topic_a_pipeline_goes_on_as_the_error_says(
    tmp_path: Path, kafka: KafkaBroker, kind: str, *, distributed: bool
) -> None:
    with topics_of(kafka, "orders", "others") as topics:
        settings: dict[str, Any] = {"distributed": distributed, **FORMATS[kind]}
        copy = MemoryCopy(tmp_path, kafka, topics=list(topics.values()), **settings)
        for table, topic in topics.items():
            kafka.produce(topic, rows(kind, table, 1))
        copy.run()
        kafka.delete_topics(topics["orders"])
        kafka.create_topic(topics["orders"])
        kafka.produce(topics["orders"], rows(kind, "orders", 1, 2))
        with pytest.raises(ReplicatorError, match="RPL-3986"):
            copy.run()
        copy.document["tables"] = [{"table": "others"}]
        copy.source["topics"] = [topics["others"]]
        for number in (2, 3):
            kafka.produce(topics["others"], rows(kind, "others", number))
            copy.run()
            assert ids(copy, kind, "others") == list(range(1, number + 1))
        own = MemoryCopy(tmp_path, kafka, name="own", topics=[topics["orders"]], **settings)
        own.run()
        assert ids(own, kind, "orders") == [1, 2]


@pytest.mark.parametrize(("grows", "distributed"), [(True, False), (False, True)])
def test_a_topic_that_lost_records_which_were_read_stops_its_table_only(
    private_kafka: PrivateKafka, tmp_path: Path, *, grows: bool, distributed: bool
) -> None:
    """Whether it ends before the saved offset, or has other records there."""
    lost_end = LostEnd(private_kafka(), inserts([1]), inserts([2, 3]))
    kafka, topics = lost_end.broker, [lost_end.topic, "others"]
    kafka.create_topic("others")
    kafka.produce("others", inserts([1], orders("others")))
    copy = MemoryCopy(tmp_path, kafka, topics=topics, distributed=distributed)
    copy.run()
    lost_end.lose(inserts(range(10, 20)) if grows else [])
    kafka.produce("others", inserts([2], orders("others")))
    with pytest.raises(ReplicatorError, match="RPL-3986.*RPL-3974" if grows else "RPL-3986.*RPL-3956"):
        copy.run()
    for number in (3, 4, 5):
        kafka.produce("others", inserts([number], orders("others")))
        kafka.produce(lost_end.topic, inserts([number * 100]))
        with pytest.raises(ReplicatorError, match="RPL-2005"):
            copy.run()
        assert (copy.ids("others"), copy.ids("orders")) == (list(range(1, number + 1)), [1, 2, 3])


@BOTH
def test_a_topic_that_may_hold_several_tables_ends_the_run(
    tmp_path: Path, kafka: KafkaBroker, *, distributed: bool
) -> None:
    """A table that no topic is named after may be in any topic."""
    with topics_of(kafka, "orders", "others") as topics:
        copy = MemoryCopy(tmp_path, kafka, topics=list(topics.values()), distributed=distributed)
        for table, topic in topics.items():
            kafka.produce(topic, inserts([1], orders(table)))
        kafka.produce(topics["orders"], inserts([1], orders("routed")))
        copy.run()
        kafka.delete_topics(topics["orders"])
        kafka.create_topic(topics["orders"])
        kafka.produce(topics["others"], inserts([2], orders("others")))
        with pytest.raises(HistoryLostError, match=r"RPL-3955") as caught:
            copy.run()
        assert caught.value.table is None
        assert copy.ids("others") == [1]


@BOTH
def test_records_of_a_debezium_topic_that_retention_deleted_stop_its_table_only(
    tmp_path: Path, kafka: KafkaBroker, *, distributed: bool
) -> None:
    with topics_of(kafka, "orders", "others", "third") as topics:
        copy = MemoryCopy(tmp_path, kafka, topics=list(topics.values()), distributed=distributed)
        for table, topic in topics.items():
            kafka.produce(topic, inserts([1], orders(table)))
        copy.run()
        kafka.produce(topics["orders"], inserts([2, 3], orders("orders")))
        kafka.delete_records(topics["orders"], kafka.ends(topics["orders"]))
        kafka.produce(topics["others"], inserts([2], orders("others")))
        with pytest.raises(ReplicatorError, match=r"RPL-3985.*public\.orders"):
            copy.run()
        for number in (3, 4, 5):
            kafka.produce(topics["orders"], inserts([number + 10], orders("orders")))
            kafka.produce(topics["others"], inserts([number], orders("others")))
            with pytest.raises(ReplicatorError, match="RPL-2005"):
                copy.run()
            assert copy.ids("others") == list(range(1, number + 1))
            assert (copy.ids("orders"), copy.ids("third")) == ([1], [1])
        kafka.produce(topics["orders"], inserts([6], orders("routed")))
        with pytest.raises(HistoryLostError, match="RPL-3988"):  # the first records of this one may be lost
            copy.run()
        assert copy.ids("routed") == []


@BOTH
def test_a_debezium_topic_whose_table_has_the_deleted_records_goes_on_while_another_holds_the_offset(
    tmp_path: Path, kafka: KafkaBroker, *, distributed: bool
) -> None:
    with topics_of(kafka, "orders", "others") as topics:
        copy = MemoryCopy(tmp_path, kafka, topics=list(topics.values()), distributed=distributed)
        for table, topic in topics.items():
            kafka.produce(topic, inserts([1], orders(table)))
        copy.run()
        kafka.produce(topics["orders"], [(inserts([2])[0][0], b"\0garbage")])
        for number in (2, 3, 4):
            kafka.produce(topics["others"], inserts([number], orders("others")))
            with pytest.raises(ReplicatorError, match="RPL-3900"):
                copy.run()
            assert copy.ids("others") == list(range(1, number + 1))
            kafka.delete_records(topics["others"], kafka.ends(topics["others"]))


@BOTH
def test_a_topic_that_is_deleted_during_a_run_does_not_keep_it_from_ending(
    tmp_path: Path, kafka: KafkaBroker, *, distributed: bool
) -> None:
    """The records that the run was to read up to are gone with the topic."""
    with topics_of(kafka, "orders", "others") as topics:
        copy = MemoryCopy(tmp_path, kafka, topics=list(topics.values()), distributed=distributed)
        copy.document["retries"] = {"delaySeconds": 1}
        for table, topic in topics.items():
            kafka.produce(topic, inserts([1], orders(table)))
        copy.run()
        for table, topic in topics.items():
            kafka.produce(topic, inserts([2], orders(table)))
        point = "engine.slice.planned" if distributed else "engine.batch.gathered"
        failed: list[BaseException] = []
        with held_at(point) as reached:
            running = threading.Thread(target=_catch, args=(copy, failed))
            running.start()
            reached.wait()
            kafka.delete_topics(topics["orders"])
            reached.release()
            running.join(120)
        assert not running.is_alive()
        assert copy.ids("others") == [1, 2]
        assert not failed or "RPL-3954" in str(failed[0])


def _catch(copy: MemoryCopy, failed: list[BaseException]) -> None:
    try:
        copy.run()
    except ReplicatorError as error:
        failed.append(error)
