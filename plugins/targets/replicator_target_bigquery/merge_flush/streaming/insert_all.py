"""`tabledata.insertAll` in place of the Storage Write API: JSON, for projects that may not use the other.

It may write a row twice, and show it late. Neither does harm here: rows are counted and identified by `i`, and a merge waits
until it can read all of them. The way to JSON makes a Python object for each value, which the other way never does.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterable, Iterator
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from replicator_sdk.schema import TableId
from replicator_target_bigquery.api.diagnosis import too_large
from replicator_target_bigquery.api.jobs import Jobs
from replicator_target_bigquery.merge_flush.intermediate.rows import I
from replicator_target_bigquery.merge_flush.streaming.streams import Streams, WriteStream, wrong_rows

_ROWS: Final = 500
_REQUEST_BYTES: Final = 8 << 20
_APPEARS_SECONDS: Final = 60.0  # how long a table that was just created may be unknown here
_SECONDS: Final = 60.0


class InsertAll(Streams):
    """Inserts rows by requests that name each row, so that BigQuery drops most duplicates."""

    def __init__(self, client: Any, jobs: Jobs) -> None:
        self._client = client
        self._jobs = jobs

    def create(self, table: str, of: TableId) -> WriteStream:  # noqa: ARG002 - sends no request
        """No stream is opened; its name is the table's, as Google's client takes it."""
        _, project, _, dataset, _, name = table.split("/")
        return WriteStream(f"{project}.{dataset}.{name}")

    def append(self, stream: WriteStream, batches: Iterable[pa.RecordBatch], of: TableId) -> int:
        """Insert all rows; BigQuery has them on return, and they can be read soon. Returns how many."""
        before = stream.rows
        for batch in batches:
            for start in range(0, batch.num_rows, _ROWS):
                rows = json_rows(batch.slice(start, _ROWS))
                for part in _parts(rows, of):
                    self._insert(stream.name, part, of)
                stream.rows += len(rows)
        return stream.rows - before

    def close(self) -> None:
        """The client is the consumer's."""

    def _insert(self, table: str, rows: list[dict[str, Any]], of: TableId) -> None:
        from google.api_core.exceptions import NotFound

        until = time.monotonic() + _APPEARS_SECONDS

        def ask() -> Any:
            while True:
                try:
                    return self._client.insert_rows_json(
                        table, rows, row_ids=[row[I] for row in rows], retry=None, timeout=_SECONDS
                    )
                except NotFound:
                    if time.monotonic() > until or self._jobs.is_stopped:
                        raise
                    self._jobs.pause(1.0)

        if self._jobs.request("inserting rows", of, ask, place=table):
            raise wrong_rows(of)


def json_rows(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """Rows as insertAll takes them: numbers as text, since JSON's have 53 bits."""
    rows: list[dict[str, Any]] = pa.RecordBatch.from_arrays(
        [_plain(column) for column in batch.columns], names=batch.schema.names
    ).to_pylist()
    return rows


def _plain(column: pa.Array) -> pa.Array:
    """A column of types whose `to_pylist` values are JSON values."""
    kind = column.type
    if pa.types.is_struct(kind):
        names = [kind.field(place).name for place in range(kind.num_fields)]
        return pa.StructArray.from_arrays([_plain(c) for c in column.flatten()], names, mask=pc.is_null(column))
    if pa.types.is_list(kind):
        return pa.ListArray.from_arrays(column.offsets, _plain(column.values), mask=pc.is_null(column))
    return column if pa.types.is_boolean(kind) else _as_text(column)


def _as_text(column: pa.Array) -> pa.Array:
    kind = column.type
    if pa.types.is_binary(kind):
        values = column.to_pylist()
        return pa.array([None if v is None else base64.b64encode(v).decode() for v in values], pa.string())
    if pa.types.is_timestamp(kind):
        return pc.strftime(column, format="%Y-%m-%d %H:%M:%S" + ("+00:00" if kind.tz else ""))
    text = column.cast(pa.string())
    if pa.types.is_floating(kind):
        for arrow, google in (("nan", "NaN"), ("inf", "Infinity"), ("-inf", "-Infinity")):
            text = pc.if_else(pc.equal(text, arrow), google, text)
    return text


def _parts(rows: list[dict[str, Any]], of: TableId) -> Iterator[list[dict[str, Any]]]:
    """The rows in requests that BigQuery takes, halved until they are small enough."""
    if len(json.dumps(rows)) <= _REQUEST_BYTES:
        yield rows
        return
    if len(rows) == 1:
        raise too_large(str(of))
    half = len(rows) // 2
    yield from _parts(rows[:half], of)
    yield from _parts(rows[half:], of)
