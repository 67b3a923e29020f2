"""kafka-python's connections, giving up at once on what no further attempt mends.

By itself it goes on trying while a broker's certificate is not trusted, and in the end says only that time is up. And where a
broker refuses a login and hangs up, it may see the end of the connection only and not the answer before it.
"""

from __future__ import annotations

import ssl
from functools import cache
from typing import Any


@cache
def connections_class() -> Any:
    """The class of connections to use; made at the first call, which needs kafka-python."""
    from kafka import errors
    from kafka.net.manager import KafkaConnectionManager

    class DecidedConnections(KafkaConnectionManager):  # type: ignore[misc]
        """Whoever asks for a connection after a refusal gets the refusal."""

        refusal: Exception | None = None

        def get_connection(self, node_id: Any, **options: Any) -> Any:
            if self.refusal is not None:
                raise self.refusal
            connection = super().get_connection(node_id, **options)
            connection.init_future.add_errback(self._keep)
            return connection

        async def _build_transport(self, *node: Any, **options: Any) -> Any:
            transport = await super()._build_transport(*node, **options)
            receive = transport._sock_recv  # noqa: SLF001 - nothing public lies between socket and connection
            transport._sock_recv = lambda: _last_words(*receive())  # noqa: SLF001
            return transport

        def _keep(self, error: Exception) -> None:
            if not isinstance(error, (errors.KafkaError, OSError)):  # the client stumbles over its settings
                error = errors.KafkaConfigurationError(f"the client fails with a {type(error).__name__}")
            if is_refusal(error):
                self.refusal = error

    return DecidedConnections


def _last_words(data: bytes, error: Exception | None) -> tuple[bytes, Exception | None]:
    """What was received; that the connection ended is said the next time, when nothing comes before it any more."""
    return data, None if data else error


def is_refusal(error: Exception) -> bool:
    """Whether the same attempt would fail again: settings have to change first, here or at the broker."""
    from kafka import errors

    lasting = (
        errors.SaslAuthenticationFailedError,
        errors.UnsupportedSaslMechanismError,
        errors.AuthorizationError,
        errors.KafkaConfigurationError,
    )
    return isinstance(error, lasting) or is_distrust(error)


def is_distrust(error: Exception) -> bool:
    """Whether TLS itself failed, rather than the network below it."""
    below = error if isinstance(error, ssl.SSLError) else error.__cause__ or error.__context__
    return isinstance(below, ssl.SSLError) and not isinstance(below, (ssl.SSLEOFError, ssl.SSLZeroReturnError))
