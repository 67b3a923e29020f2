"""Connections to brokers, and questions to them, on kafka-python's own loop."""

from __future__ import annotations

import logging
import threading
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Self

from replicator_source_kafka.client_settings import client_arguments
from replicator_source_kafka.config import KafkaConfig

if TYPE_CHECKING:
    from kafka.net.manager import KafkaConnectionManager

_BOOTSTRAP_MS: Final = 15_000
_REQUEST_MS: Final = 30_000
_ANSWER_BYTES: Final = 100_000_000


class Connections:
    """Connections to all brokers. Used by one thread, but for `close`.

    Args:
        config: The source's settings.
    """

    def __init__(self, config: KafkaConfig) -> None:
        from kafka.net.manager import KafkaConnectionManager
        from kafka.net.selector import NetworkSelector

        logging.getLogger("kafka").setLevel(logging.CRITICAL)  # what it would say is raised as well
        arguments = client_arguments(config.kafka)
        arguments["bootstrap_servers"] = config.bootstrap_servers.split(",")
        arguments["receive_message_max_bytes"] = max(_ANSWER_BYTES, 2 * config.own_number("fetch.max.bytes"))
        self._lock = threading.Lock()
        self._closed = False
        self._net = NetworkSelector(**arguments)
        self._manager: KafkaConnectionManager = KafkaConnectionManager(self._net, **arguments)
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
            if not self._closed:
                self._closed = True
                self._manager.close()
                self._net.close()

    def ask(self, request: Any) -> Any:
        """Any broker's answer."""
        return self._run(lambda: self._manager.send(request))

    def ask_all(self, requests: Mapping[int, Any]) -> list[Any]:
        """The answers of several brokers, which are asked at once."""

        async def ask() -> list[Any]:
            waiting = [self._manager.send(request, node_id=node) for node, request in requests.items()]
            return [await answer for answer in waiting]

        return list(self._run(ask))

    def _run(self, ask: Callable[[], Awaitable[Any]]) -> Any:
        async def run() -> Any:
            return await ask()

        return self._manager.run(run)
