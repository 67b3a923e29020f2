"""Rows of a table as Protocol Buffers, with a message type from its columns.

| BigQuery | field |
|---|---|
| INT64, DATE (days), TIMESTAMP (microseconds), BOOL | int64, int32, int64, bool |
| FLOAT64 | double |
| NUMERIC, BIGNUMERIC, DATETIME, TIME, STRING | string |
| BYTES | bytes |
| JSON | string |
| STRUCT | message |
| ARRAY | its elements, repeated |
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from replicator_target_bigquery.cdc.protobuf_encoding import absent, concatenated, doubles, joined, texts, varints
from replicator_target_bigquery.schema.encoding import columns_of
from replicator_target_bigquery.schema.fields import Field

if TYPE_CHECKING:
    from google.protobuf.descriptor_pb2 import DescriptorProto

# Numbers of google.protobuf.FieldDescriptorProto.Type and .Label.
_DOUBLE, _INT64, _INT32, _BOOL, _STRING, _MESSAGE, _BYTES = 1, 3, 5, 8, 9, 11, 12
_OPTIONAL, _REPEATED = 1, 3
_TYPES: Final = {
    "INT64": _INT64,
    "TIMESTAMP": _INT64,
    "DATE": _INT32,
    "BOOL": _BOOL,
    "FLOAT64": _DOUBLE,
    "BYTES": _BYTES,
    "STRUCT": _MESSAGE,
}
_VARINTS: Final = frozenset({_INT64, _INT32, _BOOL})


@dataclass(frozen=True, slots=True)
class MessageSchema:
    """The message type of a row.

    Attributes:
        fields: Its columns, numbered from 1 in this order.
    """

    fields: tuple[Field, ...]

    def descriptor(self, name: str = "Row") -> DescriptorProto:
        """The descriptor that the Storage Write API expects, nested types included."""
        from google.protobuf.descriptor_pb2 import DescriptorProto

        made = DescriptorProto(name=name)
        for number, column in enumerate(self.fields, 1):
            kind = _TYPES.get(column.type, _STRING)
            label: Any = _REPEATED if column.mode == "REPEATED" else _OPTIONAL
            field = made.field.add(name=column.name, number=number, type=kind, label=label)
            if kind == _MESSAGE:
                field.type_name = f"F{number}"
                made.nested_type.append(MessageSchema(column.fields).descriptor(field.type_name))
        return made

    def rows(self, columns: Mapping[str, pa.Array]) -> pa.Array:
        """The rows as messages.

        Args:
            columns: Arrow arrays by name, as `encoding.loadable` makes them; those that are missing are NULL.
        """
        parts = [
            _column(number, field, columns[field.name])
            for number, field in enumerate(self.fields, 1)
            if field.name in columns
        ]
        return joined(parts)


def framed(rows: pa.Array) -> pa.Array:
    """Messages as the elements of `ProtoRows.serialized_rows`; their concatenation is what is sent."""
    return texts(1, rows)


def _column(number: int, field: Field, values: pa.Array) -> pa.Array:
    kind = _TYPES.get(field.type, _STRING)
    if field.mode == "REPEATED":
        return _repeated(number, field, values)
    if kind == _MESSAGE:
        inside = _message(field.fields, values)
        return texts(number, absent(inside, values))
    if kind in _VARINTS:
        return varints(number, _whole(values))
    if kind == _DOUBLE:
        return doubles(number, values)
    return texts(number, values if pa.types.is_binary(values.type) else values.cast(pa.string()))


def _message(fields: Sequence[Field], values: pa.StructArray) -> pa.Array:
    """Each struct as a message; an empty one where it, or everything in it, is NULL."""
    return MessageSchema(tuple(fields)).rows(columns_of(values))


def _repeated(number: int, field: Field, values: pa.ListArray) -> pa.Array:
    """Each element as a field of its own; none is NULL (`encoding`)."""
    return concatenated(_column(number, replace(field, mode="NULLABLE"), values.flatten()), values)


def _whole(values: pa.Array) -> pa.Array:
    """Dates, times and booleans as whole numbers."""
    if pa.types.is_date32(values.type):
        return values.cast(pa.int32())
    if pa.types.is_boolean(values.type):
        return values.cast(pa.int8())
    return values
