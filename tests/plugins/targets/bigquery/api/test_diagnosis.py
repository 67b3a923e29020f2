"""What is retried, and what an operator must fix: only rights, credentials and certificates."""

from __future__ import annotations

import http.client
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
from google.api_core import exceptions
from google.auth.exceptions import DefaultCredentialsError, RefreshError, TransportError

from replicator_sdk.errors import NeedsUserError, RetryableError
from replicator_target_bigquery.api.diagnosis import is_transient
from replicator_target_bigquery.api.retry import RetryPolicy
from tests.services.certificates import issue
from tests.services.processes import LOOPBACK

_google: Any = exceptions
_refused: Any = RefreshError
_none: Any = DefaultCredentialsError
_away: Any = TransportError
PASSING: list[Exception] = [
    ConnectionResetError(104, "Connection reset by peer"),
    ssl.SSLEOFError(8, "EOF occurred in violation of protocol"),
    TimeoutError("timed out"),
    http.client.IncompleteRead(b"half"),
    http.client.RemoteDisconnected("closed without response"),
    requests.exceptions.ChunkedEncodingError("broken"),
    requests.exceptions.SSLError("UNEXPECTED_EOF_WHILE_READING"),
    _away("token endpoint away"),
    _refused("token endpoint busy", retryable=True),
    _google.TooManyRequests("slow down"),
    _google.ServiceUnavailable("away"),
    _google.GatewayTimeout("late"),
    _google.ResourceExhausted("slow down"),
    _google.Forbidden("quota", errors=[{"reason": "rateLimitExceeded"}]),
    _google.from_http_status(408, "late"),
]
LASTING: list[Exception] = [
    _refused("invalid_grant"),
    _none("none"),
    _google.Unauthorized("who"),
    _google.Forbidden("no", errors=[{"reason": "accessDenied"}]),
]


@pytest.mark.parametrize("error", PASSING, ids=lambda e: type(e).__name__)
def test_a_temporary_fault_is_retried(error: Exception) -> None:
    tries: list[int] = []

    def ask() -> str:
        tries.append(1)
        if len(tries) < 3:
            raise error
        return "answer"

    assert RetryPolicy(60).request("asking", None, ask, pause=lambda _: None) == "answer"
    with pytest.raises(RetryableError) as err:
        RetryPolicy(0).request("asking", None, lambda: (_ for _ in ()).throw(error))
    assert err.value.code == "RPL-6511"


@pytest.mark.parametrize("error", LASTING, ids=lambda e: type(e).__name__)
def test_a_missing_right_is_not_retried(error: Exception) -> None:
    with pytest.raises(NeedsUserError) as err:
        RetryPolicy(60).request("asking", None, lambda: (_ for _ in ()).throw(error))
    assert err.value.code in {"RPL-6512", "RPL-6513"}


@pytest.fixture
def tls_port(tmp_path: Path) -> Iterator[Callable[..., int]]:
    """Servers with an unknown certificate; one that closes the connection speaks no TLS at all."""
    open_sockets: list[socket.socket] = []

    def serve(*, breaks_off: bool = False) -> int:
        listener = socket.create_server((LOOPBACK, 0))
        open_sockets.append(listener)
        certificate = issue(tmp_path)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate.certificate, certificate.key)

        def answer() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                    if breaks_off:
                        connection.recv(1)
                        connection.close()
                    else:
                        context.wrap_socket(connection, server_side=True).close()
                except OSError:
                    if listener.fileno() < 0:
                        return

        threading.Thread(target=answer, daemon=True).start()
        return int(listener.getsockname()[1])

    yield serve
    for listener in open_sockets:
        listener.close()


def test_a_certificate_that_is_not_trusted_is_not_retried(tls_port: Callable[..., int]) -> None:
    port = tls_port()
    with pytest.raises(NeedsUserError) as err:
        RetryPolicy(60).request("asking", None, lambda: requests.get(f"https://{LOOPBACK}:{port}", timeout=10))
    assert err.value.code == "RPL-6536"
    assert "REQUESTS_CA_BUNDLE" in err.value.hint


def test_a_connection_that_closes_in_its_handshake_is_retried(tls_port: Callable[..., int]) -> None:
    port = tls_port(breaks_off=True)
    with pytest.raises(requests.exceptions.ConnectionError) as err:
        requests.get(f"https://{LOOPBACK}:{port}", timeout=10)
    assert is_transient(err.value)
