"""`debezium-json` with embedded schemas."""

from __future__ import annotations

import datetime as dt
import decimal
import json
import math
import pickle
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replicator_sdk.schema import TableId
from replicator_source_kafka.config import KafkaConfig
from replicator_source_kafka.formats import Decoded, Format, Part, make_format
from tests.plugins.sources.kafka.formats.connect import PLACEHOLDER, Field, Table, records, with_schema

ID = Field("id", "int64", optional=False)
TEXT = Field("text", "string")
AMOUNT = Field(
    "amount", "bytes", "org.apache.kafka.connect.data.Decimal", {"scale": "2", "connect.decimal.precision": "38"}
)
AT = Field("at", "int64", "io.debezium.time.MicroTimestamp")
DAY = Field("day", "int32", "io.debezium.time.Date")
RAW = Field("raw", "bytes")
TAGS = Field("tags", "array", items=Field("", "string"))
SPAN = Field("span", "double")
WIDE = Table((ID, TEXT, AMOUNT, AT, DAY, RAW, TAGS, SPAN, Field("flag", "boolean"), Field("real", "float")))
NARROW = Table((ID, TEXT))


def debezium_json() -> Format:
    """The format."""
    return make_format(KafkaConfig(bootstrap_servers="127.0.0.1:1", topics=("t",)))


def only_part(decoded: Decoded) -> Part:
    """The only part."""
    assert list(decoded.poison) == []
    (part,) = decoded.parts
    return part


def test_operations_are_mapped_and_keep_the_indexes_of_their_records() -> None:
    old, new = {"id": 1, "text": "a"}, {"id": 1, "text": "b"}
    block = records(
        NARROW.change("r", None, old),
        NARROW.change("u", old, new),
        NARROW.change("d", {"id": 1, "text": None}, None),
        (NARROW.change("d", old, None)[0], None),
        NARROW.change("c", None, new),
    )
    part = only_part(debezium_json().decode(block))
    assert part.table == TableId("shop", "orders", "public")
    assert part.schema.primary_key == ("id",)
    assert part.op.to_pylist() == [1, 2, 3, 1]
    assert part.index.tolist() == [0, 1, 2, 4]
    assert part.row.to_pylist()[1] == new
    assert part.before is not None
    assert part.before.to_pylist()[2]["id"] == 1
    assert set(part.timestamps.tolist()) == {1_700_000_000_000_123}


_MICRO = dt.timedelta(microseconds=1)
ROWS = st.fixed_dictionaries(
    {
        "id": st.integers(-(2**63), 2**63 - 1),
        "text": st.none() | st.text(st.characters(exclude_categories=["Cs"])).filter(lambda t: t != PLACEHOLDER),
        "amount": st.none() | st.integers(-(10**38) + 1, 10**38 - 1).map(lambda n: Decimal(n).scaleb(-2, _wide())),
        "at": st.none() | st.datetimes().map(lambda t: (t - dt.datetime(1970, 1, 1)) // _MICRO),
        "day": st.none() | st.dates().map(lambda d: (d - dt.date(1970, 1, 1)).days),
        "raw": st.none() | st.binary(max_size=40),
        "tags": st.none() | st.lists(st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=5)),
        "span": st.none() | st.floats(),
        "flag": st.none() | st.booleans(),
        "real": st.none() | st.floats(width=32),
    }
)


def _wide() -> Any:
    return decimal.Context(prec=60)


def _expected(row: dict[str, Any]) -> dict[str, Any]:
    """The row's values in standard types."""
    at, day = row["at"], row["day"]
    return row | {
        "at": None if at is None else dt.datetime(1970, 1, 1) + at * _MICRO,
        "day": None if day is None else dt.date(1970, 1, 1) + dt.timedelta(days=day),
    }


def _same(got: Any, wanted: Any) -> bool:
    if isinstance(wanted, float) and not isinstance(got, bool):
        both_nan = math.isnan(wanted) and math.isnan(got)
        return both_nan or (got == wanted and math.copysign(1, got) == math.copysign(1, wanted))
    return type(got) is type(wanted) and bool(got == wanted)


