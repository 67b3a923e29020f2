"""A gate before the emulator's Storage Write API, and its Storage Read API, that loses what it is asked to lose.

It also says STREAM_ALREADY_COMMITTED, as BigQuery does, where the emulator says INVALID_STREAM_STATE.
"""

from __future__ import annotations

import contextlib
import enum
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc

from tests.services.processes import LOOPBACK

_READ_ROWS = "/google.cloud.bigquery.storage.v1.BigQueryRead/ReadRows"
_APPEND = "/google.cloud.bigquery.storage.v1.BigQueryWrite/AppendRows"


class Loss(enum.Enum):
    """The planned outcome of one call, or of one answer of a stream."""

    NOTHING = "nothing"
    ANSWER = "answer"
    """It is carried out, and the connection breaks before the answer."""
    CALL = "call"
    """It never arrives."""
    LATE = "late"
    """The connection breaks; it arrives when `arrive` is called."""
    UNKNOWN = "unknown"
    """It is answered that there is no such table."""
    HANG = "hang"
    """It is never answered; the connection stays."""
    DENIED = "denied"
    """It is answered that whoever asks may not do that."""


class WriteGate(grpc.GenericRpcHandler):
    """Listens on a free port from the start, until `close`. Takes the emulator's bytes as they are.

    Args:
        server_port: Where the emulator is.
        turn: `Gate.turn` of the same emulator.
    """

    def __init__(self, server_port: int, turn: threading.Lock) -> None:
        self.calls: list[str] = []
        self.chaos: Callable[[str], Loss] | None = None
        self._planned: dict[str, deque[Loss]] = {}
        self._done: set[str] = set()
        self._late: list[bytes] = []
        self._turn = turn
        self._lock = threading.Lock()
        self._upstream = grpc.insecure_channel(f"{LOOPBACK}:{server_port}")
        self._server = grpc.server(ThreadPoolExecutor(16, thread_name_prefix="write-gate"))
        self._server.add_generic_rpc_handlers((self,))
        self.port = int(self._server.add_insecure_port(f"{LOOPBACK}:0"))
        self._server.start()

    def close(self) -> None:
        """Stop listening."""
        self._server.stop(0)
        self._upstream.close()

    def plan(self, method: str, *losses: Loss) -> None:
        """Let the next calls of a method meet these losses, one each; answers, for AppendRows."""
        with self._lock:
            self._planned.setdefault(method, deque()).extend(losses)

    @property
    def pending(self) -> int:
        """How many planned losses have not happened."""
        return sum(map(len, self._planned.values()))

    def clear(self) -> None:
        """Forget calls and plans."""
        with self._lock:
            self.calls.clear()
            self._planned.clear()
            self._late.clear()

    def arrive(self) -> int:
        """Let the requests that are late arrive, if their table is still there; returns how many there were."""
        late, self._late = self._late, []
        for request in late:
            with contextlib.suppress(grpc.RpcError):
                self._ask(request)
        return len(late)

    def service(self, call: Any) -> Any:
        """The handler of a method."""
        if call.method == _APPEND:
            return grpc.stream_stream_rpc_method_handler(self._append)

        if call.method == _READ_ROWS:
            return grpc.unary_stream_rpc_method_handler(self._read_rows)

        def unary(request: bytes, context: Any) -> bytes:
            return self._unary(call.method, request, context)

        return grpc.unary_unary_rpc_method_handler(unary)

    def _unary(self, method: str, request: bytes, context: Any) -> bytes:
        loss = self._next(method.rsplit("/", 1)[1])
        if loss is Loss.CALL:
            context.abort(grpc.StatusCode.UNAVAILABLE, "lost")
        if loss is Loss.UNKNOWN:
            context.abort(grpc.StatusCode.NOT_FOUND, "not known yet")
        if loss is Loss.DENIED:
            context.abort(grpc.StatusCode.PERMISSION_DENIED, "not allowed")
        answer = b""
        try:
            with self._turn:
                answer = self._upstream.unary_unary(method)(request, timeout=60)
        except grpc.RpcError as err:
            context.abort(err.code(), err.details())
        if method.endswith("/BatchCommitWriteStreams"):
            answer = self._committed(answer, request)
        if loss is Loss.ANSWER:
            context.abort(grpc.StatusCode.UNAVAILABLE, "lost")
        return answer

    def _read_rows(self, request: bytes, context: Any) -> Iterator[bytes]:
        """The rows from `offset` on, which the emulator ignores; a planned loss breaks the connection after the first answer."""
        from google.cloud.bigquery_storage_v1 import types

        loss = self._next("ReadRows")
        if loss is Loss.CALL:
            context.abort(grpc.StatusCode.UNAVAILABLE, "lost")
        answers: list[bytes] = []
        try:
            with self._turn:
                answers = list(self._upstream.unary_stream(_READ_ROWS)(request, timeout=60))
        except grpc.RpcError as err:
            context.abort(err.code(), err.details())
        begins, left = 0, types.ReadRowsRequest.deserialize(request).offset
        for answer in answers:
            if begins >= left:
                yield answer
                if loss is Loss.ANSWER:
                    break
            begins += types.ReadRowsResponse.deserialize(answer).row_count
        if loss is Loss.ANSWER:
            context.abort(grpc.StatusCode.UNAVAILABLE, "lost")

    def _committed(self, answer: bytes, request: bytes) -> bytes:
        from google.cloud.bigquery_storage_v1 import types

        parsed = types.BatchCommitWriteStreamsResponse.deserialize(answer)
        if not parsed.stream_errors:
            self._done.update(types.BatchCommitWriteStreamsRequest.deserialize(request).write_streams)
        for error in parsed.stream_errors:
            if error.entity in self._done:
                error.code = types.StorageError.StorageErrorCode.STREAM_ALREADY_COMMITTED
        return bytes(types.BatchCommitWriteStreamsResponse.serialize(parsed))

    def _append(self, requests: Iterator[bytes], context: Any) -> Iterator[bytes]:
        schema = b""
        for request in requests:  # one by one, so that the first loss is the last thing that arrives
            loss = self._next("AppendRows")
            if loss is Loss.UNKNOWN:
                context.abort(grpc.StatusCode.NOT_FOUND, "not known yet")
            while loss is Loss.HANG and context.is_active():
                time.sleep(0.1)
            request, schema = _whole(request, schema)  # noqa: PLW2901 - the same request, as its own connection needs it
            if loss is Loss.LATE:
                self._late.append(request)
            if loss in {Loss.CALL, Loss.LATE}:
                context.abort(grpc.StatusCode.UNAVAILABLE, "lost")
            answers: list[bytes] = []
            try:
                answers = self._ask(request)
            except grpc.RpcError as err:
                context.abort(err.code(), err.details())
            if loss is Loss.ANSWER:
                context.abort(grpc.StatusCode.UNAVAILABLE, "lost")
            yield from answers

    def _ask(self, request: bytes) -> list[bytes]:
        with self._turn:
            return list(self._upstream.stream_stream(_APPEND)(iter([request]), timeout=60))

    def _next(self, method: str) -> Loss:
        with self._lock:
            self.calls.append(method)
            planned = self._planned.get(method)
            if planned:
                return planned.popleft()
        return self.chaos(method) if self.chaos is not None else Loss.NOTHING


def _whole(request: bytes, schema: bytes) -> tuple[bytes, bytes]:
    """The request with its rows' schema, which only a connection's first one brings; and the schema."""
    from google.cloud.bigquery_storage_v1 import types

    parsed = types.AppendRowsRequest.deserialize(request)
    own = bytes(parsed.arrow_rows.writer_schema.serialized_schema)
    if own:
        return request, own
    parsed.arrow_rows.writer_schema = types.ArrowSchema(serialized_schema=schema)
    return bytes(types.AppendRowsRequest.serialize(parsed)), schema
