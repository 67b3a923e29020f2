"""A real registry (Apicurio's), and records of a database from Kafka Connect with Apicurio's AvroConverter."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import pytest

from replicator_source_kafka.client.cluster import Cluster
from replicator_source_kafka.client.fetch import sample_records
from replicator_source_kafka.config import KafkaConfig
from replicator_source_kafka.formats import Part, make_format
from replicator_source_kafka.formats.schema_registry.protobuf_source import ProtobufFile
from replicator_source_kafka.formats.schema_registry.registry_client import SchemaId, SchemaRegistry, UnknownSchema
from tests.plugins.sources.kafka.formats.connect import records
from tests.plugins.sources.kafka.formats.connect_protobuf import envelope, framed, message, scaled
from tests.services.connect.debezium import postgres_connector
from tests.services.kafka.broker import KafkaBroker
from tests.services.kafka.fixtures import PrivateConnect
from tests.services.postgres.server import PostgresDatabase
from tests.services.schema_registry.apicurio import AVRO, ApicurioRegistry, converters

TABLE = """
CREATE TABLE item (
  id bigint PRIMARY KEY, small smallint, amount numeric(12, 2), free numeric, day date, at timestamp, seen timestamptz,
  clock time, text text, raw bytea, doc jsonb, tags text[], flag boolean, span double precision, real real, code uuid
)"""
INSERT = """
INSERT INTO item VALUES (
  9007199254740993, -3, -12.50, 123456789012345678901234567890.5, '0001-01-01', '2024-02-29 12:34:56.789123',
  '2024-02-29 12:34:56.789123+02', '23:59:59.999999', 'naïve 東京', '\\x00ff', '{"a": 1}', '{a,NULL,""}', false, 5e-324, 0.5,
  '6f9619ff-8b86-d011-b42d-00c04fc964ff'
)"""
AT = dt.datetime(2024, 2, 29, 12, 34, 56, 789123)
ROW = {
    "id": 9007199254740993,
    "small": -3,
    "amount": Decimal("-12.50"),
    "free": "123456789012345678901234567890.5",
    "day": dt.date.min,
    "at": AT,
    "seen": (AT - dt.timedelta(hours=2)).replace(tzinfo=dt.UTC),
    "clock": dt.time.max,
    "text": "naïve 東京",
    "raw": b"\0\xff",
    "doc": '{"a": 1}',
    "tags": ["a", None, ""],
    "flag": False,
    "span": 5e-324,
    "real": 0.5,
    "code": "6f9619ff-8b86-d011-b42d-00c04fc964ff",
}
FLATTENED = {
    "transforms": "unwrap",
    "transforms.unwrap.type": "io.debezium.transforms.ExtractNewRecordState",
    "transforms.unwrap.delete.tombstone.handling.mode": "rewrite-with-tombstone",
}
LAYOUTS: Mapping[str, tuple[str, Mapping[str, object], Mapping[str, str]]] = {
    "eight": ("registry/v2", {}, {}),
    "headers": ("ccompat/v7", {"headers.enabled": True}, {}),
    "contents": ("ccompat/v7", {"headers.enabled": True, "use-id": "contentId"}, {}),
    "four": ("registry/v3", {"as-confluent": True, "use-id": "contentId"}, FLATTENED),
}
"""How a converter writes: the interface that our settings name, the converter's settings, and transforms."""


def test_every_layout_of_ids_is_read_and_values_are_exact(
    kafka: KafkaBroker,
    private_connect: PrivateConnect,
    postgres_database: PostgresDatabase,
    schema_registry: ApicurioRegistry,
) -> None:
    postgres_database.execute(TABLE)
    postgres_database.execute(INSERT)
    worker = private_connect(kafka, plugin_path=str(converters()))
    for name, (_, layout, transforms) in LAYOUTS.items():
        prefix = f"{postgres_database.name}-{name}"
        settings = postgres_connector(postgres_database, prefix, [r"public\.item"])
        worker.create(name, {**settings, **_avro(schema_registry, layout), **transforms})
    for name in LAYOUTS:
        _records(kafka, f"{postgres_database.name}-{name}.public.item", 1)
    postgres_database.execute("UPDATE item SET small = 4, text = NULL")
    postgres_database.execute("DELETE FROM item")
    changed = ROW | {"small": 4, "text": None}
    for name, (interface, _, transforms) in LAYOUTS.items():
        topic = f"{postgres_database.name}-{name}.public.item"
        _records(kafka, topic, 4)
        form = "flattened-avro" if transforms else "debezium-avro"
        parts = _read(kafka, topic, form, schema_registry.url(interface))
        changes = [(int(i), op, row) for part in parts for i, op, row in _changes(part)]
        assert [row for _, op, row in sorted(changes, key=lambda c: c[0]) if op != 3] == [ROW, changed], name
        assert {row["id"] for _, op, row in changes if op == 3} == {ROW["id"]}, name
        assert {part.schema.primary_key for part in parts} == {("id",)}
        assert {str(part.schema["amount"].type) for part in parts if "amount" in part.schema} == {"decimal(12,2)"}
    for name in LAYOUTS:
        worker.delete(name)


