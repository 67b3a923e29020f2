"""Records of one topic that retention deletes before they are read stop the topic's table only, where the topic gives the table."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from replicator_sdk import TableId, failpoint
from replicator_sdk.errors import ReplicatorError
from tests.plugins.sources.kafka.harness.delta_copy import DeltaCopy
from tests.plugins.sources.kafka.harness.memory_copy import MemoryCopy, topics_of
from tests.services.held_point import held_at
from tests.services.kafka.broker import KafkaBroker
from tests.services.kafka.client import Content

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BOTH = pytest.mark.parametrize("distributed", [True, False])
SETTINGS: dict[str, Any] = {"format": "upsert-json", "tableFromTopic": r"[^.]+\.(?P<schema>public)\.(?P<table>.+)"}


def rows(numbers: Iterable[int], note: str = "n") -> list[Content]:
    return [(json.dumps({"id": n}).encode(), json.dumps({"id": n, "note": note}).encode()) for n in numbers]


def ids(copy: MemoryCopy | DeltaCopy, table: str) -> list[int]:
    name = TableId("public", table)
    found = copy.rows(name) if isinstance(copy, MemoryCopy) else copy.lake.rows(name)
    return sorted(row["id"] for row in found)


@BOTH
@pytest.mark.parametrize("into", ["memory", "delta"])
@pytest.mark.parametrize("is_empty", [True, False])
def test_a_topic_that_lost_records_stops_its_table_only_also_after_runs_that_were_cut_off(
    tmp_path: Path, spark: SparkSession, kafka: KafkaBroker, into: str, *, distributed: bool, is_empty: bool
) -> None:
    with topics_of(kafka, "orders", "others") as topics:
        settings: dict[str, Any] = {**SETTINGS, "topics": list(topics.values()), "distributed": distributed}
        copy = (
            DeltaCopy(tmp_path, spark, kafka, **settings)
            if into == "delta"
            else MemoryCopy(tmp_path, kafka, **settings)
        )
        for topic in topics.values():
            kafka.produce(topic, rows([1]))
        copy.run()
        kafka.produce(topics["orders"], rows([2, 3]))
        kafka.delete_records(topics["orders"], kafka.ends(topics["orders"]))
        if not is_empty:
            kafka.produce(topics["orders"], rows([4]))
        kafka.produce(topics["others"], rows([2]))
        failpoint.arm("engine.slice.applied=raise" if distributed else "engine.batch.gathered=raise")
        with pytest.raises(ReplicatorError, match="RPL-9900"):
            copy.run()
        failpoint.arm("")
        for number in (3, 4, 5):
            kafka.produce(topics["others"], rows([number]))
            kafka.produce(topics["orders"], rows([number + 10]))
            with pytest.raises(ReplicatorError, match="RPL-2005"):
                copy.run()
            assert ids(copy, "others") == list(range(1, number + 1))
            assert ids(copy, "orders") == [1], "a table with a gap takes no later changes"


@BOTH
def test_its_error_says_how_the_table_is_replicated_again(
    tmp_path: Path, kafka: KafkaBroker, *, distributed: bool
) -> None:
    with topics_of(kafka, "orders", "others") as topics:
        settings: dict[str, Any] = {**SETTINGS, "topics": list(topics.values()), "distributed": distributed}
        copy = MemoryCopy(tmp_path, kafka, **settings)
        for topic in topics.values():
            kafka.produce(topic, rows([1]))
        copy.run()
        kafka.produce(topics["orders"], rows([2]))
        kafka.delete_records(topics["orders"], kafka.ends(topics["orders"]))
        with pytest.raises(ReplicatorError, match=r"RPL-3985.*public\.orders.*pipeline of its own"):
            copy.run()
        kafka.produce(topics["orders"], rows([1, 2], "snapshot"))
        copy.document["tables"] = [{"table": "others"}]
        kafka.produce(topics["others"], rows([2]))
        copy.run()
        own = MemoryCopy(tmp_path, kafka, name="own", **settings)
        own.document["tables"] = [{"table": "orders"}]
        own.run()
        assert (ids(copy, "others"), ids(own, "orders")) == ([1, 2], [1, 2])


@BOTH
def test_a_table_that_has_the_deleted_records_goes_on_while_another_holds_the_offset(
    tmp_path: Path, kafka: KafkaBroker, *, distributed: bool
) -> None:
    with topics_of(kafka, "orders", "others", "third") as topics:
        copy = MemoryCopy(tmp_path, kafka, **SETTINGS, topics=list(topics.values()), distributed=distributed)
        for topic in topics.values():
            kafka.produce(topic, rows([1]))
        copy.run()
        kafka.produce(topics["orders"], [(rows([2])[0][0], b"\0garbage")])
        for number in (2, 3, 4):
            kafka.produce(topics["others"], rows([number]))
            with pytest.raises(ReplicatorError, match="RPL-39"):
                copy.run()
            assert ids(copy, "others") == list(range(1, number + 1))
            kafka.delete_records(topics["others"], kafka.ends(topics["others"]))
        copy.source["onPoison"] = "quarantine"
        copy.document["tables"] = [{"database": "public", "table": "*"}, {"table": "kafka_quarantine"}]
        kafka.produce(topics["others"], rows([5]))
        kafka.produce(topics["orders"], rows([3]))
        copy.run()
        assert (ids(copy, "others"), ids(copy, "orders")) == ([1, 2, 3, 4, 5], [1, 3])


def test_records_that_are_deleted_while_a_slice_is_read_stop_their_table_only(
    tmp_path: Path, kafka: KafkaBroker
) -> None:
    with topics_of(kafka, "orders", "others") as topics:
        copy = MemoryCopy(tmp_path, kafka, **SETTINGS, topics=list(topics.values()))
        for topic in topics.values():
            kafka.produce(topic, rows([1]))
        copy.run()
        for topic in topics.values():
            kafka.produce(topic, rows([2]))
        with held_at("engine.slice.planned") as planned:
            running = threading.Thread(target=_fails, args=(copy,))
            running.start()
            planned.wait()
            kafka.delete_records(topics["orders"], kafka.ends(topics["orders"]))
            planned.release()
            running.join(120)
        assert (ids(copy, "others"), ids(copy, "orders")) == ([1, 2], [1])
        kafka.produce(topics["others"], rows([3]))
        with pytest.raises(ReplicatorError, match="RPL-2005"):
            copy.run()
        assert ids(copy, "others") == [1, 2, 3]


def _fails(copy: MemoryCopy) -> None:
    with pytest.raises(ReplicatorError, match="RPL-3985"):
        copy.run()
