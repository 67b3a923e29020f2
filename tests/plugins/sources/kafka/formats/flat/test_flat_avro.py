"""`flattened-avro` and `upsert-avro`; records are written by fastavro."""

from __future__ import annotations

import datetime as dt
import io
import json
import pickle
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest

from replicator_sdk.schema import TableId
from replicator_source_kafka.config import KafkaConfig
from replicator_source_kafka.formats import Decoded, Format, make_format
from tests.plugins.sources.kafka.formats.connect import records
from tests.plugins.sources.kafka.formats.decoded import said
from tests.plugins.sources.kafka.formats.schema_registry.small_registry import registry_that_answers

fastavro = pytest.importorskip("fastavro")

AMOUNT = {
    "type": "bytes",
    "scale": 2,
    "precision": 8,
    "connect.parameters": {"scale": "2", "connect.decimal.precision": "8"},
    "connect.name": "org.apache.kafka.connect.data.Decimal",
    "logicalType": "decimal",
}


def record(name: str, **fields: Any) -> dict[str, Any]:
    """A schema."""
    return {"type": "record", "name": name, "fields": [{"name": n, "type": kind} for n, kind in fields.items()]}


DAY = ["null", {"type": "int", "connect.name": "io.debezium.time.Date"}]
SCHEMAS = {
    1: record("Key", id="int", amount=AMOUNT),
    2: record(
        "Value", id="int", amount=AMOUNT, day=DAY, raw=["null", "bytes"], __deleted="string", __source_ts_ms="long"
    ),
    3: record("Row", x="string", to=["null", "string"]),
    4: record("Empty"),
    5: "string",
}
ADDED = {"__deleted": "false", "__source_ts_ms": 5}
ONE = {"id": 1, "amount": Decimal("-1.50")}
TWO = {"id": 2, "amount": Decimal("2.00")}


@pytest.fixture(scope="module")
def registry() -> Iterator[str]:
    """The address of a registry."""
    with registry_that_answers(
        {f"/schemas/ids/{i}": (200, {"schema": json.dumps(schema)}) for i, schema in SCHEMAS.items()}
    ) as address:
        yield address


def datum(identity: int, value: Any) -> bytes:
    """A key or value as a converter writes it."""
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(SCHEMAS[identity]), value)
    return b"\0" + identity.to_bytes(4, "big") + out.getvalue()


def decode(url: str, form: str, *pairs: tuple[bytes | None, bytes | None], **settings: Any) -> Decoded:
    """The decoded records."""
    given = {"bootstrapServers": "127.0.0.1:1", "topics": ["t"], "format": form, "schemaRegistryUrl": url, **settings}
    decoder: Format = pickle.loads(pickle.dumps(make_format(KafkaConfig.model_validate(given))))
    return decoder.decode(records(*pairs))


def test_extracted_rows_have_types_marks_and_times_and_tombstones_delete_by_their_key(registry: str) -> None:
    decoded = decode(
        registry,
        "flattened-avro",
        (datum(1, ONE), datum(2, ONE | {"day": 1, "raw": b"\0\xff"} | ADDED)),
        (datum(1, TWO), datum(2, TWO | {"day": None, "raw": None} | ADDED | {"__deleted": "true"})),
        (datum(1, ONE), None),
    )
    assert not decoded.poison
    assert said(decoded) == [
        (0, 2, ONE | {"day": dt.date(1970, 1, 2), "raw": b"\0\xff"}),
        (1, 3, TWO | {"day": None, "raw": None}),
        (2, 3, ONE),
    ]
    assert {part.table for part in decoded.parts} == {TableId("public", "orders")}
    assert {part.schema.primary_key for part in decoded.parts} == {("id", "amount")}
    assert {str(part.schema["amount"].type) for part in decoded.parts} == {"decimal(8,2)"}
    assert {int(t) for part in decoded.parts if len(part) == 2 for t in part.timestamps} == {5000}


def test_columns_in_the_key_only_are_columns_also_in_json_keys(registry: str) -> None:
    value = datum(3, {"x": "a", "to": None})
    decoded = decode(registry, "upsert-avro", (datum(1, ONE), value), (b'{"n":7}', value))
    assert [row for *_, row in said(decoded)] == [{"x": "a", "to": None} | ONE, {"x": "a", "to": None, "n": 7}]


def test_a_field_names_the_table_of_each_record(registry: str) -> None:
    pairs = [(datum(1, ONE), datum(3, {"x": "a", "to": to})) for to in ("shop.orders", None)]
    decoded = decode(registry, "upsert-avro", *pairs, (datum(1, ONE), None), tableField="to")
    assert [part.table for part in decoded.parts] == [TableId("shop", "orders")]
    assert [(p.index, p.code) for p in decoded.poison] == [(1, "RPL-3912"), (2, "RPL-3909")]


@pytest.mark.parametrize(
    ("pair", "code"),
    [
        ((None, datum(3, {"x": "a", "to": None})), "RPL-3907"),
        ((datum(5, "a"), datum(3, {"x": "a", "to": None})), "RPL-3916"),
        ((datum(1, ONE), datum(4, {})), "RPL-3915"),
        ((datum(1, ONE), datum(5, "a")), "RPL-3915"),
        ((datum(1, ONE), b"{}"), "RPL-3930"),
        ((datum(1, ONE), datum(3, {"x": "a", "to": None})[:-1]), "RPL-3900"),
        ((datum(1, ONE)[:-1], None), "RPL-3916"),
    ],
)
def test_a_corrupt_record_is_poison_and_other_records_are_read(
    registry: str, pair: tuple[bytes | None, bytes | None], code: str
) -> None:
    good = [(datum(1, ONE | {"id": i}), datum(3, {"x": str(i), "to": None})) for i in range(10)]
    decoded = decode(registry, "upsert-avro", *good[:4], pair, *good[4:])
    assert [(p.index, p.code) for p in decoded.poison] == [(4, code)]
    assert [row["x"] for *_, row in said(decoded)] == [str(i) for i in range(10)]