def _changes(part: Part) -> list[tuple[int, int, Any]]:
    before = [None] * len(part) if part.before is None else part.before.to_pylist()
    rows = zip(part.index.tolist(), part.op.to_pylist(), part.row.to_pylist(), before, strict=True)
    return [(index, op, old if op == 3 else row) for index, op, row, old in rows]


def _avro(registry: ApicurioRegistry, layout: Mapping[str, object]) -> dict[str, object]:
    """Settings of a connector that writes Avro."""
    own = {"url": registry.url("registry/v2"), "auto-register": True, **layout}
    found: dict[str, object] = {}
    for part in ("key", "value"):
        found[f"{part}.converter"] = AVRO
        found |= {f"{part}.converter.apicurio.registry.{name}": value for name, value in own.items()}
    return found


def _records(kafka: KafkaBroker, topic: str, count: int) -> None:
    """Wait until a topic has so many records."""
    deadline = time.monotonic() + 120
    while topic not in kafka.topics() or sum(kafka.ends(topic).values()) < count:
        assert time.monotonic() < deadline, topic
        time.sleep(0.1)


def _read(kafka: KafkaBroker, topic: str, form: str, url: str) -> list[Part]:
    """All changes of a topic, as the source decodes them."""
    given = {"bootstrapServers": kafka.bootstrap, "topics": [topic], "format": form, "schemaRegistryUrl": url}
    config = KafkaConfig.model_validate(given)
    decoder = make_format(config)
    parts: list[Part] = []
    with Cluster(config) as cluster:
        for partition in kafka.ends(topic):
            decoded = decoder.decode(sample_records(cluster, (topic, partition), 0, max_bytes=1 << 20))
            assert list(decoded.poison) == []
            parts.extend(decoded.parts)
    return parts


COMMON = 'syntax = "proto3"; package shop; import "shop/unit.proto"; message Amount { int64 cents = 1; Unit unit = 2; }'
UNIT = 'syntax = "proto3"; package shop; message Unit { string name = 1; }'
ORDER = 'syntax = "proto3"; package shop; import "shop/amount.proto"; message Order { int64 id = 1; Amount total = 2; }'


@pytest.mark.parametrize("interface", ["ccompat/v7", "registry/v2", "registry/v3"])
def test_schemas_are_read_with_their_references(schema_registry: ApicurioRegistry, interface: str) -> None:
    schema_registry.register("unit", UNIT, "PROTOBUF")
    schema_registry.register(
        "amount", COMMON, "PROTOBUF", [{"name": "shop/unit.proto", "subject": "unit", "version": 1}]
    )
    identity = schema_registry.register(
        "order", ORDER, "PROTOBUF", [{"name": "shop/amount.proto", "subject": "amount", "version": 1}]
    )
    found = SchemaRegistry(schema_registry.url(interface)).schema(SchemaId("id", str(identity)))
    assert found.text == ORDER
    ((name, amount),) = found.references
    assert (name, amount.text) == ("shop/amount.proto", COMMON)
    assert [(name, unit.text) for name, unit in amount.references] == [("shop/unit.proto", UNIT)]
    assert ProtobufFile(found).message((0,)).full_name == "shop.Order"
    with pytest.raises(UnknownSchema):
        SchemaRegistry(schema_registry.url(interface)).schema(SchemaId("id", "999999"))


@pytest.mark.parametrize("interface", ["ccompat/v7", "registry/v3"])
def test_protobuf_is_read_by_the_schema_as_the_registry_gives_it(
    schema_registry: ApicurioRegistry, interface: str
) -> None:
    schema = envelope(f"int64 id = 1; optional confluent.type.Decimal amount = 2 {scaled(2, 12)};")
    identity = schema_registry.register("orders-value", schema, "PROTOBUF")
    row = {"id": 1, "amount": {"value": b"\x01\x00", "scale": 2}}
    source = {"connector": "postgresql", "db": "shop", "schema": "public", "table": "orders"}
    value = message(schema, "Envelope", {"after": row, "source": source, "op": "c"})
    given = {"bootstrapServers": "127.0.0.1:1", "topics": ["t"], "format": "debezium-protobuf"}
    config = KafkaConfig.model_validate({**given, "schemaRegistryUrl": schema_registry.url(interface)})
    decoded = make_format(config).decode(records((b'{"id":1}', framed(identity, value))))
    (part,) = decoded.parts
    assert part.row.to_pylist() == [{"id": 1, "amount": Decimal("2.56")}]
