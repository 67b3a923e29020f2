"""The Storage Write API: Arrow rows appended to streams, each exactly once whatever answers get lost.

Every request names the place in the stream where its rows go. A request that is sent again after a lost answer meets rows at
its place already and is answered with ALREADY_EXISTS: that is success.
"""

from __future__ import annotations

import contextlib
import random
import time
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from replicator_sdk.errors import NeedsUserError, ReplicatorError, RetryableError
from replicator_sdk.schema import TableId
from replicator_target_bigquery.client import write_client
from replicator_target_bigquery.config import BigQueryConfig
from replicator_target_bigquery.failures import busy, failed_request, is_transient
from replicator_target_bigquery.jobs import Jobs
from replicator_target_bigquery.merge_flush.streams import Streams, WriteStream, too_large, wrong_rows

_REQUEST_BYTES: Final = 8 << 20  # BigQuery takes 10 MB with all that stands around the rows
_LARGEST_ROW: Final = 9 << 20
_IN_FLIGHT_BYTES: Final = 64 << 20
_CALL_SECONDS: Final = 300.0
_APPEARS_SECONDS: Final = 60.0  # how long a table that was just made may be unknown here
_OK, _INVALID, _ALREADY_EXISTS = 0, 3, 6
_BUSY: Final = frozenset({4, 8, 10, 11, 13, 14})  # what time mends; a gap (11) follows a request that failed


@dataclass(frozen=True, slots=True)
class _Piece:
    """One request's rows, serialised."""

    rows: int
    content: bytes


class WriteApi(Streams):
    """Makes streams and appends to them. Safe from several threads, one a stream.

    Raises:
        NeedsUserError: When the library is missing.
    """

    def __init__(self, config: BigQueryConfig, jobs: Jobs) -> None:
        self._client = write_client(config)
        from google.cloud import bigquery_storage_v1

        self._types = bigquery_storage_v1.types
        self._config = config
        self._jobs = jobs

    def close(self) -> None:
        """Close the connection."""
        self._client.transport.close()

    def create(self, table: str, of: TableId, *, pending: bool = False) -> WriteStream:
        """A stream of the table `projects/…/datasets/…/tables/…`, whose rows are there at once, or on `commit`.

        A stream that is made twice after a lost answer is left behind empty, and goes with its table or by itself.
        """
        from google.api_core.exceptions import NotFound

        kind = self._types.WriteStream.Type
        wanted = self._types.WriteStream(type_=kind.PENDING if pending else kind.COMMITTED)
        until = time.monotonic() + _APPEARS_SECONDS

        def ask() -> Any:
            while True:
                try:
                    return self._client.create_write_stream(parent=table, write_stream=wanted, retry=None, timeout=60.0)
                except NotFound:
                    if time.monotonic() > until:
                        raise
                    self._pause(1.0, of)

        return WriteStream(self._jobs.ask("opening a stream", of, ask, place=table).name)

    def append(self, stream: WriteStream, batches: Iterable[pa.RecordBatch], of: TableId) -> int:
        """Append all rows, in order; they are in the stream when it returns. Returns how many.

        Raises:
            DataError: When BigQuery does not take them.
            RetryableError: When it is away, or the stream is.
        """
        before, waiting, size = stream.rows, deque[_Piece](), 0
        schema: bytes | None = None
        for batch in batches:
            schema = schema or batch.schema.serialize().to_pybytes()
            for piece in _pieces(batch, of):
                waiting.append(piece)
                size += len(piece.content)
                if size > _IN_FLIGHT_BYTES:
                    self._send(stream, schema, waiting, of)
                    size = 0
        if schema is not None:
            self._send(stream, schema, waiting, of)
        return stream.rows - before

    def close_stream(self, stream: WriteStream, of: TableId) -> None:
        """Let nothing be appended any more; a stream that is closed is no error."""
        from google.api_core.exceptions import FailedPrecondition

        def ask() -> None:
            with contextlib.suppress(FailedPrecondition):
                self._client.finalize_write_stream(name=stream.name, retry=None, timeout=60.0)

        self._jobs.ask("closing a stream", of, ask, place=stream.name)

    def commit(self, table: str, stream: str, of: TableId) -> None:
        """Make the rows of a closed pending stream part of its table, all at once; it may have happened already.

        Raises:
            NeedsUserError: When nobody knows the stream any more.
        """
        request = self._types.BatchCommitWriteStreamsRequest(parent=table, write_streams=[stream])

        def ask() -> Any:
            return self._client.batch_commit_write_streams(request=request, retry=None, timeout=60.0)

        answer = self._jobs.ask("committing appended rows", of, ask, place=table)
        done = self._types.StorageError.StorageErrorCode.STREAM_ALREADY_COMMITTED
        errors = [error for error in answer.stream_errors if error.code != done]
        if errors:
            raise NeedsUserError(
                f"rows were to be appended by a stream that cannot be committed ({errors[0].code.name})",
                code="RPL-6608",
                table=str(of),
                hint="see whether its rows are in the table; then take a new snapshot of the table",
            )

    def _send(self, stream: WriteStream, schema: bytes, waiting: deque[_Piece], of: TableId) -> None:
        """Send until nothing waits, again from the first piece without an answer."""
        began, tries = time.monotonic(), 0
        while waiting:
            left = len(waiting)
            if self._sent(stream, schema, waiting, of):
                continue
            if len(waiting) < left:
                began, tries = time.monotonic(), 0
            if time.monotonic() - began > self._config.retry_seconds:
                raise busy("streaming rows", str(of), self._config.retry_seconds)
            tries += 1
            self._pause(random.uniform(0.5, 1.5) * min(20.0, 0.1 * 2.0**tries), of)  # noqa: S311 - spreads retries

    def _sent(self, stream: WriteStream, schema: bytes, waiting: deque[_Piece], of: TableId) -> bool:
        """One connection; whether it came to its end. What has been answered waits no more."""
        requests = self._requests(stream, schema, list(waiting))
        try:
            answers = self._client.append_rows(
                requests, metadata=(("x-goog-request-params", f"write_stream={stream.name}"),), timeout=_CALL_SECONDS
            )
            for answer in answers:
                code = int(answer.error.code)
                if code not in {_OK, _ALREADY_EXISTS}:
                    if code in _BUSY:
                        return False
                    raise _refused(code, of)
                stream.rows += waiting.popleft().rows
                if not waiting:
                    break
        except Exception as err:
            if isinstance(err, ReplicatorError):
                raise
            if _is_lost(err):
                return False
            raise _stream_failed(err, of) from err
        return not waiting

    def _requests(self, stream: WriteStream, schema: bytes, pieces: list[_Piece]) -> Iterator[Any]:
        place, data = stream.rows, self._types.AppendRowsRequest.ArrowData
        for number, piece in enumerate(pieces):
            rows = data(rows=self._types.ArrowRecordBatch(serialized_record_batch=piece.content))
            if number == 0:
                rows.writer_schema = self._types.ArrowSchema(serialized_schema=schema)
            yield self._types.AppendRowsRequest(write_stream=stream.name, offset=place, arrow_rows=rows)
            place += piece.rows

    def _pause(self, seconds: float, of: TableId) -> None:
        self._jobs.pause(seconds)
        if self._jobs.is_stopped:
            raise RetryableError(
                "rows were still being streamed when the run stopped",
                code="RPL-6603",
                table=str(of),
                hint="nothing to do: the next run streams them again",
            )


