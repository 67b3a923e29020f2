"""The interface of all ways to stream rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa

from replicator_sdk.errors import DataError
from replicator_sdk.schema import TableId


@dataclass(slots=True)
class WriteStream:
    """A stream of one table.

    Attributes:
        name: Its full name.
        rows: How many rows it has: where the next ones go.
    """

    name: str
    rows: int = 0


class Streams(ABC):
    """Creates streams and appends to them. Safe from several threads, one a stream."""

    @abstractmethod
    def create(self, table: str, of: TableId) -> WriteStream:
        """A stream of the table `projects/…/datasets/…/tables/…`."""

    @abstractmethod
    def append(self, stream: WriteStream, batches: Iterable[pa.RecordBatch], of: TableId) -> int:
        """Append all rows; BigQuery has them when it returns. Returns how many.

        Raises:
            DataError: When BigQuery does not take them.
            RetryableError: When BigQuery does not answer, or the stream does not exist any more.
        """

    @abstractmethod
    def close(self) -> None:
        """Close the connection."""


def wrong_rows(of: TableId) -> DataError:
    """The error for rows that BigQuery refuses."""
    return DataError(
        "BigQuery does not take the streamed rows",
        code="RPL-6605",
        table=str(of),
        hint="a value is out of its type's range, or another program altered the intermediate table",
    )
