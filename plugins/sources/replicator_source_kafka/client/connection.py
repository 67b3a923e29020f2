"""Connections to brokers, and requests over them, on kafka-python's own event loop."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Self, TypeVar

from replicator_source_kafka.client.fail_fast import fail_fast_connections, is_permanent
from replicator_source_kafka.client_settings import client_arguments
from replicator_source_kafka.config import KafkaConfig

_BOOTSTRAP_MS: Final = 15_000
_REQUEST_MS: Final = 30_000
_ANSWER_BYTES: Final = 100_000_000
_TIMES: Final = ("request_timeout_ms", "socket_connection_setup_timeout_ms", "socket_connection_setup_timeout_max_ms")
_PAUSE_SECONDS: Final = 0.1

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Patience:
    """How long brokers are waited for.

    Attributes:
        retry_seconds: For how long requests are repeated while brokers restart or hand over partitions.
        answer_ms: A connection or an answer may take so long; None for what the settings say.
    """

    retry_seconds: float = 12.0
    answer_ms: int | None = None


USUAL: Final = Patience()


class BrokerConnections:
    """Connections to all brokers. Used by one thread, except `close`.

    Args:
        config: The source's settings.
        patience: How long brokers are waited for.
    """

    def __init__(self, config: KafkaConfig, patience: Patience = USUAL) -> None:
        connections = fail_fast_connections()
        from kafka.net.selector import NetworkSelector

        logging.getLogger("kafka").setLevel(logging.CRITICAL)  # what it would log is raised as well
        arguments = client_arguments(config.kafka)
        arguments["bootstrap_servers"] = config.bootstrap_servers.split(",")
        arguments["receive_message_max_bytes"] = max(_ANSWER_BYTES, 2 * config.own_number("fetch.max.bytes"))
        if (most := patience.answer_ms) is not None:
            arguments |= {name: min(most, int(arguments.get(name, most))) for name in _TIMES}
        self._patience = patience
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._net = NetworkSelector(**arguments)
        self._manager: Any = None
        try:
            self._manager = connections(self._net, **arguments)
            self._net.start()
            self._manager.bootstrap(min(_BOOTSTRAP_MS, int(arguments.get("request_timeout_ms", _REQUEST_MS))))
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections and end their thread; pending requests fail. Any thread may call it, also twice."""
        with self._lock:
            if not self._closed.is_set():
                self._closed.set()
                if self._manager is not None:
                    self._manager.close()
                self._net.close()

    def ask(self, request: Any) -> Any:
        """Send a request to any broker, and return the answer; another broker is used when one goes down."""
        return self.with_retries(lambda: self._run(lambda: self._manager.send(request)))

    def ask_all(self, requests: Mapping[int, Any]) -> list[Any]:
        """Send requests to several brokers at once, and return their answers."""

        async def ask() -> list[Any]:
            waiting = [self._manager.send(request, node_id=node) for node, request in requests.items()]
            return [await answer for answer in waiting]

        return list(self._run(ask))

    def with_retries(self, ask: Callable[[], T]) -> T:
        """Call `ask` and return its result; retry for some seconds while brokers restart or hand over partitions.

        A broker that is restarted passes its partitions on within a second; one that dies is noticed after
        `broker.session.timeout.ms`, which is 9 seconds by default. When it takes longer, the error is raised.
        """
        until = time.monotonic() + self._patience.retry_seconds
        while True:
            try:
                return ask()
            except Exception as error:
                if not _is_transient(error) or time.monotonic() > until or self._closed.wait(_PAUSE_SECONDS):
                    raise
            self._forget_leaders()

    def _forget_leaders(self) -> None:
        """Called before a retry, since partitions may have other leaders by then."""

    def _run(self, ask: Callable[[], Awaitable[Any]]) -> Any:
        async def run() -> Any:
            return await ask()

        return self._manager.run(run)


def _is_transient(error: Exception) -> bool:
    """Whether an error passes when brokers have restarted or partitions have new leaders."""
    from kafka import errors

    moving = (
        errors.KafkaConnectionError,
        errors.NodeNotReadyError,
        errors.UnknownBrokerIdError,
        errors.LeaderNotAvailableError,
        errors.NotLeaderForPartitionError,
        errors.ReplicaNotAvailableError,
        errors.FencedLeaderEpochError,
        errors.UnknownLeaderEpochError,
        errors.OffsetNotAvailableError,
        errors.KafkaStorageError,
    )
    return isinstance(error, moving) and not is_permanent(error)