@settings(deadline=None, max_examples=60)
@given(st.lists(ROWS, min_size=1, max_size=40))
def test_values_are_exactly_those_the_converter_wrote(rows: list[dict[str, Any]]) -> None:
    block = records(*(WIDE.change("c", None, row) for row in rows))
    part = only_part(debezium_json().decode(block))
    for got, row in zip(part.row.to_pylist(), rows, strict=True):
        wanted = _expected(row)
        assert {name for name in wanted if not _same(got[name], wanted[name])} == set()


@pytest.mark.parametrize(
    "broken",
    [
        b"",
        b" ",
        b"null",
        b"{",
        b"\xff",
        b'{"payload":{}}',
        b'{"schema":{"type":"struct","fields":[]},"payload":{"id":1}}',
        b'{"schema":null,"payload":null}',
        NARROW.change("c", None, {"id": 1, "text": "a"})[1][:-1],
        NARROW.change("c", None, {"id": 1, "text": "a"})[1] + b"}",
        NARROW.change("c", None, {"id": 1, "text": "a"})[1] * 2,
        NARROW.change("c", None, {"id": 1, "text": "a"})[1].replace(b'"id":1', b'"id":"x"'),
        NARROW.change("c", None, {"id": 1, "text": "a"})[1].replace(b'"id":1', b'"id":9223372036854775808'),
        NARROW.change("c", None, {"id": 1, "text": "a"})[1].replace(b'"a"', b'"\xed\xa0\x80"'),
        NARROW.change("c", None, {"id": 1, "text": "a"})[1].replace(b'"a"', b'"\\ud83d"'),
        NARROW.change("c", None, {"id": 1, "text": "a"})[1].replace(b'"a"', b'"\\udc00\\ud83d"'),
        NARROW.change("c", None, {"id": 1, "text": "a"})[1].replace(b'"a"', b'"\n'),
        NARROW.change("x", None, {"id": 1, "text": "a"})[1],
        NARROW.change("u", {"id": 1, "text": "a"}, None)[1],
    ],
)
def test_a_corrupt_record_is_poison_and_other_records_are_read(broken: bytes) -> None:
    good = [NARROW.change("c", None, {"id": i, "text": f"t{i}"}) for i in range(50)]
    key = good[0][0]
    for place in (0, 17, 50):
        block = records(*good[:place], (key, broken), *good[place:])
        decoded = debezium_json().decode(block)
        assert [p.index for p in decoded.poison] == [place]
        assert decoded.poison[0].code.startswith("RPL-39")
        got = sorted(
            (int(i), row["id"])
            for part in decoded.parts
            for i, row in zip(part.index, part.row.to_pylist(), strict=True)
        )
        assert got == [(i + (i >= place), i) for i in range(50)]


def test_records_with_another_order_of_members_are_read_alike() -> None:
    key, value = NARROW.change("c", None, {"id": 1, "text": "a"})
    document = json.loads(value)
    turned = json.dumps({"payload": document["payload"], "schema": document["schema"]}, indent=1).encode()
    block = records((key, value), (key, turned), (key, value))
    parts = debezium_json().decode(block).parts
    rows = [row for part in parts for row in part.row.to_pylist()]
    assert rows == [{"id": 1, "text": "a"}] * 3
    assert sorted(i for part in parts for i in part.index.tolist()) == [0, 1, 2]


def test_a_delete_without_a_row_before_takes_the_key() -> None:
    key, _ = NARROW.change("d", {"id": 7, "text": "a"}, None)
    value = with_schema(NARROW.envelope, NARROW.payload("d", None, None))
    part = only_part(debezium_json().decode(records(NARROW.change("c", None, {"id": 1, "text": ""}), (key, value))))
    assert part.before is not None
    assert part.before.to_pylist() == [None, {"id": 7, "text": None}]


