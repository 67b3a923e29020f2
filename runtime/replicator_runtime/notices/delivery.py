"""How one message is sent to a service that is notified. Apprise is imported when it is used."""

from __future__ import annotations

import ipaddress
import logging
import re
import socket
import threading
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from replicator_runtime.config.sections.destinations import OF_A_HOST, scheme_of
from replicator_runtime.networks_of_service import guard
from replicator_runtime.notices.service_plugin import plugin_of
from replicator_sdk.errors import ConfigError
from replicator_sdk.outgoing.networks import METADATA_HOSTS, Networks

if TYPE_CHECKING:
    from replicator_runtime.config.sections.destinations import Destination
    from replicator_runtime.notices.messages import Message

NOT_SENT: Final = "RPL-1007"
_CONNECT_SECONDS, _READ_SECONDS = 5.0, 15.0
_STATUS: Final = re.compile(r"\berror=(\d{3})\b")


def send(destination: Destination, message: Message) -> str:
    """Send a message; takes seconds, at most about half a minute where a server answers by drops.

    Returns:
        Why it could not be sent, without secrets; empty when the service has it.
    """
    if why := _forbidden_host(destination.url):
        return why
    import apprise

    asset = apprise.AppriseAsset(
        app_id="replicator",
        app_desc="replicator",
        app_url="",
        async_mode=False,
        storage_mode="memory",
        http_redirects=False,
    )
    logger = logging.getLogger("apprise")
    logger.propagate, logger.handlers[:] = False, [_said]  # what it says names places, and at some levels the message
    _said.forget()
    plugin: Any = plugin_of(destination.url, asset)
    if plugin is None:
        return "apprise does not take the URL: a part of it is missing or wrong"
    plugin.redirects = False  # whatever the URL says: an answer must not lead to another host
    if plugin.overflow_mode == apprise.OverflowMode.UPSTREAM:  # a chat refuses what is too long for it, each time
        plugin.overflow_mode = apprise.OverflowMode.TRUNCATE
    plugin.socket_connect_timeout, plugin.socket_read_timeout = _CONNECT_SECONDS, _READ_SECONDS
    tone = getattr(apprise.NotifyType, message.tone.upper())
    try:
        is_sent = plugin.notify(
            body=message.body, title=message.title, notify_type=tone, body_format=apprise.NotifyFormat.TEXT
        )
    except Exception as failure:  # noqa: BLE001 - of the service's plugin, whose text may have parts of the URL
        return f"{type(failure).__name__} in apprise"
    if is_sent:
        return ""
    return (
        f"the service answered with status {_said.status}"
        if _said.status
        else "the service did not answer, or did not take it"
    )


def _forbidden_host(url: str) -> str:
    """Why the host may not be reached: a cloud's metadata service would answer with the machine's credentials."""
    if scheme_of(url) not in OF_A_HOST:
        return ""
    host = (urlsplit(url).hostname or "").lower()
    if host.rstrip(".") in METADATA_HOSTS:
        return "its host is a metadata service, which may not be reached"
    try:
        found = {str(entry[4][0]) for entry in socket.getaddrinfo(host, None, proto=socket.IPPROTO_TCP)}
    except ConfigError as refused:  # as `guard` says
        return refused.message
    except (OSError, UnicodeError):
        return "its host cannot be resolved"
    networks = Networks.of_environment()
    for text in found:
        if why := _forbidden_address(text, networks):
            return why
    if networks is not None:
        guard(networks, [host])  # it is looked at again when it is connected to
    return ""


def _forbidden_address(text: str, networks: Networks | None) -> str:
    address = ipaddress.ip_address(text.partition("%")[0])
    if address.is_multicast or address.is_unspecified or Networks().refusal(address):
        return "its host has an address that may not be reached (link-local, multicast or a metadata service)"
    why = networks.refusal(address) if networks is not None else ""
    return why and f"its host has an address that may not be reached: {why}"


class _Said(logging.Handler):
    """Takes the status of an HTTP answer from what Apprise logs in this thread, and nothing else of it."""

    def __init__(self) -> None:
        super().__init__()
        self._of_thread = threading.local()

    @property
    def status(self) -> str:
        """The last one; empty when there was none."""
        return str(getattr(self._of_thread, "status", ""))

    def forget(self) -> None:
        """A message begins."""
        self._of_thread.status = ""

    def emit(self, record: logging.LogRecord) -> None:
        """Look for it."""
        if found := _STATUS.search(str(record.getMessage())):
            self._of_thread.status = found[1]


_said: Final = _Said()
