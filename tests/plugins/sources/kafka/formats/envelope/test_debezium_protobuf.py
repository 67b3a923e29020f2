"""`debezium-protobuf`: messages of Google's library are read, with schemas of the converter."""

from __future__ import annotations

import datetime as dt
import pickle
from collections.abc import Iterator
from decimal import Decimal
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replicator_sdk.config import OutOfRange
from replicator_sdk.errors import DataError
from replicator_sdk.schema import TableId
from replicator_source_kafka.config import KafkaConfig
from replicator_source_kafka.formats import Decoded, Format, make_format
from tests.plugins.sources.kafka.formats.connect import PLACEHOLDER, records
from tests.plugins.sources.kafka.formats.connect_protobuf import IMPORTS, envelope, framed, message, scaled
from tests.plugins.sources.kafka.formats.decoded import refused
from tests.plugins.sources.kafka.formats.schema_registry.small_registry import registry_that_answers

ROW = f"""
    int64 id = 1;
    optional int32 small = 2 [(confluent.field_meta) = {{params: [{{key: "connect.type", value: "int16"}}]}}];
    optional confluent.type.Decimal amount = 3 {scaled(2, 12)};
    optional google.type.Date day = 4;
    optional google.protobuf.Timestamp at = 5;
    optional google.type.TimeOfDay clock = 6;
    optional string text = 7;
    optional bytes raw = 8;
    repeated string tags = 9;
    map<string, int32> counts = 10;
    optional double span = 11;
    optional float real = 12;
    optional bool flag = 13;
    optional int64 micros = 14;
    optional VariableScaleDecimal free = 15;
    message VariableScaleDecimal {{ int32 scale = 1; bytes value = 2; }}
"""
WRAPPED = """
    int32 id = 1;
    google.protobuf.StringValue text = 2;
    google.protobuf.Int32Value small = 3 [(confluent.field_meta) = {params: [{key: "connect.type", value: "int8"}]}];
    google.protobuf.UInt64Value large = 4;
    google.protobuf.BytesValue raw = 5;
    repeated google.type.Date days = 6;
"""
KEY = IMPORTS + "message Key { int64 id = 1; }"
HEARTBEAT = 'syntax = "proto3"; package io.debezium.connector.common; message Heartbeat { int64 ts_ms = 1; }'
SCHEMAS = {
    1: envelope(ROW),
    2: KEY,
    3: envelope(WRAPPED, optional="", stamp="google.protobuf.Int64Value"),
    4: envelope("int64 id = 1; string text = 2;", optional="", stamp="int64"),
    5: HEARTBEAT,
    6: "message Broken {",
    7: envelope("int64 id = 1; repeated Value children = 2;"),
    8: IMPORTS + "message Other { int32 x = 1; }\n" + envelope("int64 id = 1;").removeprefix(IMPORTS),
}
SOURCE = {"connector": "postgresql", "db": "shop", "schema": "public", "table": "orders", "ts_ms": 7}
FULL: dict[str, Any] = {
    "id": 2**62,
    "small": -3,
    "amount": {"value": (-1250).to_bytes(2, "big", signed=True), "precision": 12, "scale": 2},
    "day": {"year": 2024, "month": 2, "day": 29},
    "at": {"seconds": -1, "nanos": 999_000_000},
    "clock": {"hours": 23, "minutes": 59, "seconds": 59, "nanos": 999_000_000},
    "text": "é",
    "raw": b"\0\xff",
    "tags": ["a", ""],
    "counts": {"ä": 1},
    "span": 5e-324,
    "real": 0.5,
    "flag": False,
    "micros": 1_700_000_000_000_123,
    "free": {"scale": 3, "value": b"\xff"},
}
WANTED = FULL | {
    "amount": Decimal("-12.50"),
    "day": dt.date(2024, 2, 29),
    "at": dt.datetime(1969, 12, 31, 23, 59, 59, 999_000),
    "clock": dt.time(23, 59, 59, 999_000),
    "counts": '{"ä":1}',
    "free": "-0.001",
}
NONE = {"id": 1, "tags": ["x"], "counts": {"x": 0}}


