"""Records without a value in topics of envelopes, which compaction keeps of deletes."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from replicator_sdk.datatype import FLOAT64, INT64, STRING
from replicator_sdk.schema import Column, TableId, TableSchema
from replicator_source_kafka.config import KafkaConfig
from replicator_source_kafka.formats import make_format
from replicator_source_kafka.formats.format import Poison
from replicator_source_kafka.tables.topic_tables import TopicTables
from tests.plugins.sources.kafka.formats.connect import Field, Table, records
from tests.plugins.sources.kafka.harness.delta_copy import DeltaCopy
from tests.plugins.sources.kafka.harness.source_runs import Pump, deletes, inserts
from tests.services.kafka.broker import KafkaBroker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ORDERS = TableId("shop", "orders", "public")


def decoder() -> Any:
    return make_format(KafkaConfig(bootstrap_servers="127.0.0.1:1", topics=("t",)))


def key(table: Table, row: dict[str, Any]) -> bytes:
    found = table.change("d", row, None)[0]
    assert found is not None
    return found


def test_a_tombstone_after_its_delete_is_skipped_and_any_other_deletes_by_key() -> None:
    table = Table((Field("id", "int64", optional=False), Field("text", "string")))
    one, two = {"id": 1, "text": "a"}, {"id": 2, "text": "b"}
    block = records(
        (key(table, two), None),
        table.change("d", one, None),
        (key(table, one), None),
        (key(table, two), None),
        table.change("c", None, two),
        (key(table, two), None),
        (None, None),
    )
    format_ = decoder()
    decoded = format_.decode(block)
    assert decoded.tombstones.tolist() == [0, 3, 5]
    assert decoded.poison == []
    (found,) = format_.deletes(block, decoded.tombstones, decoded.parts[0].schema, [])
    assert found.is_of_keys
    assert found.op.to_pylist() == [3, 3, 3]
    assert found.before.to_pylist() == [{"id": 2}] * 3
    assert set(found.timestamps.tolist()) == {1_700_000_000_500_000}


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (b'{"id":7}', INT64),
        (b'{"id":7}', FLOAT64),
        (b'{"id":"7"}', STRING),
    ],
)
def test_keys_without_a_schema_are_of_the_tables_types(text: bytes, kind: Any) -> None:
    known = TableSchema(ORDERS, (Column("id", kind), Column("text", STRING)), ("id",))
    poison: list[Poison] = []
    block = records((text, None))
    (found,) = decoder().deletes(block, decoder().decode(block).tombstones, known, poison)
    assert found.before.to_pylist()[0]["id"] in (7, "7")
    assert poison == []


@pytest.mark.parametrize("text", [b'{"id":"x"}', b'{"other":1}', b'{"id":1,"part":2}', b"7", b"text"])
def test_a_key_that_is_not_the_tables_is_poison(text: bytes) -> None:
    known = TableSchema(ORDERS, (Column("id", INT64), Column("text", STRING)), ("id",))
    poison: list[Poison] = []
    block = records((text, None))
    assert decoder().deletes(block, decoder().decode(block).tombstones, known, poison) == []
    assert [p.code for p in poison] in (["RPL-3917"], ["RPL-3916"])


def test_a_topics_table_is_found_by_its_records_or_by_a_unique_name() -> None:
    mine, others = ORDERS, TableId("other", "orders", "public")
    tables = TopicTables()
    assert tables.table_of("a.public.orders", [], [mine], ["a.public.orders"]) == mine
    assert tables.table_of("a.public.orders", [], [mine], ["a.public.orders", "b.public.orders"]) is None
    assert tables.table_of("a.public.orders", [], [mine, others], ["a.public.orders"]) is None
    assert tables.table_of("all", [mine], [mine], ["all"]) is None, "it may hold other tables, too"
    assert tables.table_of("a.public.orders", [others], [mine], ["a.public.orders", "b.public.orders"]) == others
    assert tables.table_of("a.public.orders", [], [mine], ["a.public.orders", "b.public.orders"]) == others
    assert tables.table_of("orders", [], [mine], ["orders"]) == mine


def test_a_reader_emits_a_delete_for_a_tombstone_that_compaction_kept(kafka: KafkaBroker) -> None:
    """Also in a window without any other record; a replay gives the same."""
    topic = kafka.create_topic(f"cdc{time.monotonic_ns()}.public.orders", 1)
    kafka.produce(topic, inserts([1, 2]))
    pump = Pump(kafka, [topic])
    pump.ids(pump.read())
    kafka.produce(topic, [content for content in deletes([1]) if content[1] is None])
    place = pump.offset
    assert pump.ids(pump.read()) == [("D", 1)]
    pump.offset = place
    assert pump.ids(pump.read()) == [("D", 1)]
    kafka.produce(topic, [*deletes([2]), *inserts([2])])
    assert pump.ids(pump.read()) == [("D", 2), ("I", 2)]
    kafka.delete_topics(topic)


def test_a_compacted_topic_deletes_in_delta_what_its_source_deleted(
    tmp_path: Path, spark: SparkSession, kafka: KafkaBroker
) -> None:
    topic = kafka.create_topic(
        f"cdc{time.monotonic_ns()}.public.orders",
        1,
        cleanup_policy="compact",
        segment_ms=100,
        min_cleanable_dirty_ratio=0.01,
    )
    copy = DeltaCopy(tmp_path, spark, kafka, topics=[topic])
    kafka.produce(topic, inserts(range(6)))
    copy.run()
    kafka.produce(topic, [*deletes(range(4)), *inserts([3], note="again")])
    gone = (content[0] for content in deletes([0, 1, 2]) if content[1] is not None)
    wanted = set(gone)
    deadline = time.monotonic() + 90
    while any(r.value is not None and r.key in wanted for r in kafka.records(topic)):
        assert time.monotonic() < deadline, "the broker has not compacted the topic"
        kafka.produce(topic, inserts([5]))
        time.sleep(0.2)
    assert {r.key for r in kafka.records(topic) if r.value is None} == wanted
    copy.run()
    assert copy.notes() == [(3, "again"), (4, "n4"), (5, "n5")]
    kafka.delete_topics(topic)
