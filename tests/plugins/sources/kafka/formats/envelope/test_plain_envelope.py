"""`debezium-json` without schemas: inferred types, and those of `columnTypes`."""

from __future__ import annotations

import datetime as dt
import json
import math
from decimal import Decimal
from typing import Any

import pytest

from replicator_source_kafka.config import KafkaConfig
from replicator_source_kafka.formats import Decoded, make_format
from tests.plugins.sources.kafka.formats.connect import PLACEHOLDER, Table, dumps, records

TABLE = Table(())


def record(op: str, before: Any, after: Any, key: Any = None, **source: Any) -> tuple[bytes, bytes]:
    """A record of a converter without schemas."""
    row = after or before or {}
    key = {"id": row.get("id")} if key is None else key
    return dumps(key).encode(), dumps(TABLE.payload(op, before, after, **source)).encode()


def decode(*pairs: tuple[bytes | None, bytes | None], **types: str) -> Decoded:
    """The decoded records, with configured types of `public.orders`."""
    config = KafkaConfig.model_validate(
        {"bootstrapServers": "127.0.0.1:1", "topics": ["t"], "columnTypes": {"public.orders": types}}
    )
    return make_format(config).decode(records(*pairs))


def rows(decoded: Decoded) -> list[Any]:
    """All rows, in the order of their records."""
    found = [pair for part in decoded.parts for pair in zip(part.index.tolist(), part.row.to_pylist(), strict=True)]
    return [row for _, row in sorted(found, key=lambda pair: pair[0])]


def test_column_types_are_inferred_and_the_key_is_that_of_the_record() -> None:
    row = {"id": 2**62, "text": "2024-01-01", "span": 1.5, "flag": True, "tags": {"a": [1]}, "none": None}
    decoded = decode(record("c", None, row), record("u", None, row | {"text": PLACEHOLDER}), record("d", row, None))
    (part,) = decoded.parts
    assert [(c.name, str(c.type)) for c in part.schema.columns] == [
        ("id", "int64"),
        ("text", "string"),
        ("span", "float64"),
        ("flag", "bool"),
        ("tags", "json"),
    ]
    assert part.schema.primary_key == ("id",)
    assert part.op.to_pylist() == [1, 2, 3]
    assert part.row.to_pylist()[0] == {k: v for k, v in row.items() if k != "none"} | {"tags": '{"a":[1]}'}
    assert part.unchanged["text"].to_pylist() == [False, True, False]


def test_a_column_that_comes_late_or_turns_out_floating_is_found() -> None:
    pairs = [record("c", None, {"id": i, "x": 1} | ({"late": "a"} if i == 777 else {})) for i in range(1000)]
    pairs[500] = record("c", None, {"id": 500, "x": 1.5})
    decoded = decode(*pairs)
    (part,) = decoded.parts
    assert not decoded.poison
    assert [str(c.type) for c in part.schema.columns] == ["int64", "float64", "string"]
    assert part.row.to_pylist()[777] == {"id": 777, "x": 1.0, "late": "a"}
    assert part.row.to_pylist()[500] == {"id": 500, "x": 1.5, "late": None}


def test_a_value_of_another_kind_is_poison() -> None:
    decoded = decode(*(record("c", None, {"id": i, "x": "a" if i == 7 else 1}) for i in range(40)))
    assert [(p.index, p.code) for p in decoded.poison] == [(7, "RPL-3900")]
    assert len(rows(decoded)) == 39


def test_types_can_be_configured() -> None:
    row = {
        "id": 1,
        "amount": "AeJA",
        "text_amount": "-12.50",
        "number": 18446744073709551615,
        "day": 19000,
        "at": "2024-02-03T04:05:06.123456Z",
        "raw": "AQI=",
        "doc": [1, "a"],
        "never": None,
    }
    types = {
        "amount": "decimal(12,2)",
        "text_amount": "decimal(12,2)",
        "number": "decimal(20,0)",
        "day": "date",
        "at": "instant",
        "raw": "binary",
        "doc": "json",
        "never": "date",
    }
    assert rows(decode(record("c", None, row), **types)) == [
        {
            "id": 1,
            "amount": Decimal("1234.56"),
            "text_amount": Decimal("-12.50"),
            "number": Decimal(18446744073709551615),
            "day": dt.date(2022, 1, 8),
            "at": dt.datetime(2024, 2, 3, 4, 5, 6, 123456, tzinfo=dt.UTC),
            "raw": b"\x01\x02",
            "doc": '[1,"a"]',
            "never": None,
        }
    ]


def test_text_that_may_be_a_number_or_bytes_is_refused() -> None:
    decoded = decode(record("c", None, {"id": 1, "n": "1234"}), n="decimal(9,0)")
    assert [p.code for p in decoded.poison] == ["RPL-3914"]


def test_a_delete_without_a_row_before_takes_the_key() -> None:
    decoded = decode(record("d", None, None, key={"id": 7}), record("c", None, {"id": 8, "x": 1}))
    (part,) = decoded.parts
    assert part.before is not None
    assert part.before.to_pylist() == [{"id": 7, "x": None}, None]


def test_tables_and_keys_are_separated() -> None:
    decoded = decode(
        record("c", None, {"id": 1}),
        record("c", None, {"id": "a"}, table="items"),
        record("c", None, {"id": 1, "n": 2}, key={"id": 1, "n": 2}, table="lines"),
    )
    found = {str(p.table): (p.schema.primary_key, p.row.to_pylist()) for p in decoded.parts}
    assert found == {
        "public.orders": (("id",), [{"id": 1}]),
        "public.items": (("id",), [{"id": "a"}]),
        "public.lines": (("id", "n"), [{"id": 1, "n": 2}]),
    }


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (b"", "RPL-3900"),
        (b"{", "RPL-3900"),
        (b"[1]", "RPL-3900"),
        (b'{"a":1}', "RPL-3910"),
        (json.dumps(TABLE.payload("c", None, {"id": 1}, table=None)).encode(), "RPL-3912"),
    ],
)
def test_a_corrupt_record_is_poison_and_other_records_are_read(value: bytes, code: str) -> None:
    good = [record("c", None, {"id": i}) for i in range(30)]
    decoded = decode(*good[:11], (b'{"id":1}', value), *good[11:])
    assert [(p.index, p.code) for p in decoded.poison] == [(11, code)]
    assert rows(decoded) == [{"id": i} for i in range(30)]


@pytest.mark.parametrize(
    "value", [b'{"ts_ms":1}', b'{"status":"END","id":"1","event_count":3}', b'{"ddl":"","databaseName":""}']
)
def test_metadata_records_are_not_poison(value: bytes) -> None:
    assert decode((b'{"serverName":"s"}', value)) == Decoded([], [])


def test_a_key_without_names_is_poison() -> None:
    decoded = decode((b"17", record("c", None, {"id": 1})[1]))
    assert [p.code for p in decoded.poison] == ["RPL-3916"]


def test_quoted_nan_belongs_to_a_floating_column() -> None:
    decoded = decode(*(record("c", None, {"id": i, "x": "NaN" if i % 2 else i + 0.5}) for i in range(40)))
    assert not decoded.poison
    assert [row["x"] if i % 2 == 0 else math.isnan(row["x"]) for i, row in enumerate(rows(decoded))][:2] == [0.5, True]