@pytest.fixture(scope="module")
def registry() -> Iterator[str]:
    """The address of a registry."""
    with registry_that_answers(
        {f"/schemas/ids/{i}": (200, {"schema": text, "schemaType": "PROTOBUF"}) for i, text in SCHEMAS.items()}
    ) as address:
        yield address


def protobuf(url: str, rule: OutOfRange = OutOfRange.FAIL, **types: str) -> Format:
    """The format, with types for columns of `public.orders`."""
    given = {
        "bootstrapServers": "127.0.0.1:1",
        "topics": ["t"],
        "format": "debezium-protobuf",
        "schemaRegistryUrl": url,
    }
    config = KafkaConfig.model_validate({**given, "columnTypes": {"public.orders": types}})
    travelled: Format = pickle.loads(pickle.dumps(make_format(config, rule)))
    return travelled


def change(op: str, before: Any, after: Any, schema: int = 1, **source: Any) -> tuple[bytes, bytes]:
    """A record's key and value."""
    key = framed(2, message(KEY, "Key", {"id": (after or before or {"id": 9})["id"]}))
    value = {"before": before, "after": after, "source": SOURCE | source, "op": op, "ts_ms": 8}
    if schema == 3:
        value["ts_ms"] = {"value": 8}
    path = (1,) if schema == 8 else (0,)
    return key, framed(schema, message(SCHEMAS[schema], "Envelope", value), path)


def rows(decoded: Decoded) -> list[Any]:
    """The rows of the only part."""
    assert not decoded.poison
    (part,) = decoded.parts
    return list(part.row.to_pylist())


def test_values_are_exact_and_nulls_differ_from_zeros(registry: str) -> None:
    decoded = protobuf(registry).decode(
        records(change("c", None, FULL), change("u", None, NONE), change("d", NONE, None))
    )
    assert rows(decoded)[:2] == [WANTED, dict.fromkeys(FULL) | NONE | {"counts": '{"x":0}'}]
    (part,) = decoded.parts
    assert part.table == TableId("shop", "orders", "public")
    assert part.schema.primary_key == ("id",)
    assert [str(c.type) for c in part.schema.columns[:6]] == [
        *("int64", "int16", "decimal(12,2)", "date", "timestamp", "time"),
    ]
    assert [c.nullable for c in part.schema.columns[:3]] == [False, True, True]
    assert part.before is not None
    assert part.before[2].as_py()["id"] == 1
    assert part.op.to_pylist() == [1, 2, 3]
    assert part.timestamps.tolist() == [7000] * 3


def test_wrappers_contain_null_as_well(registry: str) -> None:
    full = {"id": 1, "text": {"value": ""}, "small": {"value": 0}, "large": {"value": 2**63 - 1}, "raw": {"value": b""}}
    days = {"days": [{"year": 1, "month": 1, "day": 3}]}
    decoded = protobuf(registry).decode(
        records(change("c", None, full | days, 3), change("c", None, {"id": 2} | days, 3))
    )
    first = {"id": 1, "text": "", "small": 0, "large": 2**63 - 1, "raw": b"", "days": [dt.date(1, 1, 1)]}
    assert rows(decoded) == [first, dict.fromkeys(first) | {"id": 2, "days": [dt.date(1, 1, 1)]}]


def test_a_schema_that_writes_null_as_zero_is_refused_with_the_setting_that_fixes_it(registry: str) -> None:
    decoded = protobuf(registry).decode(records(change("c", None, {"id": 1, "text": "a"}, 4)))
    assert [p.code for p in decoded.poison] == ["RPL-3973"]
    assert "optional.for.nullables" in decoded.poison[0].reason


