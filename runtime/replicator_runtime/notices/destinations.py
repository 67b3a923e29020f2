"""The services that are notified: which URLs are allowed, and how one message is sent. Apprise is imported when it is used."""

from __future__ import annotations

import importlib.util
import ipaddress
import logging
import re
import socket
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

from replicator_runtime.config.macros import resolve
from replicator_runtime.config.problem import Problem
from replicator_runtime.observability.redaction import register_secret

if TYPE_CHECKING:
    from collections.abc import Sequence

    from replicator_runtime.config.sections.notifications import NotificationConfig
    from replicator_runtime.notices.conditions import Key
    from replicator_runtime.notices.messages import Message

NOT_ALLOWED: Final = "RPL-1006"
NOT_SENT: Final = "RPL-1007"
SCHEMES: Final = frozenset(
    {
        "discord", "form", "forms", "gchat", "gotify", "gotifys", "ifttt", "json", "jsons", "mailto", "mailtos",
        "matrix", "matrixs", "mmost", "mmosts", "msteams", "ntfy", "ntfys", "opsgenie", "pagerduty", "pagertree", "pover", "rocket",
        "rockets", "signl4", "slack", "splunk", "squadcast", "tgram", "twilio", "victorops", "webexteams", "workflows", "xml", "xmls",
    }
)  # fmt: skip
"""Which services may be notified. Others of Apprise write files, run programs or reach the desktop, or are meant for other uses."""
_OF_A_HOST: Final = frozenset(
    {
        "form", "forms", "gotify", "gotifys", "json", "jsons", "mailto", "mailtos", "matrix", "matrixs", "mmost", "mmosts", "ntfy",
        "ntfys", "rocket", "rockets", "workflows", "xml", "xmls",
    }
)  # fmt: skip
_METADATA: Final = frozenset({"metadata.google.internal", "metadata", "instance-data"})
_METADATA_ADDRESSES: Final = frozenset(map(ipaddress.ip_address, ("fd00:ec2::254", "100.100.100.200", "192.0.0.192")))
_CONNECT_SECONDS, _READ_SECONDS = 5.0, 15.0
_STATUS: Final = re.compile(r"\berror=(\d{3})\b")
_SHORTEST_PART: Final = 8


@dataclass(frozen=True, slots=True)
class Destination:
    """One service.

    Attributes:
        number: Its place in `notifications`.
        config: Its settings; their URL is as written.
        url: Where, with its secrets.
    """

    number: int
    config: NotificationConfig
    url: str

    def __repr__(self) -> str:
        return f"Destination({self.name})"

    @property
    def name(self) -> str:
        """What it is called in logs and on the terminal: its place and its scheme."""
        return f"notifications[{self.number}] ({_scheme(self.url)})"

    @property
    def limits(self) -> str:
        """From when on the source's log counts as held, in words that are the same for the same limits."""
        config = self.config
        return f"{config.held_bytes} bytes, {config.held_minutes:g} minutes, or {config.left_minutes:g} minutes left"

    def wants(self, key: Key) -> bool:
        """Whether it is notified of that condition."""
        if key.kind == "source_log_held" and key.about != self.limits:
            return False
        return key.kind in self.config.on


def destinations(written: Sequence[NotificationConfig]) -> tuple[tuple[Destination, ...], list[Problem]]:
    """The destinations of a pipeline, macros resolved and secrets registered for redaction, and what is wrong with them."""
    found, problems = [], list[Problem]()
    for number, one in enumerate(written):
        path = f"notifications[{number}].url"
        url, unresolved = resolve(one.url.get_secret_value(), path)
        problems += unresolved
        if unresolved:
            continue
        _register(url)
        if _scheme(url) not in SCHEMES:
            hint = f"use one of {', '.join(sorted(SCHEMES))}"
            problems.append(Problem(path, f"its scheme {_scheme(url)[:20]!r} is not allowed", hint, NOT_ALLOWED))
        found.append(Destination(number, one, url))
    if found and importlib.util.find_spec("apprise") is None:
        hint = "pip install 'replicator[notifications]'"
        problems.append(Problem("notifications", "the package apprise is not installed", hint, NOT_ALLOWED))
    return tuple(found), problems


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
    plugin: Any = apprise.Apprise.instantiate(destination.url, asset=asset, suppress_exceptions=True)
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
    if _scheme(url) not in _OF_A_HOST:
        return ""
    host = (urlsplit(url).hostname or "").lower()
    if host.rstrip(".") in _METADATA:
        return "its host is a metadata service, which may not be reached"
    try:
        found = {entry[4][0] for entry in socket.getaddrinfo(host, None, proto=socket.IPPROTO_TCP)}
    except (OSError, UnicodeError):
        return "its host cannot be resolved"
    for text in found:
        address = ipaddress.ip_address(str(text).partition("%")[0])
        address = getattr(address, "ipv4_mapped", None) or address
        if address.is_link_local or address.is_multicast or address.is_unspecified or address in _METADATA_ADDRESSES:
            return "its host has an address that may not be reached (link-local, multicast or a metadata service)"
    return ""


def _register(url: str) -> None:
    """Mask the URL and the parts of it that are secrets: what libraries quote is mostly a part."""
    parts = urlsplit(url)
    register_secret(url)
    if parts.password:
        register_secret(unquote(parts.password))
    words = re.split(r"[/&=@:?+]", f"{parts.netloc.rpartition('@')[0]}/{parts.path}?{parts.query}")
    if "." not in parts.netloc and _scheme(url) not in _OF_A_HOST:
        words.append(parts.netloc)
    for word in map(unquote, words):
        if len(word) >= _SHORTEST_PART and any(c.isdigit() for c in word):
            register_secret(word)


def _scheme(url: str) -> str:
    return url.partition("://")[0].strip().lower()


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
