"""The settings of a Kafka client that a pipeline may contain, and their names in kafka-python."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any, Final

from replicator_sdk.config import Secret

_NUMBERS: Final = (
    "request.timeout.ms",
    "reconnect.backoff.ms",
    "reconnect.backoff.max.ms",
    "connections.max.idle.ms",
    "metadata.max.age.ms",
    "socket.connection.setup.timeout.ms",
)
_TEXTS: Final = (
    "client.id",
    "security.protocol",
    "sasl.mechanism",
    "sasl.kerberos.service.name",
    "sasl.kerberos.domain.name",
    "client.dns.lookup",
)
_RENAMED: Final = {
    "sasl.username": "sasl_plain_username",
    "sasl.password": "sasl_plain_password",
    "ssl.ca.location": "ssl_cafile",
    "ssl.certificate.location": "ssl_certfile",
    "ssl.key.location": "ssl_keyfile",
    "ssl.key.password": "ssl_password",
    "ssl.crl.location": "ssl_crlfile",
    "ssl.check.hostname": "ssl_check_hostname",
}
OURS: Final[Mapping[str, str | int]] = {
    "fetch.max.bytes": 16 << 20,
    "fetch.max.wait.ms": 250,
    "fetch.min.bytes": 1,
    "group.id": "",
}
"""Settings that the source itself uses, not the client, and their defaults."""
SECRETS: Final = frozenset({"sasl.password", "ssl.key.password"})
ALLOWED: Final = frozenset({*_NUMBERS, *_TEXTS, *_RENAMED, *OURS})
"""All allowed settings."""

_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_PASSWORD_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_MECHANISMS: Final = (*_PASSWORD_MECHANISMS, "GSSAPI")

Settings = Mapping[str, str | int | bool | Secret]


def check_settings(settings: Settings) -> None:
    """Check that all settings are allowed.

    Raises:
        ValueError: Naming the setting and the most similar allowed one.
    """
    for name, value in settings.items():
        if name not in ALLOWED:
            near = difflib.get_close_matches(name, sorted(ALLOWED), 1)
            hint = f"did you mean {near[0]!r}?" if near else "allowed are " + ", ".join(sorted(ALLOWED))
            raise ValueError(f"the client setting {name!r} is not allowed: {hint}")
        is_number = isinstance(OURS.get(name), int) or name in _NUMBERS
        if is_number and not str(plain(value)).isdigit():
            raise ValueError(f"the client setting {name!r} must be a whole number")
    _check_security(settings)


def _check_security(settings: Settings) -> None:
    """Refuse security settings that the client would ignore or fail on without a clear error."""
    protocol = str(plain(settings.get("security.protocol", "PLAINTEXT")))
    if protocol not in _PROTOCOLS:
        raise ValueError("security.protocol must be one of " + ", ".join(_PROTOCOLS))
    for prefix, is_used in (("ssl.", protocol.endswith("SSL")), ("sasl.", protocol.startswith("SASL"))):
        unused = next((name for name in settings if name.startswith(prefix)), None)
        if unused and not is_used:
            raise ValueError(f"the client setting {unused!r} has no use while security.protocol is {protocol}")
    if protocol.startswith("SASL"):
        _check_login(settings)


def _check_login(settings: Settings) -> None:
    mechanism = str(plain(settings.get("sasl.mechanism", "")))
    if mechanism not in _MECHANISMS:
        raise ValueError("sasl.mechanism must be one of " + ", ".join(_MECHANISMS))
    for name in ("sasl.username", "sasl.password"):
        if mechanism in _PASSWORD_MECHANISMS and not plain(settings.get(name, "")):
            raise ValueError(f"sasl.mechanism {mechanism} needs {name}")


def client_arguments(settings: Settings) -> dict[str, Any]:
    """The arguments for kafka-python."""
    return {
        _RENAMED.get(name, name.replace(".", "_")): _value(name, value)
        for name, value in settings.items()
        if name not in OURS
    }


def own_number(settings: Settings, name: str) -> int:
    """A setting that the source itself uses."""
    return int(str(plain(settings.get(name, OURS[name]))))


def plain(value: str | int | bool | Secret) -> str | int | bool:
    """The plain value, also of a secret."""
    return value.get_secret_value() if isinstance(value, Secret) else value


def _value(name: str, value: str | int | bool | Secret) -> str | int | bool:
    if name in _NUMBERS:
        return int(str(plain(value)))
    if name == "ssl.check.hostname":
        return str(plain(value)).lower() != "false"
    return str(plain(value))
