"""Arrow rows appended to streams of the Storage Write API; what got no answer is sent again."""

from __future__ import annotations

import random
import time
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import pyarrow as pa

from replicator_sdk.errors import ReplicatorError, RetryableError
from replicator_sdk.schema import TableId
from replicator_target_bigquery.api.clients import write_client
from replicator_target_bigquery.api.diagnosis import busy, failed_request, is_transient, silent
from replicator_target_bigquery.api.first_answer import PATIENCE, Service
from replicator_target_bigquery.api.jobs import Jobs
from replicator_target_bigquery.config import BigQueryConfig
from replicator_target_bigquery.merge_flush.streaming.request_chunks import RequestRows, request_chunks
from replicator_target_bigquery.merge_flush.streaming.streams import Streams, WriteStream, wrong_rows

_IN_FLIGHT_BYTES: Final = 64 << 20
_CALL_SECONDS: Final = 300.0
_APPEARS_SECONDS: Final = 60.0  # how long a table that was just created may be unknown here
_OK, _INVALID, _NOT_FOUND, _ALREADY_EXISTS = 0, 3, 5, 6
_BUSY: Final = frozenset({4, 8, 10, 11, 13, 14})  # temporary; a gap (11) follows a request that failed


class StreamWriter(Streams):
    """Appends to streams. Safe from several threads, one a stream.

    Raises:
        NeedsUserError: When the library is missing.
    """

    def __init__(self, config: BigQueryConfig, jobs: Jobs) -> None:
        self._client = write_client(config)
        from google.cloud import bigquery_storage_v1

        self._types = bigquery_storage_v1.types
        self._config = config
        self._jobs = jobs
        self._takes_rows = False  # whether rows have been acknowledged in this run

    def close(self) -> None:
        """Close the connection."""
        self._client.transport.close()

    def append(self, stream: WriteStream, batches: Iterable[pa.RecordBatch], of: TableId) -> int:
        """Append all rows, in order; they are in the stream when it returns. Returns how many.

        Raises:
            DataError: When BigQuery does not take them.
            RetryableError: When BigQuery does not answer, or the stream does not exist any more.
        """
        before, waiting, size = stream.rows, deque[RequestRows](), 0
        schema: bytes | None = None
        for batch in batches:
            schema = schema or batch.schema.serialize().to_pybytes()
            for chunk in request_chunks(batch, of):
                waiting.append(chunk)
                size += len(chunk.content)
                if size > _IN_FLIGHT_BYTES:
                    self._send(stream, schema, waiting, of)
                    size = 0
        if schema is not None:
            self._send(stream, schema, waiting, of)
        return stream.rows - before

    @abstractmethod
    def _request(self, stream: WriteStream, offset: int, rows: Any) -> Any:
        """The request that appends rows; `offset` is where they go in the stream."""

    def _is_new(self, stream: WriteStream) -> bool:  # noqa: ARG002 - most streams exist once they have a name
        """Whether the stream may be unknown for some time yet."""
        return False

    def _opened(self, ask: Callable[[], Any], table: str, of: TableId) -> Any:
        """The answer of a request for a stream whose table may just have been created."""
        from google.api_core.exceptions import NotFound

        until = time.monotonic() + _APPEARS_SECONDS

        def patiently() -> Any:
            while True:
                try:
                    return ask()
                except NotFound:
                    if time.monotonic() > until:
                        raise
                    self._pause(1.0, of)

        return self._jobs.request("opening a stream", of, patiently, place=table, service=Service.STREAMS)

    def _send(self, stream: WriteStream, schema: bytes, waiting: deque[RequestRows], of: TableId) -> None:
        """Send until nothing waits, again from the first chunk without an answer."""
        began, tries = time.monotonic(), 0
        while waiting:
            left = len(waiting)
            if self._sent(stream, schema, waiting, of):
                continue
            if len(waiting) < left:
                began, tries = time.monotonic(), 0
            waited = time.monotonic() - began
            if waited > self._config.retry_seconds:
                raise busy("streaming rows", str(of), self._config.retry_seconds)
            if not self._takes_rows and waited >= PATIENCE:
                raise silent("streaming rows", str(of), Service.STREAMS.title, Service.STREAMS.setting)
            tries += 1
            self._pause(random.uniform(0.5, 1.5) * min(20.0, 0.1 * 2.0**tries), of)  # noqa: S311 - spreads retries

    def _sent(self, stream: WriteStream, schema: bytes, waiting: deque[RequestRows], of: TableId) -> bool:
        """One connection; whether it came to its end. What has been answered waits no more."""
        requests = self._requests(stream, schema, list(waiting))
        try:
            with self._jobs.cancelling(self._client.transport.close):  # the call itself waits for the first answer
                answers = self._client.append_rows(
                    requests,
                    metadata=(("x-goog-request-params", f"write_stream={stream.name}"),),
                    retry=None,  # the client's own would continue after the requests it has sent already
                    timeout=_CALL_SECONDS if self._takes_rows else PATIENCE,
                )
                try:
                    return self._answered(answers, stream, waiting, of)
                finally:
                    answers.cancel()  # requests in flight would be written twice
        except Exception as err:
            if isinstance(err, ReplicatorError):
                raise
            if _is_lost(err) or (_code(err) == _NOT_FOUND and self._is_new(stream)):
                return False
            raise _stream_failed(err, of) from err

    def _answered(self, answers: Iterable[Any], stream: WriteStream, waiting: deque[RequestRows], of: TableId) -> bool:
        for answer in answers:
            code, self._takes_rows = int(answer.error.code), True
            if code not in {_OK, _ALREADY_EXISTS}:
                if code in _BUSY or (code == _NOT_FOUND and self._is_new(stream)):
                    return False
                raise _refused(code, of)
            stream.rows += waiting.popleft().rows
            if not waiting:
                break
        return not waiting

    def _requests(self, stream: WriteStream, schema: bytes, waiting: list[RequestRows]) -> Iterator[Any]:
        offset, data = stream.rows, self._types.AppendRowsRequest.ArrowData
        for number, chunk in enumerate(waiting):
            rows = data(rows=self._types.ArrowRecordBatch(serialized_record_batch=chunk.content))
            if number == 0:
                rows.writer_schema = self._types.ArrowSchema(serialized_schema=schema)
            yield self._request(stream, offset, rows)
            offset += chunk.rows

    def _pause(self, seconds: float, of: TableId) -> None:
        self._jobs.pause(seconds)
        if self._jobs.is_stopped:
            raise RetryableError(
                "rows were still being streamed when the run stopped",
                code="RPL-6603",
                table=str(of),
                hint="nothing to do: the next run streams them again",
            )


def _is_lost(err: Exception) -> bool:
    """Whether the connection broke: what has no answer is sent again."""
    from google.api_core.exceptions import Aborted, Cancelled, Unknown

    return is_transient(err) or isinstance(err, Aborted | Cancelled | Unknown)


def _code(err: Exception) -> int:
    """The gRPC status that Google's client raised; -1 when there was none."""
    status = getattr(err, "grpc_status_code", None)
    return -1 if status is None else int(status.value[0])


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
        return _refused(_code(err), of)
    if isinstance(err, GoogleAPICallError):
        return failed_request(err, "streaming rows", str(of))
    raise err
