"""Reads JSON without a schema: types are inferred from the values, or configured in the settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from replicator_source_kafka.formats.json_records.json_objects import ObjectReader, Objects
from replicator_source_kafka.formats.json_records.json_value import NOT_FINITE
from replicator_source_kafka.types.column_codec import Codec
from replicator_source_kafka.types.type_hints import hinted_codec

Shape = dict[str, str]
"""Column → `null`, `bool`, `int`, `float`, `token`, `string` or `nested`."""

_JOINED = {
    ("int", "float"): "float",
    ("int", "token"): "float",
    ("token", "int"): "float",
    ("token", "float"): "float",
    ("token", "string"): "string",
}
"""Known kind and another one → the kind that holds both, if it is not the known one. A `token` is text such as `NaN`."""

_SAMPLES, _MOST_PASSES = 16, 12


def kind_of(value: Any) -> str:
    """The JSON kind of one value."""
    if value is None:
        return "null"
    if isinstance(value, str) and value in NOT_FINITE:
        return "token"
    for kind, types in (("bool", bool), ("int", int), ("float", float), ("string", str)):
        if isinstance(value, types):
            return kind
    return "nested"


def kind_of_type(kind: pa.DataType) -> str:
    """The JSON kind of a column whose type Arrow inferred."""
    if pa.types.is_null(kind):
        return "null"
    if pa.types.is_boolean(kind):
        return "bool"
    if pa.types.is_integer(kind):
        return "int"
    if pa.types.is_floating(kind):
        return "float"
    return "nested" if pa.types.is_nested(kind) else "string"


def learn(shape: Shape, name: str, kind: str) -> bool:
    """Add the kind of a value; returns whether the shape changed. A kind that does not fit the known one is ignored."""
    known = shape.get(name, "")
    if known == kind or (kind == "null" and known):
        return False
    later = kind if known in {"", "null"} else _JOINED.get((known, kind))
    if later is None:
        return False
    shape[name] = later
    return True


@dataclass(frozen=True, slots=True)
class InferredRows:
    """Rows of one table.

    Attributes:
        objects: The objects; the rows are in the members `members` of each one.
        codecs: The codec of each column. Columns without any value are left out, unless their type is configured.
    """

    objects: Objects
    codecs: dict[str, Codec]


@dataclass(frozen=True, slots=True)
class InferredReader:
    """Reads objects whose members `members` are rows of one table, all with the same columns.

    Attributes:
        members: Names of the members that are rows.
        fixed: The other members to read.
        head: Put before each text, see `ObjectReader`.
        tail: Put after it.
        payload_of: Returns the payload of one text.
        hints: Column → configured type.
        expected: Columns that are always read, and their kinds if sampled rows have no value.
    """

    members: tuple[str, ...]
    fixed: tuple[pa.Field, ...]
    head: bytes
    tail: bytes
    payload_of: Callable[[bytes], Any]
    hints: Mapping[str, str]
    expected: Mapping[str, str]

    def read(self, texts: pa.Array) -> InferredRows:
        """The rows in `texts`. A text with a value of another kind than its column's is bad.

        Raises:
            ValueError: When a column's values cannot be of the configured type.
        """
        shape: Shape = {}
        for i in range(0, len(texts), -(-len(texts) // _SAMPLES)):
            try:
                self._learn_from(self.payload_of(texts[i].as_py()), shape)
            except (ValueError, RecursionError):
                continue
        for name, kind in self.expected.items():
            shape.setdefault(name, kind)
        codecs, objects, learned = self._pass(texts, shape)
        for _ in range(_MOST_PASSES):
            if not learned:
                break
            codecs, objects, learned = self._pass(texts, shape)
        seen = {name: c for name, c in codecs.items() if shape[name] != "null" or name in self.hints}
        return InferredRows(objects, seen)

    def _pass(self, texts: pa.Array, shape: Shape) -> tuple[dict[str, Codec], Objects, bool]:
        """Read with the known shape; returns whether the shape changed, in which case the rows are incomplete."""
        learned: list[bool] = []
        codecs = {name: hinted_codec(kind, self.hints.get(name)) for name, kind in shape.items()}
        objects = self._reader(codecs, shape, learned).read(texts)
        return codecs, objects, any(learned)

    def _reader(self, codecs: Mapping[str, Codec], shape: Shape, learned: list[bool]) -> ObjectReader:
        row = pa.struct([pa.field(name, codec.wire) for name, codec in codecs.items() if shape[name] != "null"])
        wire = pa.struct([*(pa.field(member, row) for member in self.members), *self.fixed])

        def learn_from_type(kind: pa.StructType) -> None:
            for member in self.members:
                learned.extend([learn(shape, f.name, kind_of_type(f.type)) for f in kind.field(member).type])

        def payload_of(text: bytes) -> Any:
            payload = self.payload_of(text)
            learned.append(self._learn_from(payload, shape))
            return payload

        return ObjectReader(wire, self.head, self.tail, payload_of, learn_from_type)

    def _learn_from(self, payload: Any, shape: Shape) -> bool:
        new = [False]
        for member in self.members:
            row = payload.get(member) if isinstance(payload, dict) else None
            if isinstance(row, dict):
                new.extend([learn(shape, name, kind_of(value)) for name, value in row.items()])
        return any(new)
