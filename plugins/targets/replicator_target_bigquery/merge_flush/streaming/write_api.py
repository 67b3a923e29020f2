"""Streams of our own: each row is appended exactly once, whatever answers get lost.

Every request names the place in the stream where its rows go. A request that is sent again after a lost answer meets rows at
its place already and is answered with ALREADY_EXISTS: that is success.
"""

from __future__ import annotations

import contextlib
from typing import Any

from replicator_sdk.errors import NeedsUserError
from replicator_sdk.schema import TableId
from replicator_target_bigquery.api.first_answer import Service
from replicator_target_bigquery.merge_flush.streaming.stream_writer import StreamWriter
from replicator_target_bigquery.merge_flush.streaming.streams import WriteStream


class WriteApi(StreamWriter):
    """Creates committed and pending streams and appends to them. Safe from several threads, one a stream.

    Raises:
        NeedsUserError: When the library is missing.
    """

    def create(self, table: str, of: TableId, *, pending: bool = False) -> WriteStream:
        """A stream of the table `projects/…/datasets/…/tables/…`, whose rows can be read at once, or after `commit`.

        A stream that is created twice after a lost answer stays empty, and is removed with its table or by BigQuery.
        """
        kind = self._types.WriteStream.Type
        wanted = self._types.WriteStream(type_=kind.PENDING if pending else kind.COMMITTED)

        def ask() -> Any:
            return self._client.create_write_stream(parent=table, write_stream=wanted, retry=None, timeout=60.0)

        return WriteStream(self._opened(ask, table, of).name)

    def close_stream(self, stream: WriteStream, of: TableId) -> None:
        """Finalize a stream, so that nothing is appended any more; a finalized stream is no error."""
        from google.api_core.exceptions import FailedPrecondition

        def ask() -> None:
            with contextlib.suppress(FailedPrecondition):
                self._client.finalize_write_stream(name=stream.name, retry=None, timeout=60.0)

        self._jobs.request("closing a stream", of, ask, place=stream.name, service=Service.STREAMS)

    def commit(self, table: str, stream: str, of: TableId) -> None:
        """Commit the rows of a closed pending stream, all at once; one that is committed already is no error.

        Raises:
            NeedsUserError: When the stream does not exist any more.
        """
        request = self._types.BatchCommitWriteStreamsRequest(parent=table, write_streams=[stream])

        def ask() -> Any:
            return self._client.batch_commit_write_streams(request=request, retry=None, timeout=60.0)

        answer = self._jobs.request("committing appended rows", of, ask, place=table, service=Service.STREAMS)
        done = self._types.StorageError.StorageErrorCode.STREAM_ALREADY_COMMITTED
        errors = [error for error in answer.stream_errors if error.code != done]
        if errors:
            raise NeedsUserError(
                f"rows were to be appended by a stream that cannot be committed ({errors[0].code.name})",
                code="RPL-6608",
                table=str(of),
                hint="see whether its rows are in the table; then copy the table again: `replicator table resync NAME TABLE --in-place`",
            )

    def _request(self, stream: WriteStream, offset: int, rows: Any) -> Any:
        return self._types.AppendRowsRequest(write_stream=stream.name, offset=offset, arrow_rows=rows)
