"""kafka-python's connections, failing at once on errors that another attempt cannot fix.

kafka-python itself retries while a broker's certificate is not trusted, and finally reports only a timeout. When a broker
refuses a login and closes the connection, it may report the closed connection instead of the answer before it. And it leaves
the sockets of failed attempts open until they are garbage-collected.
"""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, Final

from replicator_sdk.errors import ConfigError
from replicator_sdk.outgoing.networks import Networks, check_addresses
from replicator_source_kafka.client.library import check_library

_Received = tuple[bytes, Exception | None]
_OTHER_ANSWERS: Final = (b"HTTP/", b"\x15\x03")
"""How HTTP servers and TLS servers (an alert) begin their answers; as lengths of Kafka's answers they are far above 300 MB."""
_NOT_TLS: Final = frozenset({"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST", "PACKET_LENGTH_TOO_LONG"})


class OtherProtocolError(ConnectionError):
    """A server answers that does not speak Kafka's protocol."""


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
                if self.ssl_enabled:
                    await _handshake(self._net, transport._sock, timeout_at)  # noqa: SLF001 - no public name
            except BaseException as error:
                (transport or sock).close()
                if transport is None or not isinstance(error, Exception):
                    raise
                raise errors.KafkaConnectionError(f"Handshake failed: {error}") from error
            receive = transport._sock_recv  # noqa: SLF001 - there is no public hook between socket and connection
            transport._sock_recv = _checked(receive)  # noqa: SLF001
            return transport

        def _transport(self, sock: Any, host: str) -> Any:
            if not self.ssl_enabled:
                return KafkaTCPTransport(self._net, sock, host=host)
            sock.getpeername()  # raises after a reset: Python's TLS would raise, too, and leave the socket open
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

        def dns_lookup(self, *host: Any, **options: Any) -> Any:
            with _refusals():
                return super().dns_lookup(*host, **options)

        async def sock_connect(self, net: Any, sock: Any, *address: Any, **options: Any) -> Any:
            try:
                _check_reach(str(address[0][0]))  # of brokers that others have named, too
                return await super().sock_connect(net, sock, *address, **options)
            except BaseException:
                sock.close()
                raise

    return f"{ClosingSocket.SCHEMES[0]}://"


@contextlib.contextmanager
def _refusals() -> Iterator[None]:
    """Addresses that may not be connected to are a fault of the settings, which the client does not try again."""
    try:
        yield
    except ConfigError as refused:
        from kafka import errors

        raise errors.KafkaConfigurationError(refused.message) from None


def _check_reach(address: str) -> None:
    if (networks := Networks.of_environment()) is not None:
        with _refusals():
            check_addresses(networks, [address])


async def _handshake(net: Any, sock: ssl.SSLSocket, timeout_at: float | None) -> None:
    """TLS's handshake. kafka-python's own waits for ever where the server accepts the connection and never answers."""
    while True:
        try:
            return sock.do_handshake()
        except ssl.SSLWantReadError:
            await net.wait_read(sock, timeout_at)
        except ssl.SSLWantWriteError:
            await net.wait_write(sock, timeout_at)


def _checked(receive: Callable[[], _Received]) -> Callable[[], _Received]:
    """Reads as `receive` does, the data before the end of the connection, which the next read reports.

    The first data has to be an answer of Kafka's. The client would take text for a length, and only report a timeout.
    """
    begun = False

    def read() -> _Received:
        nonlocal begun
        data, error = receive()
        if data and not begun:
            begun = True
            if data.startswith(_OTHER_ANSWERS):
                return b"", OtherProtocolError("not an answer of Kafka's")
        return data, None if data else error

    return read


def is_permanent(error: Exception) -> bool:
    """Whether another attempt would fail as well until settings change, here or at the broker."""
    from kafka import errors

    lasting = (
        errors.SaslAuthenticationFailedError,
        errors.UnsupportedSaslMechanismError,
        errors.AuthorizationError,
        errors.KafkaConfigurationError,
    )
    return isinstance(error, lasting) or answers_otherwise(error) or is_tls_error(error)


def answers_otherwise(error: Exception) -> bool:
    """Whether a server answered in another protocol: not Kafka's, in clear instead of TLS, or TLS instead of in clear."""
    below = _below(error)
    return isinstance(below, OtherProtocolError) or (isinstance(below, ssl.SSLError) and below.reason in _NOT_TLS)


def is_tls_error(error: Exception) -> bool:
    """Whether TLS failed, rather than the network below it."""
    below = _below(error)
    return isinstance(below, ssl.SSLError) and not isinstance(below, (ssl.SSLEOFError, ssl.SSLZeroReturnError))


def _below(error: Exception) -> BaseException | None:
    """The error of the network below an error of the client's."""
    direct = isinstance(error, (ssl.SSLError, OtherProtocolError))
    return error if direct else error.__cause__ or error.__context__
