"""Connections to brokers, and questions to them, on kafka-python's own loop."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Self, TypeVar

from replicator_source_kafka.client_settings import client_arguments
from replicator_source_kafka.config import KafkaConfig
from replicator_source_kafka.refusal import connections_class, is_refusal

_BOOTSTRAP_MS: Final = 15_000
_REQUEST_MS: Final = 30_000
_ANSWER_BYTES: Final = 100_000_000
_PERSISTENCE_SECONDS: Final = 12.0
_PAUSE_SECONDS: Final = 0.1

T = TypeVar("T")


class Connections:
    """Connections to all brokers. Used by one thread, but for `close`.

    Args:
        config: The source's settings.
    """

    def __init__(self, config: KafkaConfig) -> None:
        from kafka.net.selector import NetworkSelector

        logging.getLogger("kafka").setLevel(logging.CRITICAL)  # what it would say is raised as well
        arguments = client_arguments(config.kafka)
        arguments["bootstrap_servers"] = config.bootstrap_servers.split(",")
        arguments["receive_message_max_bytes"] = max(_ANSWER_BYTES, 2 * config.own_number("fetch.max.bytes"))
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._net = NetworkSelector(**arguments)
        self._manager = connections_class()(self._net, **arguments)
        self._net.start()
        try:
            self._manager.bootstrap(min(_BOOTSTRAP_MS, int(arguments.get("request_timeout_ms", _REQUEST_MS))))
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Drop the connections and end their thread; what waits for an answer fails. From any thread, also twice."""
        with self._lock:
            if not self._closed.is_set():
                self._closed.set()
                self._manager.close()
                self._net.close()

    def ask(self, request: Any) -> Any:
        """Any broker's answer; another one is asked when one goes."""
        return self.persistently(lambda: self._run(lambda: self._manager.send(request)))

    def ask_all(self, requests: Mapping[int, Any]) -> list[Any]:
        """The answers of several brokers, which are asked at once."""

        async def ask() -> list[Any]:
            waiting = [self._manager.send(request, node_id=node) for node, request in requests.items()]
            return [await answer for answer in waiting]

        return list(self._run(ask))

    def persistently(self, ask: Callable[[], T]) -> T:
        """What `ask` gives. It is called again for some seconds while brokers go and come, or hand partitions over.

        A broker that is restarted hands its partitions over within a second; one that dies is missed after
        `broker.session.timeout.ms`, which is 9 seconds by default. What lasts longer is for whoever called to wait for.
        """
        until = time.monotonic() + _PERSISTENCE_SECONDS
        while True:
            try:
                return ask()
            except Exception as error:
                if not _passes(error) or time.monotonic() > until or self._closed.wait(_PAUSE_SECONDS):
                    raise
            self._forget_leaders()

    def _forget_leaders(self) -> None:
        """Called before something is asked again, since partitions may have other leaders by then."""

    def _run(self, ask: Callable[[], Awaitable[Any]]) -> Any:
        async def run() -> Any:
            return await ask()

        return self._manager.run(run)


def _passes(error: Exception) -> bool:
    """Whether an error is of brokers on the move, so that asking again may help soon."""
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
    return isinstance(error, moving) and not is_refusal(error)
