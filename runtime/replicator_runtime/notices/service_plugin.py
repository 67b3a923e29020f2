"""Makes the plugin of Apprise that sends to a URL, and imports no other.

Apprise itself finds the plugin of a URL by importing all it has, more than a hundred, which costs a run more than all messages it sends.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from replicator_runtime.config.sections.destinations import scheme_of

if TYPE_CHECKING:
    from collections.abc import Collection

    from apprise import AppriseAsset

MODULES: Final = {
    "discord": "discord",
    "form": "custom_form",
    "forms": "custom_form",
    "gchat": "google_chat",
    "gotify": "gotify",
    "gotifys": "gotify",
    "ifttt": "ifttt",
    "json": "custom_json",
    "jsons": "custom_json",
    "mailto": "email",
    "mailtos": "email",
    "matrix": "matrix",
    "matrixs": "matrix",
    "mmost": "mattermost",
    "mmosts": "mattermost",
    "ntfy": "ntfy",
    "ntfys": "ntfy",
    "opsgenie": "opsgenie",
    "pagerduty": "pagerduty",
    "pagertree": "pagertree",
    "pover": "pushover",
    "rocket": "rocketchat",
    "rockets": "rocketchat",
    "signl4": "signl4",
    "slack": "slack",
    "splunk": "splunk",
    "squadcast": "squadcast",
    "tgram": "telegram",
    "twilio": "twilio",
    "victorops": "splunk",
    "workflows": "workflows",
    "xml": "custom_xml",
    "xmls": "custom_xml",
}
"""Scheme → the module of `apprise.plugins` that has its class. Apprise looks for others, and for those that a release of it has moved."""


def plugin_of(url: str, asset: AppriseAsset) -> Any:
    """The plugin that sends to the URL; None where a part of it is missing or wrong, or Apprise has no such service."""
    import apprise

    made = plugin_class(scheme_of(url))
    if made is None or not made.enabled:
        return apprise.Apprise.instantiate(url, asset=asset, suppress_exceptions=True)
    parts = made.parse_url(url.replace("/#", "/%23"))  # as Apprise does: a "#" there is part of a channel's name
    if not parts:
        return None
    try:
        return made(**{**parts, "asset": asset, "tag": set()})
    except Exception:  # noqa: BLE001 - as Apprise does; its text may have parts of the URL
        return None


def plugin_class(scheme: str) -> Any:
    """The class that Apprise has for the scheme, without the import of others; None where it is not where it is expected."""
    from apprise.plugins.base import NotifyBase

    if scheme not in MODULES:
        return None
    try:
        module = import_module(f"apprise.plugins.{MODULES[scheme]}")
    except ImportError:
        return None
    found = [value for value in vars(module).values() if isinstance(value, type) and issubclass(value, NotifyBase)]
    return next((one for one in found if scheme in {*_names(one.protocol), *_names(one.secure_protocol)}), None)


def _names(protocol: str | Collection[str] | None) -> Collection[str]:
    """An attribute of a plugin that has one scheme, several or none."""
    return (protocol,) if isinstance(protocol, str) else protocol or ()
