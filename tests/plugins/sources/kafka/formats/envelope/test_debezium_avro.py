"""`debezium-avro`, with a small registry; records are written by fastavro."""

from __future__ import annotations

import datetime as dt
import io
import json
import pickle
import threading
from collections.abc import Iterator
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from replicator_sdk.errors import NeedsUserError, RetryableError
from replicator_sdk.schema import TableId
from replicator_source_kafka.config import KafkaConfig
from replicator_source_kafka.formats import Decoded, Format, make_format
from replicator_source_kafka.formats.format import Poison
from tests.plugins.sources.kafka.formats.connect import PLACEHOLDER, records

fastavro = pytest.importorskip("fastavro")

ROW = {
    "type": "record",
    "name": "Value",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "small", "type": {"type": "int", "connect.type": "int16"}},
        {
            "name": "amount",
            "type": [
                "null",
                {
                    "type": "bytes",
                    "scale": 2,
                    "precision": 12,
                    "connect.parameters": {"scale": "2", "connect.decimal.precision": "12"},
                    "connect.name": "org.apache.kafka.connect.data.Decimal",
                    "logicalType": "decimal",
                },
            ],
        },
        {"name": "day", "type": ["null", {"type": "int", "connect.name": "io.debezium.time.Date"}]},
        {"name": "at", "type": ["null", {"type": "long", "logicalType": "timestamp-micros"}]},
        {"name": "text", "type": ["null", "string"]},
        {"name": "raw", "type": ["null", "bytes"]},
        {"name": "tags", "type": ["null", {"type": "array", "items": ["null", "string"]}]},
    ],
}
MAPS = {
    **ROW,
    "fields": [ROW["fields"][0], {"name": "map", "type": {"type": "map", "values": "string"}}, ROW["fields"][6]],
}
SOURCE = {
    "type": "record",
    "name": "Source",
    "namespace": "io.debezium.connector.postgresql",
    "fields": [{"name": n, "type": "string"} for n in ("db", "schema", "table")] + [{"name": "ts_ms", "type": "long"}],
    "connect.name": "io.debezium.connector.postgresql.Source",
}


def envelope(row: dict[str, Any]) -> dict[str, Any]:
    """An envelope's schema."""
    fields = [
        {"name": "before", "type": ["null", row], "default": None},
        {"name": "after", "type": ["null", "Value"], "default": None},
        {"name": "source", "type": SOURCE},
        {"name": "op", "type": "string"},
    ]
    return {"type": "record", "name": "Envelope", "namespace": "s.t", "fields": fields, "connect.name": "s.t.Envelope"}


KEY = {"type": "record", "name": "Key", "namespace": "s.t", "fields": [{"name": "id", "type": "long"}]}
SCHEMAS = {1: envelope(ROW), 2: KEY, 3: envelope(MAPS), 4: {"type": "record", "name": "Odd", "fields": []}}
ANSWERS: dict[str, tuple[int, Any]] = {
    **{f"/schemas/ids/{i}": (200, {"schema": json.dumps(s)}) for i, s in SCHEMAS.items()},
    "/schemas/ids/77": (404, {"error_code": 40403}),
    "/schemas/ids/50": (500, {}),
    "/schemas/ids/41": (401, {}),
    "/schemas/ids/60": (200, {"schema": "syntax = …", "schemaType": "PROTOBUF"}),
}


class _Registry(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        status, answer = ANSWERS[self.path]
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(answer).encode())

    def log_message(self, *_: Any) -> None:
        """Log nothing."""


@pytest.fixture(scope="module")
def registry() -> Iterator[str]:
    """The address of a registry."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Registry)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


def avro(url: str) -> Format:
    """The format."""
    given = {"bootstrapServers": "127.0.0.1:1", "topics": ["t"], "format": "debezium-avro", "schemaRegistryUrl": url}
    travelled: Format = pickle.loads(pickle.dumps(make_format(KafkaConfig.model_validate(given))))
    return travelled


def datum(identity: int, value: Any, width: int = 4) -> bytes:
    """A record as a converter writes it."""
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(SCHEMAS[identity]), value)
    return b"\0" + identity.to_bytes(width, "big") + out.getvalue()


def change(op: str, before: Any, after: Any, width: int = 4, schema: int = 1) -> tuple[bytes, bytes]:
    """A record's key and value."""
    source = {"db": "shop", "schema": "public", "table": "orders", "ts_ms": 7}
    value = {"before": before, "after": after, "source": source, "op": op}
    return datum(2, {"id": (after or before or {"id": 9})["id"]}, width), datum(schema, value, width)


FULL = {
    "id": 2**62,
    "small": -3,
    "amount": Decimal("-12.50"),
    "day": 1,
    "at": dt.datetime(2024, 2, 3, 4, 5, 6, 7, tzinfo=dt.UTC),
    "text": "a",
    "raw": b"\0\xff",
    "tags": ["b", None],
}
NONE = dict.fromkeys(FULL) | {"id": 1, "small": 0}