def test_types_that_the_converter_drops_can_be_configured(registry: str) -> None:
    decoder = protobuf(registry, micros="timestamp/us", text="json")
    (row,) = rows(decoder.decode(records(change("c", None, FULL | {"text": "{}"}))))
    assert row["micros"] == dt.datetime(2023, 11, 14, 22, 13, 20, 123)
    poison = protobuf(registry, micros="timestamp").decode(records(change("c", None, FULL))).poison
    assert [p.code for p in poison] == ["RPL-3904"]


def test_an_empty_list_may_be_null_and_is_handled_by_the_policy(registry: str) -> None:
    bare = records(change("c", None, {"id": 1, "counts": {"a": 1}}))
    with pytest.raises(DataError, match=r"RPL-3905.*'tags'"):
        refused(protobuf(registry).decode(bare))
    assert rows(protobuf(registry, OutOfRange.NULL).decode(bare))[0]["tags"] is None
    assert rows(protobuf(registry, OutOfRange.CLAMP).decode(bare))[0]["tags"] == []


def test_tables_and_connectors_of_a_topic_are_separated(registry: str) -> None:
    decoded = protobuf(registry, micros="timestamp/us").decode(
        records(
            change("c", None, FULL),
            change("c", None, FULL, table="items"),
            change("c", None, FULL, connector="mysql"),
            change("c", None, FULL),
        )
    )
    found = {(part.table.table, tuple(part.index.tolist())): part.row[0].as_py() for part in decoded.parts}
    assert set(found) == {("orders", (0, 3)), ("orders", (2,)), ("items", (1,))}
    assert found["items", (1,)]["micros"] == 1_700_000_000_000_123
    assert found["orders", (2,)]["clock"] == "23:59:59.999000"


def test_a_delete_without_a_row_takes_the_key_and_a_value_that_was_not_sent_is_unchanged(registry: str) -> None:
    unsent = FULL | {"text": PLACEHOLDER, "raw": PLACEHOLDER.encode(), "tags": [PLACEHOLDER]}
    decoded = protobuf(registry).decode(records(change("d", None, None), change("u", None, unsent)))
    (part,) = decoded.parts
    assert part.before is not None
    assert [row and row["id"] for row in part.before.to_pylist()] == [9, None]
    assert sorted(part.unchanged) == ["raw", "tags", "text"]


def test_the_path_before_the_data_selects_the_message(registry: str) -> None:
    assert rows(protobuf(registry).decode(records(change("c", None, {"id": 5}, 8)))) == [{"id": 5}]


def test_heartbeats_are_skipped(registry: str) -> None:
    beat = framed(5, message(HEARTBEAT, "Heartbeat", {"ts_ms": 1}))
    decoded = protobuf(registry).decode(records((None, beat), (None, None)))
    assert (list(decoded.parts), list(decoded.poison)) == ([], [])


BAD_TEXT = change("c", None, FULL)[1].replace("é".encode(), b"\xff\xff")


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (b"", "RPL-3930"),
        (b"{}", "RPL-3930"),
        (b"\0\0\0\0\x4d\0", "RPL-3930"),
        (b"\0\0\0\0\1", "RPL-3930"),
        (b"\0\0\0\0\1\2\x12", "RPL-3930"),
        (b"\0\0\0\0\6\0", "RPL-3930"),
        (b"\0\0\0\0\7\0", "RPL-3930"),
        (b"\0\0\0\0\2\0", "RPL-3915"),
        (framed(1, b""), "RPL-3910"),
        (framed(1, b"\xff"), "RPL-3900"),
        (BAD_TEXT, "RPL-3900"),
        (change("c", None, FULL | {"day": {"year": 2023, "month": 2, "day": 29}})[1], "RPL-3914"),
        (change("c", None, FULL | {"clock": {"hours": 25}})[1], "RPL-3914"),
        (change("c", None, FULL | {"at": {"nanos": -1}})[1], "RPL-3914"),
        (change("c", None, FULL | {"small": 40_000})[1], "RPL-3914"),
        (change("c", None, FULL | {"amount": {"value": b"\1", "scale": 3}})[1], "RPL-3914"),
    ],
)
def test_a_corrupt_record_is_poison_and_other_records_are_read(registry: str, value: bytes, code: str) -> None:
    good = [change("c", None, FULL | {"id": i}) for i in range(10)]
    decoded = protobuf(registry).decode(records(*good[:4], (good[0][0], value), *good[4:]))
    assert [(p.index, p.code) for p in decoded.poison] == [(4, code)]
    found = [(i, row["id"]) for part in decoded.parts for i, row in zip(part.index, part.row.to_pylist(), strict=True)]
    assert [identity for _, identity in sorted(found)] == list(range(10))