def _pieces(batch: pa.RecordBatch, of: TableId) -> Iterator[_Piece]:
    """The rows in requests that BigQuery takes, halved until they are small enough."""
    if not batch.num_rows:
        return
    if batch.nbytes <= _REQUEST_BYTES or batch.num_rows == 1:
        content = batch.serialize().to_pybytes()
        if len(content) <= _LARGEST_ROW:
            yield _Piece(batch.num_rows, content)
            return
        if batch.num_rows == 1:
            raise too_large(of)
    half = batch.num_rows // 2
    yield from _pieces(batch.slice(0, half), of)
    yield from _pieces(batch.slice(half), of)


def _is_lost(err: Exception) -> bool:
    """Whether the connection broke: what has no answer is sent again, and is not written twice."""
    from google.api_core.exceptions import Aborted, Cancelled, Unknown

    return is_transient(err) or isinstance(err, Aborted | Cancelled | Unknown)


def _refused(code: int, of: TableId) -> ReplicatorError:
    if code == _INVALID:
        return wrong_rows(of)
    return RetryableError(
        f"a stream takes no more rows (status {code})",
        code="RPL-6606",
        table=str(of),
        hint="nothing to do: the rows are streamed again, into a table of their own",
    )


def _stream_failed(err: Exception, of: TableId) -> ReplicatorError:
    from google.api_core.exceptions import FailedPrecondition, GoogleAPICallError, InvalidArgument, NotFound

    if isinstance(err, InvalidArgument):
        return _refused(_INVALID, of)
    if isinstance(err, FailedPrecondition | NotFound):
        return _refused(int(getattr(err, "grpc_status_code", None).value[0]), of)  # type: ignore[union-attr]
    if isinstance(err, GoogleAPICallError):
        return failed_request(err, "streaming rows", str(of))
    raise err
