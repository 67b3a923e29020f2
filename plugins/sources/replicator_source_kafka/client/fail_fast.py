"""kafka-python's connections, failing at once on errors that another attempt cannot fix.

kafka-python itself retries while a broker's certificate is not trusted, and finally reports only a timeout. When a broker
refuses a login and closes the connection, it may report the closed connection instead of the answer before it. And it leaves
the sockets of failed attempts open until they are garbage-collected.
"""

from __future__ import annotations

import ssl
from functools import cache
from typing import Any

from replicator_source_kafka.client.library import check_library


@cache
def fail_fast_connections() -> Any:
    """The class of connections to use; created at the first call, which needs kafka-python.

    Raises:
        NeedsUserError: When the installed kafka-python is another version.
        ImportError: When kafka-python is not installed.
    """
    check_library()
    from kafka import errors
    from kafka.net.inet import create_connection
    from kafka.net.manager import KafkaConnectionManager
    from kafka.net.transport import KafkaSSLTransport, KafkaTCPTransport

    url = _closing_sockets()

    class FailFastConnections(KafkaConnectionManager):  # type: ignore[misc]
        """Connecting after a permanent error raises that error again."""

        permanent_error: Exception | None = None

        def get_connection(self, node_id: Any, **options: Any) -> Any:
            if self.permanent_error is not None:
                raise self.permanent_error
            connection = super().get_connection(node_id, **options)
            connection.init_future.add_errback(self._keep)
            return connection

        async def _build_transport(self, node: Any, timeout_at: float | None = None) -> Any:
            options = self.config["socket_options"]
            sock = await create_connection(
                self._net, node.host, node.port, options, proxy_url=url, timeout_at=timeout_at
            )
            transport = None
            try:
                transport = self._transport(sock, node.host)
                await transport.handshake()
            except BaseException as error:
                (transport or sock).close()
                if transport is None or not isinstance(error, Exception):
                    raise
                raise errors.KafkaConnectionError(f"Handshake failed: {error}") from error
            receive = transport._sock_recv  # noqa: SLF001 - there is no public hook between socket and connection
            transport._sock_recv = lambda: _data_before_error(*receive())  # noqa: SLF001
            return transport

        def _transport(self, sock: Any, host: str) -> Any:
            if not self.ssl_enabled:
                return KafkaTCPTransport(self._net, sock, host=host)
            settings = {name: value for name, value in self.config.items() if name.startswith("ssl_")}
            return KafkaSSLTransport(self._net, sock, host=host, **settings)

        def _keep(self, error: Exception) -> None:
            if not isinstance(error, (errors.KafkaError, OSError)):  # the client fails on its own settings
                error = errors.KafkaConfigurationError(f"the client fails with a {type(error).__name__}")
            if is_permanent(error):
                self.permanent_error = error

    return FailFastConnections


@cache
def _closing_sockets() -> str:
    """Register a kind of socket that is closed when it cannot connect; returns the proxy URL that selects it."""
    from kafka.net.inet import KafkaNetSocket

    class ClosingSocket(KafkaNetSocket):  # type: ignore[misc]
        """Connects without a proxy, as kafka-python does by default."""

        SCHEMES = ("replicator-direct",)

        async def sock_connect(self, net: Any, sock: Any, *address: Any, **options: Any) -> Any:
            try:
                return await super().sock_connect(net, sock, *address, **options)
            except BaseException:
                sock.close()
                raise

    return f"{ClosingSocket.SCHEMES[0]}://"


def _data_before_error(data: bytes, error: Exception | None) -> tuple[bytes, Exception | None]:
    """The received data first; the end of the connection is reported by the next read."""
    return data, None if data else error


def is_permanent(error: Exception) -> bool:
    """Whether another attempt would fail as well until settings change, here or at the broker."""
    from kafka import errors

    lasting = (
        errors.SaslAuthenticationFailedError,
        errors.UnsupportedSaslMechanismError,
        errors.AuthorizationError,
        errors.KafkaConfigurationError,
    )
    return isinstance(error, lasting) or is_tls_error(error)


def is_tls_error(error: Exception) -> bool:
    """Whether TLS failed, rather than the network below it."""
    below = error if isinstance(error, ssl.SSLError) else error.__cause__ or error.__context__
    return isinstance(below, ssl.SSLError) and not isinstance(below, (ssl.SSLEOFError, ssl.SSLZeroReturnError))