@pytest.mark.parametrize(
    ("value", "nearest"),
    [
        ({"at": {"seconds": 2**63 - 1}}, {"at": dt.datetime.max}),  # noqa: DTZ901 - it has none
        ({"at": {"seconds": -(2**63), "nanos": 5}}, {"at": dt.datetime.min}),  # noqa: DTZ901 - it has none
        ({"at": {"nanos": 1_999}}, {"at": dt.datetime(1970, 1, 1, 0, 0, 0, 1)}),
        ({"day": {"year": 10_000, "month": 1, "day": 1}}, {"day": dt.date.max}),
        ({"clock": {"nanos": 1}}, {"clock": dt.time()}),
    ],
)
def test_values_out_of_range_are_handled_by_the_policy(registry: str, value: Any, nearest: Any) -> None:
    given = records(change("c", None, FULL | value))
    with pytest.raises(DataError, match="RPL-3905"):
        refused(protobuf(registry).decode(given))
    (name,) = value
    assert rows(protobuf(registry, OutOfRange.NULL).decode(given))[0][name] is None
    assert rows(protobuf(registry, OutOfRange.CLAMP).decode(given))[0][name] == nearest[name]


@cache
def _known(registry: str, rule: OutOfRange = OutOfRange.FAIL) -> Format:
    """A format that has compiled its schemas."""
    return protobuf(registry, rule)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.fixed_dictionaries(
            {"id": st.integers(-(2**63), 2**63 - 1), "tags": st.just(["a"]), "counts": st.just({"a": 1})},
            optional={
                "small": st.integers(-(2**15), 2**15 - 1),
                "text": st.text(),
                "raw": st.binary(max_size=300),
                "span": st.floats(allow_nan=False),
                "real": st.floats(width=32, allow_nan=False),
                "flag": st.booleans(),
                "micros": st.integers(-(2**63), 2**63 - 1),
            },
        ),
        min_size=1,
        max_size=8,
    )
)
def test_any_row_is_read_back(registry: str, given_rows: list[dict[str, Any]]) -> None:
    decoded = _known(registry).decode(records(*(change("c", None, row) for row in given_rows)))
    wanted = [dict.fromkeys(FULL) | row | {"counts": '{"a":1}'} for row in given_rows]
    assert rows(decoded) == wanted


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=60), st.integers(0, 200), st.integers(1, 255))
def test_corrupt_bytes_affect_their_record_only(registry: str, noise: bytes, place: int, difference: int) -> None:
    good = change("c", None, FULL)
    flipped = bytearray(good[1])
    flipped[place % len(flipped)] ^= difference
    decoded = _known(registry, OutOfRange.CLAMP).decode(
        records(good, (good[0], framed(1, noise)), (good[0], bytes(flipped)), good)
    )
    assert {p.index for p in decoded.poison} <= {1, 2}
    whole = {int(i): row for part in decoded.parts for i, row in zip(part.index, part.row.to_pylist(), strict=True)}
    assert (whole[0], whole[3]) == (WANTED, WANTED)
