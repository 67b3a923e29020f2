"""Streams of the Storage Read API: what a session has, read by Spark's executors.

A session reads one moment of a table, that of its creation, and ends six hours later (cloud.google.com/bigquery/docs/reference/storage,
"Snapshot consistency"). Its streams can be read as often as is wanted, from any row on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from replicator_sdk.errors import SchemaDriftError
from replicator_sdk.schema import TableSchema
from replicator_sdk.snapshot import SnapshotChunk
from replicator_target_bigquery.api.clients import read_client
from replicator_target_bigquery.api.first_answer import Service
from replicator_target_bigquery.api.retry import RetryPolicy
from replicator_target_bigquery.config import SEQUENCE, BigQueryConfig
from replicator_target_bigquery.reading.decoding import decoded

_STREAM: Final = "stream"
_CALL_SECONDS: Final = 300.0
VERSION: Final = pa.field(SEQUENCE, pa.int64())
"""The last column of what is read: the number of the change that wrote the row."""


def chunks_of(session: Any) -> tuple[SnapshotChunk, ...]:
    """The streams of a session, one a chunk."""
    return tuple(SnapshotChunk(place, {_STREAM: stream.name}) for place, stream in enumerate(session.streams))


@dataclass(frozen=True, slots=True)
class StreamRows:
    """Reads a stream as the rows of the source's schema, with `VERSION` after them. Picklable.

    Attributes:
        config: The settings.
        schema: The table's schema.
        columns: The names of its columns at the target, in order.
        form: The Arrow types in which they are compared.
        arrow_schema: What the session says of its batches.
        deleted: The column that marks deleted rows, which are left out; empty for none.
    """

    config: BigQueryConfig
    schema: TableSchema
    columns: Sequence[str]
    form: pa.Schema
    arrow_schema: bytes
    deleted: str = ""

    @property
    def read_form(self) -> pa.Schema:
        """What is read: `form`, and the version after it."""
        return self.form.append(VERSION)

    def __call__(self, chunk: SnapshotChunk) -> Iterator[pa.RecordBatch]:
        """The rows of a stream; on an executor, with a client of its own."""
        there = pa.ipc.read_schema(pa.py_buffer(self.arrow_schema))
        client = read_client(self.config)
        try:
            stream, policy = _Stream(client, chunk.bounds[_STREAM]), RetryPolicy(self.config.retry_seconds)
            what, table = "reading rows to compare", self.schema.table
            while (answer := policy.request(what, table, stream.next, service=Service.READS)) is not None:
                content = pa.py_buffer(answer.arrow_record_batch.serialized_record_batch)
                yield self._decoded(pa.ipc.read_record_batch(content, there))
        finally:
            client.transport.close()

    def _decoded(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        if self.deleted:
            rows = rows.filter(pa.compute.invert(pa.compute.fill_null(rows.column(self.deleted), fill_value=False)))
        try:
            columns = [
                decoded(rows.column(name), column.type, field.type)
                for name, column, field in zip(self.columns, self.schema.columns, self.form, strict=True)
            ]
        except pa.ArrowInvalid:  # its text may hold a value
            raise altered(self.schema) from None
        return pa.RecordBatch.from_arrays([*columns, rows.column(SEQUENCE).cast(VERSION.type)], schema=self.read_form)


class _Stream:
    """One stream from the first row on; goes on after what was read when the connection breaks."""

    def __init__(self, client: Any, name: str) -> None:
        self._client = client
        self._name = name
        self._rows = 0
        self._answers: Iterator[Any] | None = None

    def next(self) -> Any:
        """The next answer with rows; None at the end."""
        try:
            if self._answers is None:
                request = {"read_stream": self._name, "offset": self._rows}
                self._answers = iter(self._client.read_rows(request, retry=None, timeout=_CALL_SECONDS))
            answer = next((found for found in self._answers if found.row_count), None)
        except Exception:
            self._answers = None
            raise
        self._rows += 0 if answer is None else answer.row_count
        return answer


def altered(schema: TableSchema, what: str = "has values that the source's columns do not hold") -> SchemaDriftError:
    """The error for a table with other columns than the source's."""
    return SchemaDriftError(
        f"the table at the target {what}",
        code="RPL-6571",
        table=str(schema.table),
        hint="give the command again once the run has applied the change of structure; where no run can, copy the table"
        " again by `replicator table resync NAME TABLE --in-place`",
    )
