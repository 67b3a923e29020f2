"""`upsert-json` and `flattened-json`."""

from __future__ import annotations

import datetime as dt
import pickle
from typing import Any

import pytest

from replicator_sdk.errors import NeedsUserError
from replicator_sdk.schema import TableId
from replicator_source_kafka.config import KafkaConfig
from replicator_source_kafka.formats import Decoded, Format, make_format
from tests.plugins.sources.kafka.formats.connect import Field, dumps, records, struct, with_schema
from tests.plugins.sources.kafka.formats.decoded import said

ID = Field("id", "int32", optional=False)
DAY = Field("day", "int32", "io.debezium.time.Date")
ROW = struct("", ID, DAY, Field("__deleted", "string"), Field("__source_ts_ms", "int64"), Field("__op", "string"))
KEY = struct("", ID, optional=False)

Pair = tuple[bytes | None, bytes | None]


def decode(kind: str, *pairs: Pair, **settings: Any) -> Decoded:
    """The decoded records."""
    given = {"bootstrapServers": "127.0.0.1:1", "topics": ["t"], "format": kind, **settings}
    decoder: Format = pickle.loads(pickle.dumps(make_format(KafkaConfig.model_validate(given))))
    return decoder.decode(records(*pairs))


def plain(key: Any, value: Any) -> Pair:
    """A record without schemas."""
    return dumps(key).encode(), None if value is None else dumps(value).encode()


def embedded(value: dict[str, Any] | None, key: int = 1) -> Pair:
    """A record with schemas."""
    return with_schema(KEY, {"id": key}), None if value is None else with_schema(ROW, value)


def test_a_value_is_an_upsert_and_a_tombstone_a_delete() -> None:
    decoded = decode("upsert-json", plain({"id": 1}, {"id": 1, "a": "x", "__op": "d"}), plain({"id": 1}, None))
    assert said(decoded) == [(0, 2, {"id": 1, "a": "x", "__op": "d"}), (1, 3, {"id": 1})]
    assert {part.table for part in decoded.parts} == {TableId("public", "orders")}
    assert {part.schema.primary_key for part in decoded.parts} == {("id",)}


def test_columns_in_the_key_only_are_columns_of_the_table() -> None:
    decoded = decode("upsert-json", plain({"id": 1, "n": "a"}, {"x": 1.5}), plain({"id": 2, "n": "b"}, {"x": 2.5}))
    assert [row for *_, row in said(decoded)] == [{"x": 1.5, "id": 1, "n": "a"}, {"x": 2.5, "id": 2, "n": "b"}]


def test_extracted_rows_have_types_marks_and_times() -> None:
    added = {"__deleted": "false", "__source_ts_ms": 5, "__op": "u"}
    decoded = decode(
        "flattened-json",
        embedded({"id": 1, "day": 1, **added}),
        embedded({"id": 1, "day": 2, **added, "__deleted": "true", "__op": "d"}),
        embedded(None),
        embedded({"id": 2, "day": None, **added, "__op": None}, key=2),
    )
    assert said(decoded) == [
        (0, 2, {"id": 1, "day": dt.date(1970, 1, 2)}),
        (1, 3, {"id": 1, "day": None}),
        (2, 3, {"id": 1}),
        (3, 2, {"id": 2, "day": None}),
    ]
    times = {int(i): int(t) for part in decoded.parts for i, t in zip(part.index, part.timestamps, strict=True)}
    assert times == {0: 5000, 1: 5000, 2: 1_700_000_000_500_000, 3: 5000}
    assert {str(c.type) for part in decoded.parts for c in part.schema.columns if c.name == "id"} == {"int32"}


def test_extracted_rows_without_schemas_are_read_alike() -> None:
    decoded = decode(
        "flattened-json",
        plain({"id": 1}, {"id": 1, "a": 1, "__deleted": "false"}),
        plain({"id": 1}, {"id": 1, "a": None, "__deleted": True}),
    )
    assert [p.reason for p in decoded.poison] == ["has no value that is a string at __deleted"]
    decoded = decode("flattened-json", plain({"id": 1}, {"id": 1, "a": 1, "__deleted": True}))
    assert said(decoded) == [(0, 3, {"id": 1, "a": None})]


def test_a_field_names_the_table_of_each_record() -> None:
    decoded = decode(
        "upsert-json",
        plain({"id": 1}, {"id": 1, "to": "shop.orders", "x": 1}),
        plain({"id": 2}, {"id": "b", "to": "items"}),
        plain({"id": 3}, {"id": 3}),
        plain({"id": 4}, None),
        tableField="to",
    )
    found = {str(part.table): part.row.to_pylist() for part in decoded.parts}
    assert found == {
        "shop.orders": [{"id": 1, "to": "shop.orders", "x": 1}],
        "s.public.orders.items": [{"id": "b", "to": "items"}],
    }
    assert [(p.index, p.code) for p in decoded.poison] == [(2, "RPL-3912"), (3, "RPL-3909")]


def test_a_pattern_names_the_table() -> None:
    pattern = r"(?P<database>\w+)\.(?P<schema>\w+)\.(?P<table>\w+)"
    decoded = decode("upsert-json", plain({"id": 1}, {"id": 1}), tableFromTopic=pattern)
    assert decoded.parts[0].table == TableId("s", "orders", "public")
    with pytest.raises(NeedsUserError, match="RPL-3908"):
        decode("upsert-json", plain({"id": 1}, {"id": 1}), tableFromTopic=r"(?P<table>\w+)")


@pytest.mark.parametrize(
    ("pair", "code"),
    [
        ((None, b"{}"), "RPL-3907"),
        ((b"17", b"{}"), "RPL-3916"),
        ((b'{"id":9}', b"null"), "RPL-3915"),
        ((b'{"id":9}', b"["), "RPL-3900"),
        ((b'{"id":9}', b'"text"'), "RPL-3900"),
    ],
)
def test_a_corrupt_record_is_poison_and_other_records_are_read(pair: Pair, code: str) -> None:
    good = [plain({"id": i}, {"id": i, "x": i}) for i in range(20)]
    decoded = decode("upsert-json", *good[:7], pair, *good[7:])
    assert [(p.index, p.code) for p in decoded.poison] == [(7, code)]
    assert [row for *_, row in said(decoded)] == [{"id": i, "x": i} for i in range(20)]
