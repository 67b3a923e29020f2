"""Splits Arrow rows into parts that fit into one request."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from replicator_sdk.schema import TableId
from replicator_target_bigquery.api.diagnosis import too_large

_REQUEST_BYTES: Final = 8 << 20  # BigQuery takes 10 MB, the other fields of the request included
_LARGEST_ROW: Final = 9 << 20


@dataclass(frozen=True, slots=True)
class RequestRows:
    """One request's rows, serialised."""

    rows: int
    content: bytes


def request_chunks(batch: pa.RecordBatch, of: TableId) -> Iterator[RequestRows]:
    """The rows in requests that BigQuery takes, halved until they are small enough."""
    if not batch.num_rows:
        return
    if batch.nbytes <= _REQUEST_BYTES or batch.num_rows == 1:
        content = batch.serialize().to_pybytes()
        if len(content) <= _LARGEST_ROW:
            yield RequestRows(batch.num_rows, content)
            return
        if batch.num_rows == 1:
            raise too_large(str(of))
    half = batch.num_rows // 2
    yield from request_chunks(batch.slice(0, half), of)
    yield from request_chunks(batch.slice(half), of)
