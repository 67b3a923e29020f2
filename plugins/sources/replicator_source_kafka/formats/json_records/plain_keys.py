"""Finds the names in record keys that are plain JSON objects."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from replicator_sdk.batch import Int64s
from replicator_source_kafka.formats.json_records.inferred_json import kind_of
from replicator_source_kafka.formats.json_records.json_objects import ObjectReader
from replicator_source_kafka.formats.json_records.json_value import loads

Named = tuple[dict[str, str], Int64s]
"""Name → JSON kind, and the indexes of the keys."""
_WIRE = {"bool": pa.bool_(), "int": pa.int64(), "float": pa.float64(), "string": pa.string()}


def plain_key_names(keys: pa.Array, bad: list[tuple[int, str]]) -> list[Named]:
    """Group keys by their names. `keys` have no NULL; those that are not objects are added to `bad`."""
    first = _names(keys[0].as_py())
    if isinstance(first, dict) and _all_alike(keys, first):
        return [(first, np.arange(len(keys)))]
    found: dict[tuple[str, ...], list[int]] = {}
    kinds: dict[tuple[str, ...], dict[str, str]] = {}
    for i, text in enumerate(keys.to_pylist()):
        names = _names(text)
        if isinstance(names, str):
            bad.append((i, names))
        else:
            kinds.setdefault(tuple(names), names)
            found.setdefault(tuple(names), []).append(i)
    return [(kinds[names], np.array(places)) for names, places in found.items()]


def _names(text: bytes) -> dict[str, str] | str:
    """Name → JSON kind, or what is wrong."""
    try:
        value = key_payload(text)
    except (ValueError, RecursionError):
        return "has a key that is not JSON"
    if not isinstance(value, dict) or not value:
        return "has a key that is not a JSON object: its columns have no names"
    return {str(name): kind_of(v) for name, v in value.items()}


def key_payload(text: bytes) -> Any:
    """The payload of a key: without its schema, if it has one.

    Raises:
        ValueError: When the key is not JSON.
    """
    value = loads(text)
    return value["payload"] if isinstance(value, dict) and value.keys() == {"schema", "payload"} else value


def _all_alike(keys: pa.Array, names: dict[str, str]) -> bool:
    """Whether Arrow can read all keys with these names and no others."""
    if not set(names.values()) <= _WIRE.keys() or names.keys() == {"schema", "payload"}:
        return False
    wire = pa.struct([pa.field(name, _WIRE[kind]) for name, kind in names.items()])
    others: list[bool] = []

    def check_type(kind: pa.StructType) -> None:
        others.append(kind.num_fields > len(names))

    def refuse(_text: bytes) -> None:
        raise ValueError("other names")

    found = ObjectReader(wire, b'{"payload":', b"}", refuse, check_type).read(keys)
    return not found.bad and not any(others) and not any(child.null_count for child in found.rows.flatten())
