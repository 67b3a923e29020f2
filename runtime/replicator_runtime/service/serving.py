"""Listens for HTTP until the process is asked to end."""

from __future__ import annotations

import resource
import signal
import socket
import ssl
from typing import TYPE_CHECKING

import uvicorn

from replicator_runtime.allocator import limit_arenas
from replicator_runtime.service.access.loopback import is_loopback
from replicator_runtime.service.application import create_application
from replicator_runtime.service.settings import Auth
from replicator_runtime.service.slow_clients import PatientProtocol
from replicator_sdk.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

    from replicator_runtime.service.access.requests.streams import OpenStreams
    from replicator_runtime.service.settings import ServiceSettings

_NO_TOKENS_OFF_LOOPBACK = "RPL-1543"
_CANNOT_LISTEN = "RPL-1544"
_NO_CERTIFICATE = "RPL-1557"
_BACKLOG = 2048
_HEADER_BYTES = 32 * 1024
_KEEP_ALIVE_SECONDS = 15
_SHUTDOWN_SECONDS = 10
_DESCRIPTORS = 65_536


def serve(settings: ServiceSettings, *, ready: Callable[[str], None]) -> None:
    """Serve until SIGTERM or SIGINT: then no more requests are taken, those under way have ten seconds to end.

    Call it in the main thread.

    Args:
        settings: How the service is started.
        ready: Called once, with the address at which requests are answered from now on.

    Raises:
        ConfigError: RPL-1543 without tokens off loopback, RPL-1544 when it cannot listen, RPL-1557 without the certificate.
    """
    check(settings)
    limit_arenas()
    _raise_descriptor_limit()
    for number in (signal.SIGTERM, signal.SIGINT):
        # Uvicorn sends itself the signal again after it has ended; that is to change nothing.
        signal.signal(number, lambda *_: None)
    with _listen(settings) as listener:
        _Server(settings, address_of(settings, listener), ready).run(sockets=[listener])


def _raise_descriptor_limit() -> None:
    """Event streams and replicators need a file descriptor each, and the usual limit is 1,024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def check(settings: ServiceSettings) -> None:
    """Do nothing when a service with these settings may be started.

    Raises:
        ConfigError: RPL-1543 without tokens off loopback, RPL-1557 when the certificate or its key cannot be used.
    """
    _check_certificate(settings)
    if settings.auth is Auth.NONE and not is_loopback(settings.host):
        raise ConfigError(
            f"{settings.host} can be reached from other machines, and without tokens everyone who reaches it is an admin",
            code=_NO_TOKENS_OFF_LOOPBACK,
            hint="leave `--auth none` out and create a token: `replicator token create --role admin`",
        )


def _check_certificate(settings: ServiceSettings) -> None:
    hint = "give PEM files: --certificate, and the key to it, without a password, as --certificate-key"
    if settings.certificate is None:
        if settings.certificate_key is not None:
            raise ConfigError("a key is given without its certificate", code=_NO_CERTIFICATE, hint=hint)
        return
    try:
        # With an empty password a key that has one is refused; without, OpenSSL would ask for it on the terminal.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(
            settings.certificate, settings.certificate_key, password=""
        )
    except OSError as error:  # SSLError is one
        raise ConfigError(
            f"the certificate {settings.certificate} cannot be used: {error.strerror or 'it is no PEM file with its key'}",
            code=_NO_CERTIFICATE,
            hint=hint,
        ) from None


def address_of(settings: ServiceSettings, listener: socket.socket) -> str:
    """The URL at which a service answers."""
    shown = f"[{settings.host}]" if ":" in settings.host else settings.host
    scheme = "http" if settings.certificate is None else "https"
    return f"{scheme}://{shown}:{listener.getsockname()[1]}"


class _Server(uvicorn.Server):
    """Uvicorn's server, which reports when it is ready.

    Args:
        settings: The service's.
        address: At which it answers.
        ready: Is called with that.
    """

    def __init__(self, settings: ServiceSettings, address: str, ready: Callable[[str], None]) -> None:
        self._application = create_application(settings)
        super().__init__(
            uvicorn.Config(
                self._application,
                http=PatientProtocol,  # h11's bounds the size of headers
                h11_max_incomplete_event_size=_HEADER_BYTES,
                timeout_keep_alive=_KEEP_ALIVE_SECONDS,
                timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
                ws="none",
                lifespan="on",
                access_log=False,
                log_config=None,
                server_header=False,
                proxy_headers=False,
                ssl_certfile=settings.certificate,
                ssl_keyfile=settings.certificate_key,
            )
        )
        self._address = address
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to answer."""
        await super().startup(sockets)
        if self.started:
            self._ready(self._address)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End event streams, then what else is under way."""
        streams: OpenStreams = self._application.state.streams
        streams.end()
        await super().shutdown(sockets)


def _listen(settings: ServiceSettings) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen(_BACKLOG)
        except BaseException:
            listener.close()
            raise
    except OSError as error:
        raise ConfigError(
            f"cannot listen on {settings.host}:{settings.port}: {error.strerror or error}",
            code=_CANNOT_LISTEN,
            hint="choose another --port; 0 takes any free one",
        ) from None
    return listener
