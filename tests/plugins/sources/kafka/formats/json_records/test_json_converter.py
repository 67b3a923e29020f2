"""Against bytes that Kafka Connect's own JsonConverter (4.1.1) wrote: a key and a value, three times, then without schemas."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from pathlib import Path

import pytest

from replicator_source_kafka.config import KafkaConfig
from replicator_source_kafka.formats import make_format
from tests.plugins.sources.kafka.formats.connect import records

LINES = (Path(__file__).parent / "json_converter_4_1_1.txt").read_bytes().splitlines()
TYPES = {"amount": "decimal(12,2)", "span": "float64", "real": "float32", "raw": "binary", "day": "date"}


@pytest.mark.parametrize("first", [0, 6], ids=["with schemas", "without schemas"])
def test_values_are_those_given_to_the_converter(first: int) -> None:
    lines = LINES[first : first + 6]
    config = KafkaConfig.model_validate(
        {"bootstrapServers": "127.0.0.1:1", "topics": ["t"], "columnTypes": {"p.t": TYPES}}
    )
    decoded = make_format(config).decode(records(*zip(lines[::2], lines[1::2], strict=True)))
    (part,) = decoded.parts
    assert list(decoded.poison) == []
    assert part.schema.primary_key == ("id",)
    found = part.row.to_pylist()
    assert [row["id"] for row in found] == [2**63 - 1, 2**63 - 2, 2**63 - 3]
    assert [row["text"] for row in found] == ['é\x01"\\\n😀/', "", "x"]
    assert [row["amount"] for row in found] == [Decimal("-0.01"), Decimal("1234.56"), Decimal("1234.56")]
    assert math.isnan(found[0]["span"])
    assert [row["span"] for row in found[1:]] == [1e300, 5e-324]
    assert [row["real"] for row in found] == [3.4028234663852886e38, -math.inf, 3.4028234663852886e38]
    assert [row["raw"] for row in found] == [b"\0\xff\0", b"\0\xff\1", b"\0\xff\2"]
    assert [row["day"] for row in found] == [dt.date(1970, 1, 1), dt.date(1970, 1, 2), dt.date(1970, 1, 3)]
    assert [row["m"] for row in found] == ['{"k":"v"}', '{"k":"v"}', None]
    assert [row["tags"] for row in found] == [["a", None]] * 3 if first == 0 else ['["a",null]'] * 3
