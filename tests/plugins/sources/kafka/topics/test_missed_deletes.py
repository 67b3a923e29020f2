"""A removal of a row that the broker's cleaner took before it was read is not passed over; a real cleaner takes it.

See `topics.missed_deletes`: `delete.retention.ms` is the time in which a compacted topic must be read.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from replicator_sdk import TableId, failpoint
from replicator_sdk.errors import ReplicatorError
from replicator_sdk.testing.contexts import TestSourceContext
from replicator_source_kafka import KafkaOffset
from replicator_source_kafka.client.cluster import EpochAt
from replicator_source_kafka.client.fetch_request import Fetched
from replicator_source_kafka.topics.missed_deletes import MissedDeletes
from tests.follows import follows
from tests.plugins.sources.kafka.harness.memory_copy import MemoryCopy, topics_of
from tests.services.kafka.broker import KafkaBroker
from tests.services.kafka.client import Content

BOTH = pytest.mark.parametrize("distributed", [True, False])
SETTINGS: dict[str, Any] = {"format": "upsert-json", "tableFromTopic": r"[^.]+\.(?P<schema>public)\.(?P<table>.+)"}
CLEANED = {
    "cleanup_policy": "compact",
    "min_cleanable_dirty_ratio": 0.01,
    "segment_ms": 100,
    "max_compaction_lag_ms": 100,
}
SOON, LATER = 500, 3_600_000
"""Milliseconds for which removals are kept."""


def rows(numbers: Iterable[int], note: str = "n") -> list[Content]:
    return [(json.dumps({"id": n}).encode(), json.dumps({"id": n, "note": note}).encode()) for n in numbers]


def removals(numbers: Iterable[int]) -> list[Content]:
    return [(json.dumps({"id": n}).encode(), None) for n in numbers]


def clean(kafka: KafkaBroker, topic: str, number: int) -> None:
    """Write until no record of a row is left: neither its values nor, where removals are kept for a short time, its removal."""
    key, deadline, note = json.dumps({"id": number}).encode(), time.monotonic() + 120, 0
    while any(record.key == key for record in kafka.records(topic)):
        assert time.monotonic() < deadline, "the topic is not cleaned"
        kafka.produce(topic, rows([9], f"filler {note}"))
        note += 1
        time.sleep(0.5)


def leave_one(kafka: KafkaBroker, topic: str, number: int) -> None:
    """Write until one record of a row is left."""
    key, deadline = json.dumps({"id": number}).encode(), time.monotonic() + 120
    while True:
        kafka.produce(topic, rows([9]))
        if sum(record.key == key for record in kafka.records(topic)) == 1:
            return
        assert time.monotonic() < deadline, "the topic is not cleaned"
        time.sleep(0.5)


def copy_of(folder: Path, kafka: KafkaBroker, topics: dict[str, str], *, distributed: bool, **more: Any) -> MemoryCopy:
    return MemoryCopy(folder, kafka, **SETTINGS, topics=list(topics.values()), distributed=distributed, **more)


def ids(copy: MemoryCopy, table: str) -> list[int]:
    return sorted(row["id"] for row in copy.rows(TableId("public", table)))


@follows("RPL-3990")
@BOTH
def test_a_removal_that_is_gone_unread_stops_its_table_and_a_reset_fills_it_again(
    tmp_path: Path, kafka: KafkaBroker, *, distributed: bool
) -> None:
    with topics_of(kafka, "orders", "others") as topics:
        kafka.alter_topic(topics["orders"], **CLEANED, delete_retention_ms=SOON)
        for topic in topics.values():
            kafka.produce(topic, rows([1, 2, 3]))
        copy = copy_of(tmp_path, kafka, topics, distributed=distributed)
        copy.run()
        kafka.produce(topics["orders"], removals([2]))
        clean(kafka, topics["orders"], 2)
        kafka.produce(topics["others"], [*rows([4]), *removals([1])])
        for code in ("RPL-3990", "RPL-2005"):
            with pytest.raises(ReplicatorError) as refused:
                copy.run()
            assert (refused.value.code, refused.value.table) == (code, "public.orders")
            assert (ids(copy, "others"), ids(copy, "orders")) == ([2, 3, 4], [1, 2, 3])
        kafka.alter_topic(topics["orders"], **CLEANED, delete_retention_ms=LATER)
        copy.reset()
        for number in (5, 6, 7):
            kafka.produce(topics["others"], rows([number]))
            kafka.produce(topics["orders"], [*rows([number]), *removals([number - 1])])
            copy.run()
            assert ids(copy, "orders") == [1, 3, number, 9]
            assert ids(copy, "others") == [2, 3, *range(4, number + 1)]


@BOTH
def test_a_compacted_topic_that_is_read_in_time_is_read(
    tmp_path: Path, kafka: KafkaBroker, *, distributed: bool
) -> None:
    with topics_of(kafka, "orders") as topics:
        kafka.alter_topic(topics["orders"], **CLEANED, delete_retention_ms=LATER)
        kafka.produce(topics["orders"], rows([1, 2, 3]))
        copy = copy_of(tmp_path, kafka, topics, distributed=distributed)
        copy.run()
        kafka.produce(topics["orders"], [*rows([7], "x"), *rows([7], "y"), *removals([2, 7])])
        kafka.produce(topics["orders"], rows([1], "z"))
        leave_one(kafka, topics["orders"], 7)
        for number in (4, 5, 6):
            copy.run()
            assert ids(copy, "orders") == [1, 3, *range(4, number), 9]
            kafka.produce(topics["orders"], rows([number]))


def test_a_topic_whose_records_are_all_there_is_read_however_late(tmp_path: Path, kafka: KafkaBroker) -> None:
    with topics_of(kafka, "orders") as topics:
        kafka.alter_topic(topics["orders"], cleanup_policy="compact", delete_retention_ms=1)
        kafka.produce(topics["orders"], rows([1, 2, 3]))
        copy = copy_of(tmp_path, kafka, topics, distributed=False)
        copy.run()
        kafka.produce(topics["orders"], [*rows([4]), *removals([2])])
        copy.run()
        assert ids(copy, "orders") == [1, 3, 4]


@follows("RPL-3989")
def test_what_may_be_missed_is_passed_with_a_warning_where_that_is_said(
    tmp_path: Path, kafka: KafkaBroker, caplog: pytest.LogCaptureFixture
) -> None:
    with topics_of(kafka, "orders") as topics:
        kafka.alter_topic(topics["orders"], **CLEANED, delete_retention_ms=SOON)
        kafka.produce(topics["orders"], rows([1, 2]))
        copy = copy_of(tmp_path, kafka, topics, distributed=False)
        copy.run()
        kafka.produce(topics["orders"], [*rows([2], "new"), *rows([5])])
        kafka.produce(topics["orders"], rows([2], "newer"))
        leave_one(kafka, topics["orders"], 2)
        with pytest.raises(ReplicatorError, match=r"RPL-3989.*`onMissedDeletes` to warn before it"):
            copy.run()
        copy.source["onMissedDeletes"] = "warn"
        copy.run()
        assert ids(copy, "orders") == [1, 2, 5, 9]
        assert "some may be gone that were not read" in caplog.text
        del copy.source["onMissedDeletes"]
        kafka.alter_topic(topics["orders"], **CLEANED, delete_retention_ms=LATER)
        copy.reset()
        copy.run()
        assert ids(copy, "orders") == [1, 2, 5, 9]


def test_a_first_reading_that_was_cut_off_long_ago_begins_again(tmp_path: Path, kafka: KafkaBroker) -> None:
    """Nothing is at the target yet whose removal could be missed."""
    with topics_of(kafka, "orders") as topics:
        kafka.alter_topic(topics["orders"], **CLEANED, delete_retention_ms=SOON)
        kafka.produce(topics["orders"], [*rows([1, 2]), *rows([2], "new")])
        copy = copy_of(tmp_path, kafka, topics, distributed=False)
        failpoint.arm("engine.batch.gathered=raise")
        with pytest.raises(ReplicatorError, match="RPL-9900"):
            copy.run()
        failpoint.arm("")
        leave_one(kafka, topics["orders"], 2)
        copy.run()
        assert ids(copy, "orders") == [1, 2, 9]


class Ends:
    """Where a compacted topic ends; of the others nothing is asked."""

    end = 5

    def topic_settings(self, names: list[str], *_: object, **__: object) -> dict[str, dict[str, str]]:
        kept = {name: "1000" if len(name) == 1 else "86400000" for name in names}
        return {name: {"cleanup.policy": "compact", "delete.retention.ms": kept[name]} for name in names}

    def ends(self, partitions: Iterable[tuple[str, int]]) -> dict[tuple[str, int], EpochAt]:
        return {tp: EpochAt(self.end, 0) for tp in partitions}

    def fetch(self, begin: dict[tuple[str, int], int]) -> list[Fetched]:
        return [Fetched(tp, at, b"", (), self.end) for tp, at in begin.items()]


def test_a_topic_that_was_not_read_for_long_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """As one that the settings left out for a while."""
    now = 1_000_000.0
    monkeypatch.setattr(time, "time", lambda: now)
    offset = KafkaOffset({"a": "", "b": ""}, {("a", 0): 3, ("b", 0): 3})
    context = TestSourceContext()
    context.committed = offset
    cluster: Any = Ends()
    assert MissedDeletes(cluster, context).of(offset, ["a", "b"]) == {}
    for _ in range(10):
        now += 3600
        MissedDeletes(cluster, context).remember(["b"])
    found = MissedDeletes(cluster, context).of(offset, ["a"])
    assert "10 h ago" in found["a"].message


def test_what_is_remembered_is_little_however_long_a_run_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of a topic that keeps removals for a day, beside one that keeps them for a second."""
    now = 1_000_000.0
    monkeypatch.setattr(time, "time", lambda: now)
    monkeypatch.setattr(time, "monotonic", lambda: now)
    offset = KafkaOffset({"a": "", "day": ""}, {("a", 0): 5, ("day", 0): 5})
    context = TestSourceContext()
    context.committed = offset
    cluster: Any = Ends()
    missed = MissedDeletes(cluster, context)
    sizes = []
    for _ in range(3 * 1440):
        now += 60
        assert missed.remember(["a", "day"]) == {}
        sizes.append(len(context.state["ends"]))
    assert max(sizes) < 22 * 80
    found = json.loads(context.state["ends"])
    assert 20 <= sum("day" in one["topics"] for one in found) <= 22
    assert sum("a" in one["topics"] for one in found) <= 2
