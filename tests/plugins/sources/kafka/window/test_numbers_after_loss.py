"""The numbers of a window's events do not change when records of it are deleted before it is read again.

A table's position may be inside a window: after a TRUNCATE or a change of its columns. Records of any topic that retention or
compaction removes until the window is read again must not move what comes after it below that position.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from operator import itemgetter
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

from replicator_sdk import TableId, failpoint
from replicator_sdk.datatype import INT64
from replicator_sdk.errors import ReplicatorError
from replicator_sdk.schema import Column
from tests.crash.kills import killed
from tests.end_to_end.replicator import Replicator
from tests.plugins.sources.kafka.harness.memory_copy import MemoryCopy, topics_of
from tests.plugins.sources.kafka.harness.source_runs import inserts, orders
from tests.services.kafka.broker import KafkaBroker
from tests.services.kafka.client import Content

SETTINGS: dict[str, Any] = {
    "format": "flattened-json",
    "tableFromTopic": r"[^.]+\.(?P<schema>public)\.(?P<table>.+)",
    "distributed": False,
    "metadataIntervalSeconds": 0.1,
    "kafka": {"fetch.max.wait.ms": 500, "fetch.min.bytes": 1},
}
TABLE = TableId("public", "b")
TRUNCATE = (json.dumps({"id": 0}).encode(), json.dumps({"id": 0, "__op": "t"}).encode())


def rows(numbers: Iterable[int], **more: Any) -> list[Content]:
    return [(json.dumps({"id": n}).encode(), json.dumps({"id": n, "note": "n", **more}).encode()) for n in numbers]


def write(kafka: KafkaBroker, topics: dict[str, str], change: str) -> list[int]:
    """Records of `a`, which sorts first and is not selected, and a change of `b` between its rows; the ids `b` has then."""
    for note in ("n", "m", "o"):
        kafka.produce(topics["a"], rows([1], note=note))
    if change == "truncate":
        kafka.produce(topics["b"], [*rows([2, 3]), TRUNCATE, *rows([4, 5, 6, 7])])
        return [4, 5, 6, 7]
    kafka.produce(topics["b"], rows([2, 3, 4], more=1))
    return [1, 2, 3, 4]


def lose(kafka: KafkaBroker, topic: str, loss: str) -> None:
    """Have the topic lose the records that the window has."""
    if loss == "retention":
        kafka.delete_records(topic, kafka.ends(topic))
    else:
        compact(kafka, topic, rows([9]), left=1)


def compact(kafka: KafkaBroker, topic: str, last: list[Content], *, left: int) -> None:
    """Have the topic keep the last record of each key only: `left` of those that it has, and `last`."""
    settings = {"min_cleanable_dirty_ratio": 0.01, "segment_ms": 100, "max_compaction_lag_ms": 100}
    end = kafka.ends(topic)[0]
    kafka.alter_topic(topic, cleanup_policy="compact", **settings)
    deadline = time.monotonic() + 60
    while sum(record.offset < end for record in kafka.records(topic)) > left:
        assert time.monotonic() < deadline, "the topic is not compacted"
        kafka.produce(topic, last)  # begins a segment, so that the one before can be compacted
        time.sleep(1)


def end_after_change(copy: MemoryCopy) -> None:
    """A run that ends when the first change of structure is durable."""
    failpoint.arm("engine.ddl.after_apply=raise")
    try:
        with pytest.raises(ReplicatorError, match="RPL-9900"):
            copy.run()
    finally:
        failpoint.arm("")


@pytest.mark.parametrize(
    ("change", "loss"), [("truncate", "retention"), ("truncate", "compaction"), ("alter", "retention")]
)
def test_rows_after_a_change_of_their_table_are_kept_when_another_topic_loses_records_of_the_window(
    tmp_path: Path, kafka: KafkaBroker, change: str, loss: str
) -> None:
    with topics_of(kafka, "a", "b") as topics:
        copy = MemoryCopy(tmp_path, kafka, **SETTINGS, topics=list(topics.values()))
        copy.document["tables"] = [{"table": "b"}]
        kafka.produce(topics["b"], rows([1]))
        copy.run()
        expected = write(kafka, topics, change)
        end_after_change(copy)
        lose(kafka, topics["a"], loss)
        for _ in range(3):
            copy.run()
            assert sorted(row["id"] for row in copy.rows(TABLE)) == expected


def test_changes_of_structure_are_repeated_when_the_records_that_announced_them_are_compacted(
    tmp_path: Path, kafka: KafkaBroker
) -> None:
    x, y = Column("x", INT64), Column("y", INT64)
    with topics_of(kafka, "b") as topics:
        copy = MemoryCopy(tmp_path, kafka, topics=list(topics.values()), distributed=False)
        kafka.produce(topics["b"], inserts([1], orders("b")))
        copy.run()
        kafka.produce(topics["b"], inserts([2], orders("b", x), x=1))
        kafka.produce(topics["b"], inserts([2, 3], orders("b", x, y), x=1, y=2))
        end_after_change(copy)
        compact(kafka, topics["b"], inserts([9], orders("b", x, y), x=1, y=2), left=3)
        for _ in range(3):
            copy.run()
            found = sorted(copy.rows(orders("b").table), key=itemgetter("id"))
            assert [(row["id"], row.get("x"), row.get("y")) for row in found] == [
                (1, None, None), *((number, 1, 2) for number in (2, 3, 9))
            ]  # fmt: skip


@pytest.mark.timeout(300)
def test_rows_after_a_truncate_are_kept_in_delta_after_a_kill_and_a_loss(tmp_path: Path, kafka: KafkaBroker) -> None:
    with topics_of(kafka, "a", "b") as topics:
        source = {"bootstrapServers": kafka.bootstrap, **SETTINGS, "topics": list(topics.values())}
        replicator = Replicator(tmp_path, ("kafka", source), settings={"tables": [{"table": "b"}]})
        kafka.produce(topics["b"], rows([1]))
        replicator.until_current()
        expected = write(kafka, topics, "truncate")
        point = "engine.ddl.after_apply"
        killed(replicator.start("--until-current", REPLICATOR_FAILPOINTS=f"{point}=kill"), point)
        lose(kafka, topics["a"], "retention")
        for number in (8, 9, 10):
            replicator.until_current()
            found = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(str(replicator.lake / "public" / "b")))
            ids = pa.table(found.execute("select id from t").read_all())["id"].to_pylist()
            assert sorted(ids) == expected
            kafka.produce(topics["b"], rows([number]))
            expected.append(number)