def test_a_table_without_a_key_has_whole_rows_before_or_poison() -> None:
    bag = Table((ID, TEXT), key=())
    old, new = {"id": 1, "text": "a"}, {"id": 2, "text": "b"}
    part = only_part(debezium_json().decode(records(bag.change("u", old, new), bag.change("d", old, None))))
    assert part.before_is_full
    assert part.before is not None
    assert part.before.to_pylist() == [old, old]
    assert part.schema.primary_key == ()
    part_of_a_row = {"id": 1, "text": PLACEHOLDER}
    decoded = debezium_json().decode(records(bag.change("d", part_of_a_row, None)))
    assert [p.code for p in decoded.poison] == ["RPL-3914"]
    decoded = debezium_json().decode(records(bag.change("u", None, new)))
    assert [p.code for p in decoded.poison] == ["RPL-3913"]


def test_a_value_that_was_not_sent_is_unchanged() -> None:
    lists = Table((ID, TEXT, RAW, TAGS, Field("numbers", "array", items=Field("", "int32"))))
    sent = {"id": 1, "text": "a", "raw": b"b", "tags": ["c"], "numbers": [1]}
    unsent = {
        "id": 1,
        "text": PLACEHOLDER,
        "raw": PLACEHOLDER.encode(),
        "tags": [PLACEHOLDER],
        "numbers": [ord(c) for c in PLACEHOLDER],
    }
    part = only_part(debezium_json().decode(records(lists.change("u", None, sent), lists.change("c", None, unsent))))
    assert {name: mask.to_pylist() for name, mask in part.unchanged.items()} == {
        name: [False, True] for name in ("text", "raw", "tags", "numbers")
    }
    assert part.row.to_pylist()[1] == {"id": 1} | dict.fromkeys(part.unchanged)
    assert part.op.to_pylist() == [2, 2]


def test_tables_in_one_topic_are_separated() -> None:
    other = Table((ID, AT), name="items")
    one, two = {"id": 1, "text": "a"}, {"id": 2, "at": 0}
    block = records(
        NARROW.change("c", None, one),
        other.change("c", None, two),
        NARROW.change("c", None, one, table="shard_2"),
        NARROW.change("c", None, one),
    )
    found = {str(p.table): p.index.tolist() for p in debezium_json().decode(block).parts}
    assert found == {"public.orders": [0, 3], "public.items": [1], "public.shard_2": [2]}


def test_a_truncate_is_not_a_change_of_a_row() -> None:
    block = records(NARROW.change("c", None, {"id": 1, "text": ""}), (None, NARROW.change("t", None, None)[1]), first=5)
    parts = debezium_json().decode(block).parts
    assert sorted(i for part in parts for i in part.truncates.tolist()) == [1]
    assert sorted(i for part in parts for i in part.index.tolist()) == [0]


@pytest.mark.parametrize(
    "name",
    [
        "io.debezium.connector.common.Heartbeat",
        "io.debezium.connector.mysql.SchemaChangeValue",
        "io.debezium.connector.common.TransactionMetadataValue",
    ],
)
def test_metadata_records_are_not_poison(name: str) -> None:
    from tests.plugins.sources.kafka.formats.connect import struct

    value = with_schema(struct("", Field("ts_ms", "int64"), semantic=name), {"ts_ms": 1})
    decoded = debezium_json().decode(records((None, value)))
    assert (list(decoded.parts), list(decoded.poison)) == ([], [])


def test_a_format_can_be_pickled_and_reads_large_arrays() -> None:
    block = records(NARROW.change("c", None, {"id": 1, "text": "a"}))
    wide = pickle.loads(pickle.dumps(block))
    object.__setattr__(wide, "value", wide.value.cast(pa.large_binary()))
    object.__setattr__(wide, "key", wide.key.cast(pa.large_binary()))
    travelled = pickle.loads(pickle.dumps(debezium_json()))
    assert only_part(travelled.decode(wide)).row.to_pylist() == [{"id": 1, "text": "a"}]
