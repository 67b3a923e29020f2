"""Checks the installed kafka-python: this source uses private names of it, so other versions are refused."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from functools import cache
from importlib import metadata
from typing import Any, Final

from replicator_sdk.errors import NeedsUserError

_VERSION: Final = "3.0"
_USED: Final = {
    "NetworkSelector": ("start", "close", "wait_read", "wait_write"),
    "KafkaConnectionManager": ("_build_transport", "get_connection", "bootstrap", "send", "run", "close"),
    "KafkaTCPTransport": ("_sock_recv", "close"),
    "KafkaSSLTransport": ("_sock_recv", "close"),
    "KafkaNetSocket": ("register_class", "sock_connect"),
}
_PARAMETERS: Final = {
    "_build_transport": ("self", "node", "timeout_at"),
    "_sock_recv": ("self",),
    "wait_read": ("self", "fileobj", "timeout_at"),
    "wait_write": ("self", "fileobj", "timeout_at"),
}


@cache
def check_library() -> None:
    """Check the version of kafka-python and the private names that this source uses.

    Raises:
        NeedsUserError: When the version is another one, or a name is missing.
        ImportError: When kafka-python is not installed.
    """
    try:
        version = metadata.version("kafka-python")
    except metadata.PackageNotFoundError as error:
        raise ImportError("kafka-python is not installed", name="kafka-python") from error
    if not version.startswith(f"{_VERSION}."):
        raise _other_version(version)
    if missing := next(_missing(), None):
        raise _other_version(f"{version} without {missing}")


def _missing() -> Iterator[str]:
    for kind in _classes():
        for name in _USED[kind.__name__]:
            function = getattr(kind, name, None)
            if function is None:
                yield f"{kind.__name__}.{name}"
            elif name in _PARAMETERS and tuple(inspect.signature(function).parameters) != _PARAMETERS[name]:
                yield f"the parameters of {kind.__name__}.{name}"


def _classes() -> tuple[Any, ...]:
    from kafka.net.inet import KafkaNetSocket
    from kafka.net.manager import KafkaConnectionManager
    from kafka.net.selector import NetworkSelector
    from kafka.net.transport import KafkaSSLTransport, KafkaTCPTransport

    return NetworkSelector, KafkaConnectionManager, KafkaTCPTransport, KafkaSSLTransport, KafkaNetSocket


def _other_version(found: str) -> NeedsUserError:
    return NeedsUserError(
        f"the Kafka source works with kafka-python {_VERSION}, and {found} is installed",
        code="RPL-3960",
        hint=f"pip install 'kafka-python=={_VERSION}.*'",
    )
