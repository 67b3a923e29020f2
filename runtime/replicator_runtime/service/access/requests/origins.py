"""From which addresses and pages requests are taken: against DNS rebinding, and against other sites in a browser."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from replicator_runtime.service.access.loopback import is_loopback
from replicator_runtime.service.problems import NOT_VALID, ProblemError

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from replicator_runtime.service.settings import ServiceSettings

OTHER_HOST = "RPL-1545"
OTHER_SITE = "RPL-1546"
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})


class Origins:
    """Middleware that refuses requests which were sent to another name, and paths with control characters.

    Args:
        app: What follows.
        settings: The service's.
    """

    def __init__(self, app: ASGIApp, settings: ServiceSettings) -> None:
        self._application = app
        self._names = _names(settings)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it.

        Raises:
            ProblemError: 421 RPL-1545 for another name than the service's, 400 RPL-1500 for control characters.
        """
        if scope["type"] == "http":
            self._check(scope)
        await self._application(scope, receive, send)

    def _check(self, scope: Scope) -> None:
        hosts = header_values(scope, b"host")
        if len(hosts) != 1 or (self._names and host_name(hosts[0]) not in self._names):
            raise ProblemError(
                421,
                OTHER_HOST,
                "this service does not answer under this name",
                hint="use the address that `replicator serve` prints; a proxy's name is given to it as --allowed-host",
            )
        if _CONTROL.search(scope["path"]) or _CONTROL.search(unquote(scope["query_string"].decode("latin-1"))):
            raise ProblemError(400, NOT_VALID, "the address has a control character", hint="leave it out")


def check_same_site(scope: Scope) -> None:
    """Do nothing unless a browser says that another site's page has sent a request that may change something.

    A client that is no browser sends neither of the two headers.

    Raises:
        ProblemError: 403 RPL-1546.
    """
    if scope["method"] in SAFE_METHODS:
        return
    sites, origins = header_values(scope, b"sec-fetch-site"), header_values(scope, b"origin")
    host = header_values(scope, b"host")[0].lower()
    same = all(site in {"same-origin", "none"} for site in sites) and all(
        urlsplit(origin).scheme in {"http", "https"} and urlsplit(origin).netloc.lower() == host for origin in origins
    )
    if not same:
        raise ProblemError(
            403, OTHER_SITE, "a page of another site has sent this", hint="use the service's own page, or a token"
        )


def header_values(scope: Scope, name: bytes) -> list[str]:
    """All values of a header; its name is in lower case."""
    return [value.decode("latin-1") for found, value in scope["headers"] if found == name]


def host_name(host: str) -> str:
    """The name in a `Host` header, without its port and in lower case."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _names(settings: ServiceSettings) -> frozenset[str]:
    """The names to which requests may be sent; none where all are taken.

    A page of another site cannot send a token, nor the cookie of this one; so only a service on loopback, which may
    need neither, has to know its names.
    """
    named = frozenset(name.lower() for name in settings.allowed_hosts)
    if is_loopback(settings.host):
        return named | _LOCAL_NAMES | {settings.host.lower()}
    return named
