"""docs/types.md has the standard types of all types of Connect and Debezium."""

from __future__ import annotations

import re
from pathlib import Path

from replicator_source_kafka.types.connect_type import ConnectType
from replicator_source_kafka.types.standard_types import codec_of

PAGE = (Path(__file__).parents[5] / "docs" / "types.md").read_text()
FIELDS = {
    "io.debezium.data.VariableScaleDecimal": ("scale", "value"),
    "io.debezium.data.geometry.Geometry": ("wkb", "srid"),
}


def test_types_are_mapped_as_documented() -> None:
    section = PAGE.split("## Kafka → standard type → Delta", 1)[1].split("\n## ", 1)[0]
    rows = re.findall(r"^\| `([^`(]+)(?:\((\w+)\))?` \| ([^|]+?) \|", section, re.MULTILINE)
    assert len(rows) > 25
    for name, base, standard in rows:
        fields = tuple((field, ConnectType("bytes")) for field in FIELDS.get(name, ()))
        kind = ConnectType(base, name, fields=fields) if base else ConnectType(name)
        assert str(codec_of(kind).kind) == standard, name