def rows(decoded: Decoded) -> list[Any]:
    """The rows of the only part."""
    (part,) = decoded.parts
    return list(part.row.to_pylist())


@pytest.mark.parametrize("width", [4, 8])
def test_values_are_exact_in_both_layouts(registry: str, width: int) -> None:
    decoded = avro(registry).decode(
        records(change("c", None, FULL, width), change("u", None, NONE, width), change("d", NONE, None, width))
    )
    assert not decoded.poison
    (part,) = decoded.parts
    assert part.table == TableId("shop", "orders", "public")
    assert part.schema.primary_key == ("id",)
    assert [str(c.type) for c in part.schema.columns[:3]] == ["int64", "int16", "decimal(12,2)"]
    assert [c.nullable for c in part.schema.columns[:3]] == [False, False, True]
    wanted = FULL | {"day": dt.date(1970, 1, 2), "at": dt.datetime(2024, 2, 3, 4, 5, 6, 7)}
    assert rows(decoded)[:2] == [wanted, NONE]
    assert part.before is not None
    assert part.before.to_pylist()[2]["id"] == 1
    assert part.timestamps.tolist() == [7000] * 3


def test_a_delete_without_a_row_before_takes_the_key(registry: str) -> None:
    decoded = avro(registry).decode(records(change("d", None, None), change("c", None, FULL)))
    (part,) = decoded.parts
    assert part.before is not None
    assert [b and b["id"] for b in part.before.to_pylist()] == [9, None]


def test_a_tombstone_deletes_by_its_key(registry: str) -> None:
    format_ = avro(registry)
    first, second = change("c", None, FULL), change("d", None, None)
    block = records(first, second, (second[0], None), (first[0], None), (second[0], None))
    decoded = format_.decode(block)
    assert decoded.tombstones.tolist() == [3, 4]
    poison: list[Poison] = []
    parts = format_.deletes(block, decoded.tombstones, decoded.parts[0].schema, poison)
    assert poison == []
    assert [index for part in parts for index in part.index.tolist()] == [3, 4]
    befores = [before for part in parts if part.before is not None for before in part.before.to_pylist()]
    assert befores == [{"id": 2**62}, {"id": 9}]


def test_maps_are_json_and_bytes_beside_them_are_bytes(registry: str) -> None:
    row = {"id": 1, "map": {"a": "é"}, "raw": b"\1"}
    assert rows(avro(registry).decode(records(change("c", None, row, schema=3)))) == [row | {"map": '{"a":"é"}'}]


def test_a_value_that_was_not_sent_is_unchanged(registry: str) -> None:
    unsent = FULL | {"text": PLACEHOLDER, "raw": PLACEHOLDER.encode(), "tags": [PLACEHOLDER]}
    (part,) = avro(registry).decode(records(change("u", None, unsent))).parts
    assert sorted(part.unchanged) == ["raw", "tags", "text"]


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (b"", "RPL-3930"),
        (b"{}", "RPL-3930"),
        (b"\0\0\0\0\x4d", "RPL-3930"),
        (b"\0\0\0\0\x3c", "RPL-3930"),
        (
            datum(
                1,
                dict(zip(("before", "after", "op"), (None, None, "c"), strict=True))
                | {"source": {"db": "", "schema": "", "table": "t", "ts_ms": 1}},
            )[:-3],
            "RPL-3900",
        ),
        (change("c", None, FULL)[1] + b"\0", "RPL-3900"),
        (b"\0\0\0\0\4", "RPL-3915"),
    ],
)
def test_a_corrupt_record_is_poison_and_other_records_are_read(registry: str, value: bytes, code: str) -> None:
    good = [change("c", None, FULL | {"id": i}) for i in range(10)]
    decoded = avro(registry).decode(records(*good[:4], (good[0][0], value), *good[4:]))
    assert [(p.index, p.code) for p in decoded.poison] == [(4, code)]
    assert [row["id"] for row in rows(decoded)] == list(range(10))


def test_a_registry_that_fails_or_refuses_is_an_error(registry: str) -> None:
    key, _ = change("c", None, FULL)
    with pytest.raises(RetryableError, match="RPL-3931"):
        avro(registry).decode(records((key, b"\0\0\0\0\x32")))
    with pytest.raises(NeedsUserError, match="RPL-3932"):
        avro(registry).decode(records((key, b"\0\0\0\0\x29")))
    with pytest.raises(RetryableError, match="RPL-3931") as caught:
        avro("http://someone:hidden@127.0.0.1:1").decode(records((key, b"\0\0\0\0\1")))
    assert "hidden" not in str(caught.value)
