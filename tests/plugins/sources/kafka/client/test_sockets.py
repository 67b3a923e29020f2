"""Every socket of the source is closed, also after a failed attempt to connect."""

from __future__ import annotations

import gc
import socket
import threading
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from replicator_sdk.errors import ReplicatorError
from replicator_source_kafka import KafkaConfig, KafkaSource


@pytest.fixture
def not_a_broker() -> Iterator[int]:
    """The port of a server that answers everything with text."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=_answer_all, args=(server,), daemon=True)
        thread.start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)
        thread.join()


def _answer_all(server: socket.socket) -> None:
    while True:
        try:
            connection, _ = server.accept()
        except OSError:
            return
        with connection:
            connection.recv(1024)
            connection.sendall(b"HTTP/1.0 400 Bad Request\r\n\r\n")


def unclosed_after(port: int, settings: Mapping[str, Any]) -> list[str]:
    """Warnings about sockets after a failed attempt to connect."""
    kafka = {"request.timeout.ms": 500, **settings}
    config = KafkaConfig.model_validate({"bootstrapServers": f"127.0.0.1:{port}", "topics": ["orders"], "kafka": kafka})
    gc.collect()
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        with pytest.raises(ReplicatorError):
            KafkaSource(config).latest_offset()
        gc.collect()
    return [str(each.message) for each in found if issubclass(each.category, ResourceWarning)]


def test_no_socket_stays_open_when_the_connection_is_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    assert unclosed_after(port, {}) == []


def test_no_socket_stays_open_when_the_server_does_not_speak_tls(not_a_broker: int) -> None:
    assert unclosed_after(not_a_broker, {"security.protocol": "SSL"}) == []


def test_no_socket_stays_open_when_the_settings_of_the_client_are_wrong(not_a_broker: int) -> None:
    assert unclosed_after(not_a_broker, {"security.protocol": "SSL", "ssl.ca.location": "/nowhere.pem"}) == []
