"""Rows as Protocol Buffers: Google's library reads from them what the columns held, for every type and any slice."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from google.cloud.bigquery_storage_v1.types import AppendRowsRequest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from hypothesis import given, settings
from hypothesis import strategies as st

from replicator_sdk.datatype import (
    BINARY,
    BOOL,
    DATE,
    FLOAT64,
    INT64,
    STRING,
    TIMESTAMP,
    Array,
    DataType,
    Decimal,
    Record,
)
from replicator_target_bigquery.cdc import append_requests as requests
from replicator_target_bigquery.cdc.protobuf_rows import MessageSchema
from replicator_target_bigquery.schema.encoding import loadable
from replicator_target_bigquery.schema.fields import field_of

_TEXTS = st.text(max_size=4) | st.just("é" * 200)
_VALUES: dict[DataType, st.SearchStrategy[Any]] = {
    INT64: st.integers(-(2**63), 2**63 - 1) | st.integers(-2, 200),
    BOOL: st.booleans(),
    FLOAT64: st.floats(allow_nan=False),
    STRING: _TEXTS,
    BINARY: st.binary(max_size=300),
    Decimal(12, 2): st.decimals(-999, 999, places=2),
    DATE: st.dates(),
    TIMESTAMP: st.datetimes(),
    Array(INT64): st.lists(st.none() | st.integers(-300, 300), max_size=3),
    Record((("x", INT64), ("tags", Array(STRING)))): st.fixed_dictionaries(
        {"x": st.none() | st.integers(0, 9), "tags": st.none() | st.lists(st.none() | _TEXTS, max_size=2)}
    ),
}
_NAMES = {f"c{i}": kind for i, kind in enumerate(_VALUES)}
_SCHEMA = MessageSchema(tuple(field_of(name, kind) for name, kind in _NAMES.items()))


def read(rows: list[bytes]) -> list[Any]:
    """The rows by Google's library."""
    file = descriptor_pb2.FileDescriptorProto(name="rows.proto", syntax="proto2")
    file.message_type.add().CopyFrom(_SCHEMA.descriptor())
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    kind = message_factory.GetMessageClass(pool.FindMessageTypeByName("Row"))
    return [kind.FromString(row) for row in rows]


def plain(message: Any, name: str, kind: DataType) -> Any:
    """A field's value as the standard type has it; None when it is absent."""
    if not message.HasField(name):
        return None
    value = getattr(message, name)
    if isinstance(kind, Array):
        return [plain(one, "element", kind.element) for one in value.list]
    if isinstance(kind, Record):
        return {inner: plain(value, inner, of) for inner, of in kind.fields}
    return value


def expected(kind: DataType, value: Any) -> Any:
    """What the field must hold."""
    if value is None or kind in {INT64, BOOL, FLOAT64, STRING, BINARY} or isinstance(kind, Array | Record):
        return value
    if kind is DATE:
        return value.toordinal() - 719_163
    if kind is TIMESTAMP:
        return value.strftime("%Y-%m-%d %H:%M:%S.%f").rjust(26, "0")
    return str(value)


@settings(max_examples=40, deadline=None)
@given(st.data(), st.integers(0, 3))
def test_every_value_of_any_slice_is_read_back(data: st.DataObject, skipped: int) -> None:
    size = data.draw(st.integers(skipped, 12))
    given_values = {
        name: data.draw(st.lists(st.none() | _VALUES[kind], min_size=size, max_size=size))
        for name, kind in _NAMES.items()
    }
    columns = {name: loadable(pa.array(given_values[name], kind.arrow).slice(skipped)) for name, kind in _NAMES.items()}
    found = read(_SCHEMA.rows(columns).to_pylist())
    assert len(found) == size - skipped
    for name, kind in _NAMES.items():
        wanted = [expected(kind, v) for v in given_values[name][skipped:]]
        assert [plain(message, name, kind) for message in found] == wanted


@settings(max_examples=40, deadline=None)
@given(st.lists(st.binary(max_size=40), max_size=30), st.integers(1, 120))
def test_requests_hold_all_rows_in_order_and_none_is_too_large(rows: list[bytes], most: int) -> None:
    before, requests.REQUEST_BYTES = requests.REQUEST_BYTES, most  # type: ignore[misc]
    try:
        parts = list(requests.row_parts(pa.array(rows, pa.binary()), AssertionError))
        sent = [AppendRowsRequest.deserialize(r) for r in requests.requests("stream", _SCHEMA, parts)]
    finally:
        requests.REQUEST_BYTES = before  # type: ignore[misc]
    assert [row for request in sent for row in request.proto_rows.rows.serialized_rows] == rows
    assert all(len(part.content) <= most or part.rows == 1 for part in parts)
    assert [bool(request.write_stream) for request in sent] == [True, *[False] * (len(sent) - 1)][: len(sent)]
    assert all(bool(r.proto_rows.writer_schema.proto_descriptor.field) == (i == 0) for i, r in enumerate(sent))
