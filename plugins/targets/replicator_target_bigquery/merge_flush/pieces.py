"""Arrow rows cut into what one request may hold."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from replicator_sdk.schema import TableId
from replicator_target_bigquery.failures import too_large

_REQUEST_BYTES: Final = 8 << 20  # BigQuery takes 10 MB with all that stands around the rows
_LARGEST_ROW: Final = 9 << 20


@dataclass(frozen=True, slots=True)
class Piece:
    """One request's rows, serialised."""

    rows: int
    content: bytes


def pieces(batch: pa.RecordBatch, of: TableId) -> Iterator[Piece]:
    """The rows in requests that BigQuery takes, halved until they are small enough."""
    if not batch.num_rows:
        return
    if batch.nbytes <= _REQUEST_BYTES or batch.num_rows == 1:
        content = batch.serialize().to_pybytes()
        if len(content) <= _LARGEST_ROW:
            yield Piece(batch.num_rows, content)
            return
        if batch.num_rows == 1:
            raise too_large(str(of))
    half = batch.num_rows // 2
    yield from pieces(batch.slice(0, half), of)
    yield from pieces(batch.slice(half), of)
