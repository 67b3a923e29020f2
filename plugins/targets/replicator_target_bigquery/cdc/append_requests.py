"""`AppendRowsRequest`s around encoded rows: no work is done per row, and no row is copied."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from replicator_sdk.authoring.arrow_buffers import joined_bytes
from replicator_target_bigquery.cdc.protobuf_rows import MessageSchema, framed

REQUEST_BYTES: Final = 8 << 20  # of the 10 MB that BigQuery takes
LARGEST_ROW: Final = 9_900_000
# Field numbers of google.cloud.bigquery.storage.v1: AppendRowsRequest, its ProtoData, their ProtoSchema.
_WRITE_STREAM, _PROTO_ROWS, _TRACE_ID = 1, 4, 6
_WRITER_SCHEMA, _ROWS = 1, 2
_PROTO_DESCRIPTOR: Final = 1
_TRACE: Final = b"replicator:cdc"


@dataclass(frozen=True, slots=True)
class RowsPart:
    """Rows of one request.

    Attributes:
        rows: How many.
        content: The rows as `ProtoRows`.
    """

    rows: int
    content: memoryview


def row_parts(rows: pa.Array, too_large: Callable[[], Exception]) -> Iterator[RowsPart]:
    """Messages in parts that fit into one request.

    Args:
        rows: The messages, none NULL.
        too_large: Makes the error for a row that no request can hold.
    """
    whole = framed(rows)
    content, offsets = joined_bytes(whole)
    start, data = 0, content.data
    while start < len(whole):
        stop = int(np.searchsorted(offsets, offsets[start] + REQUEST_BYTES, side="right")) - 1
        stop = max(stop, start + 1)
        if offsets[stop] - offsets[start] > LARGEST_ROW:
            raise too_large()
        yield RowsPart(stop - start, data[offsets[start] : offsets[stop]])
        start = stop


def requests(stream: str, schema: MessageSchema, given: Iterable[RowsPart]) -> Iterator[bytes]:
    """Serialised requests of one connection; the first carries the stream and the schema."""
    head = _field(_WRITE_STREAM, stream.encode()) + _field(_TRACE_ID, _TRACE)
    descriptor = _field(_WRITER_SCHEMA, _field(_PROTO_DESCRIPTOR, schema.descriptor().SerializeToString()))
    for part in given:
        yield head + _field(_PROTO_ROWS, descriptor + _field(_ROWS, part.content))
        head = descriptor = b""


def _field(number: int, content: bytes | memoryview) -> bytes:
    return b"".join((_varint(number << 3 | 2), _varint(len(content)), content))


def _varint(value: int) -> bytes:
    made = bytearray()
    while value > 0x7F:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    made.append(value)
    return bytes(made)
