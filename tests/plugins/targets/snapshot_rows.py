"""Rows of a snapshot, as a source's chunk reader gives them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from replicator_sdk.schema import TableSchema
from replicator_sdk.snapshot import SnapshotChunk


@dataclass(frozen=True)
class SnapshotRows:
    """Reads these rows, whatever the chunk; picklable.

    Attributes:
        schema: The table's.
        values: The rows, each with the values of all columns in order.
    """

    schema: TableSchema
    values: Sequence[tuple[Any, ...]]

    def __call__(self, chunk: SnapshotChunk) -> Iterator[pa.RecordBatch]:
        """All rows, in one batch."""
        columns = [pa.array([row[i] for row in self.values], c.type.arrow) for i, c in enumerate(self.schema.columns)]
        yield pa.RecordBatch.from_arrays(columns, schema=self.schema.arrow)
