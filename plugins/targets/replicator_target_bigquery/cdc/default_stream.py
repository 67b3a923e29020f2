"""Sends rows to a table's default stream; rows may be sent again, because BigQuery orders them by sequence number."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any, Final

from replicator_sdk.errors import DataError
from replicator_sdk.schema import TableId
from replicator_target_bigquery.api.clients import write_client
from replicator_target_bigquery.api.first_answer import PATIENCE, Service
from replicator_target_bigquery.api.jobs import Jobs
from replicator_target_bigquery.config import BigQueryConfig
from replicator_target_bigquery.sql.table_ref import TableRef, default_stream

_METHOD: Final = "/google.cloud.bigquery.storage.v1.BigQueryWrite/AppendRows"
_SECONDS: Final = 600.0
_MISMATCH: Final = 11  # google.cloud.bigquery.storage.v1.StorageError.StorageErrorCode.SCHEMA_MISMATCH_EXTRA_FIELDS


class DefaultStreams:
    """Connections to default streams. Safe from several threads."""

    def __init__(self, config: BigQueryConfig, jobs: Jobs) -> None:
        self._config = config
        self._jobs = jobs
        self._channel: Any = None
        self._lock = threading.Lock()

    def append(self, ref: TableRef, table: TableId, make: Callable[[str], Iterator[bytes]]) -> int:
        """Send requests and wait until BigQuery has all of their rows; returns how many requests that were.

        Args:
            ref: The table at the target.
            table: The table at the source.
            make: Creates the serialised requests for a stream's name; called again when they are sent again.

        Raises:
            DataError: When BigQuery refuses rows.
        """
        stream = default_stream(ref.path)
        what = f"streaming changes to {ref.id}"
        sent: int = self._jobs.request(
            what, table, lambda: self._send(stream, table, make), place=ref.id, service=Service.STREAMS
        )
        return sent

    def close(self) -> None:
        """Close the connections."""
        with self._lock:
            if self._channel is not None:
                self._channel.close()
                self._channel = None

    def _send(self, stream: str, table: TableId, make: Callable[[str], Iterator[bytes]]) -> int:
        import grpc

        errors = _google_errors()
        requests = _Watched(make(stream))
        seconds = _SECONDS if self._jobs.has_answered(Service.STREAMS) else PATIENCE
        call = self._open()(requests, metadata=(("x-goog-request-params", f"write_stream={stream}"),), timeout=seconds)
        answered = 0
        try:
            with self._jobs.cancelling(call.cancel):
                for answer in call:
                    self._jobs.note_answer(Service.STREAMS)
                    _refuse(answer, table)
                    answered += 1
        except grpc.RpcError as err:
            if requests.error is not None:
                raise requests.error from err
            known = errors.from_grpc_error(err)
            if isinstance(known, errors.Aborted):
                raise errors.ServiceUnavailable("aborted") from err
            raise known from err
        finally:
            call.cancel()
        if requests.error is not None:
            raise requests.error
        if answered < requests.count:
            raise errors.ServiceUnavailable("the connection ended before every request was answered")
        return answered

    def _open(self) -> Any:
        with self._lock:
            if self._channel is None:
                self._channel = write_client(self._config).transport.grpc_channel
        from google.cloud.bigquery_storage_v1.types import AppendRowsResponse

        return self._channel.stream_stream(_METHOD, response_deserializer=AppendRowsResponse.deserialize)


def _google_errors() -> Any:
    from google.api_core import exceptions

    return exceptions


class _Watched:
    """Counts requests and keeps the error of creating one, which gRPC's own thread would hide."""

    def __init__(self, requests: Iterator[bytes]) -> None:
        self._requests = requests
        self.count = 0
        self.error: BaseException | None = None

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        try:
            made = next(self._requests)
        except StopIteration:
            raise
        except BaseException as err:
            self.error = err
            raise
        self.count += 1
        return made


def _refuse(answer: Any, table: TableId) -> None:
    """Raise the error in an answer; its texts may quote values, so none of them is repeated."""
    errors = _google_errors()
    if answer.row_errors:
        raise DataError(
            f"BigQuery refuses {len(answer.row_errors)} rows of a request",
            code="RPL-6706",
            table=str(table),
            hint="a value out of its type's range, or a manually altered table; other rows of the batch are sent again",
        )
    if not answer.error.code:
        return
    if _MISMATCH in _storage_errors(answer.error):
        raise errors.ServiceUnavailable("a new column is not known to the stream yet")
    error = errors.from_grpc_status(answer.error.code, "refused")
    if isinstance(error, errors.NotFound):  # for some time after a table was created
        raise errors.ServiceUnavailable("the table's stream is not there yet")
    raise error


def _storage_errors(status: Any) -> set[int]:
    from google.cloud.bigquery_storage_v1.types import StorageError

    kind = "type.googleapis.com/google.cloud.bigquery.storage.v1.StorageError"
    return {int(StorageError.deserialize(d.value).code) for d in status.details if d.type_url == kind}
