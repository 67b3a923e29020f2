"""The services that are notified: which URLs are allowed, and what of them is secret."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote, urlsplit

from replicator_runtime.config.macros import resolve
from replicator_runtime.config.problem import Problem
from replicator_runtime.config.sections.notifications import NoticeKind, NotificationConfig

NOT_ALLOWED: Final = "RPL-1006"
SCHEMES: Final = frozenset(
    {
        "discord", "form", "forms", "gchat", "gotify", "gotifys", "ifttt", "json", "jsons", "mailto", "mailtos",
        "matrix", "matrixs", "mmost", "mmosts", "msteams", "ntfy", "ntfys", "opsgenie", "pagerduty", "pagertree", "pover", "rocket",
        "rockets", "signl4", "slack", "splunk", "squadcast", "tgram", "twilio", "victorops", "webexteams", "workflows", "xml", "xmls",
    }
)  # fmt: skip
"""Which services may be notified. Others of Apprise write files, run programs or reach the desktop, or are meant for other uses."""
OF_A_HOST: Final = frozenset(
    {
        "form", "forms", "gotify", "gotifys", "json", "jsons", "mailto", "mailtos", "matrix", "matrixs", "mmost", "mmosts", "ntfy",
        "ntfys", "rocket", "rockets", "workflows", "xml", "xmls",
    }
)  # fmt: skip
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
        return f"notifications[{self.number}] ({scheme_of(self.url)})"

    @property
    def limits(self) -> str:
        """From when on the source's log counts as held, in words that are the same for the same limits."""
        config = self.config
        return f"{config.held_bytes} bytes, {config.held_minutes:g} minutes, or {config.left_minutes:g} minutes left"

    def wants(self, key: tuple[NoticeKind, str]) -> bool:
        """Whether it is notified of that condition: its kind, and what it is about."""
        kind, about = key
        if kind == "source_log_held" and about != self.limits:
            return False
        return kind in self.config.on


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
        if scheme_of(url) not in SCHEMES:
            hint = f"use one of {', '.join(sorted(SCHEMES))}"
            if scheme_of(url) in {"http", "https"}:
                hint = f"write it as Apprise does: slack://A/B/C for https://hooks.slack.com/services/A/B/C, jsons://HOST/PATH for a server that takes JSON; {hint}"
            problems.append(Problem(path, f"its scheme {scheme_of(url)[:20]!r} is not allowed", hint, NOT_ALLOWED))
        found.append(Destination(number, one, url))
    if found and importlib.util.find_spec("apprise") is None:
        hint = "pip install 'replicator[notifications]'"
        problems.append(Problem("notifications", "the package apprise is not installed", hint, NOT_ALLOWED))
    return tuple(found), problems


def _register(url: str) -> None:
    """Mask the URL and the parts of it that are secrets: what libraries quote is mostly a part."""
    from replicator_runtime.observability.redaction import register_secret

    parts = urlsplit(url)
    register_secret(url)
    if parts.password:
        register_secret(unquote(parts.password))
    words = re.split(r"[/&=@:?+]", f"{parts.netloc.rpartition('@')[0]}/{parts.path}?{parts.query}")
    if "." not in parts.netloc and scheme_of(url) not in OF_A_HOST:
        words.append(parts.netloc)
    for word in map(unquote, words):
        if len(word) >= _SHORTEST_PART and any(c.isdigit() for c in word):
            register_secret(word)


def scheme_of(url: str) -> str:
    """The scheme of a URL, in lower case."""
    return url.partition("://")[0].strip().lower()
