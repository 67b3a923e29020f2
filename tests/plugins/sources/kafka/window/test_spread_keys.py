"""Keys with changes in several partitions of a window are found by the key that each change writes, or deletes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest

from replicator_sdk.datatype import INT64, STRING
from replicator_sdk.schema import Column, TableId, TableSchema
from replicator_source_kafka.formats.format import Part
from replicator_source_kafka.window.spread_keys import keys_in_several

_SCHEMA = TableSchema(
    TableId("shop", "orders"), (Column("id", INT64), Column("place", STRING), Column("note", STRING)), ("id", "place")
)
_CODES = {"I": 1, "U": 2, "D": 3}


def _part(*changes: tuple[str, int, str]) -> Part:
    rows = [None if op == "D" else {"id": key, "place": place, "note": "x"} for op, key, place in changes]
    before = [{"id": key, "place": place} if op == "D" else None for op, key, place in changes]
    return Part(
        _SCHEMA,
        np.arange(len(changes)),
        pa.array([_CODES[op] for op, _, _ in changes], pa.int8()),
        pa.array(rows, _SCHEMA.struct),
        pa.array(before, _SCHEMA.struct) if any(before) else None,
        before_is_full=False,
        timestamps=np.zeros(len(changes), np.int64),
    )


@pytest.mark.parametrize(
    ("parts", "keys"),
    [
        ([_part(("I", 1, "a"), ("U", 1, "a"))], 0),
        ([_part(("I", 1, "a")), _part(("I", 1, "b"), ("I", 2, "a"))], 0),
        ([_part(("I", 1, "a")), _part(("U", 1, "a"))], 1),
        ([_part(("I", 1, "a"), ("I", 2, "b")), _part(("D", 1, "a")), _part(("D", 2, "b"), ("I", 3, "c"))], 2),
        ([_part(("D", 1, "a"), ("I", 2, "a")), _part(("D", 2, "c"), ("I", 1, "c"))], 0),
    ],
)
def test_a_key_counts_once_however_many_partitions_have_it(parts: Sequence[Part], keys: int) -> None:
    assert keys_in_several(parts) == keys
