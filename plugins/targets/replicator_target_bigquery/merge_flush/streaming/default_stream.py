"""Tables' default streams: no stream to create and no quota of streams, but a request without an answer may write twice.

Rows of such a request may even arrive when its batch is merged already. None of that shows in a merged table:

- A merge reads the rows of its own batch number, in its own run's intermediate table. A number is given once, and the next
  merge's is higher, so rows that arrive after their merge are never read; the clean-up, or the end of the table, deletes them.
- Within a batch `i` names a change. The merge counts and takes each `i` once.
"""

from __future__ import annotations

from typing import Any

from replicator_sdk.schema import TableId
from replicator_target_bigquery.merge_flush.streaming.stream_writer import StreamWriter
from replicator_target_bigquery.merge_flush.streaming.streams import WriteStream
from replicator_target_bigquery.sql.table_ref import default_stream


class DefaultStream(StreamWriter):
    """Appends to default streams, each row at least once. Safe from several threads, one a table.

    Raises:
        NeedsUserError: When the library is missing.
    """

    def create(self, table: str, of: TableId) -> WriteStream:
        """The default stream of the table `projects/…/datasets/…/tables/…`, once it is known."""
        stream = default_stream(table)

        def ask() -> Any:
            return self._client.get_write_stream(name=stream, retry=None, timeout=60.0)

        self._opened(ask, table, of)
        return WriteStream(stream)

    def _request(self, stream: WriteStream, offset: int, rows: Any) -> Any:  # noqa: ARG002 - a default stream has no offsets
        return self._types.AppendRowsRequest(write_stream=stream.name, arrow_rows=rows)

    def _is_new(self, stream: WriteStream) -> bool:
        return stream.rows == 0  # servers that take rows learn of a table later than those that describe it
