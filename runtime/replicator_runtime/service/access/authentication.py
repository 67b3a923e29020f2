"""Finds who sends a request, before any operation sees it."""

from __future__ import annotations

from http.cookies import CookieError, SimpleCookie
from typing import TYPE_CHECKING, NoReturn

from anyio import CapacityLimiter, to_thread

from replicator_runtime.service.access.requests.origins import SAFE_METHODS, check_same_site, header_values
from replicator_runtime.service.access.requests.rates import Buckets, client_address, too_many
from replicator_runtime.service.access.requirement import unknown_caller
from replicator_runtime.service.access.roles import Principal, Role
from replicator_runtime.service.access.sessions import find_session, is_csrf_value
from replicator_runtime.service.access.tokens import find_token, principal_of_token
from replicator_runtime.service.problems import ProblemError
from replicator_runtime.service.settings import Auth

if TYPE_CHECKING:
    from fastapi import FastAPI
    from starlette.types import ASGIApp, Receive, Scope, Send

    from replicator_runtime.service.access.operations import Operation
    from replicator_runtime.service.settings import ServiceSettings
    from replicator_runtime.service.store.database import Database

LOCAL = Principal("local", Role.ADMIN)
"""Everyone who reaches a service without tokens, which listens on loopback only."""
NO_CSRF_VALUE = "RPL-1553"
COOKIE = "replicator_session"
CSRF_HEADER = b"x-csrf-token"
_LOOKUPS_AT_ONCE = 4


class Authentication:
    """ASGI middleware that sets `request.state.principal`; it is absent where no valid token was sent.

    A request that may change something is refused here without one, before its body is read.

    Args:
        app: What follows.
        owner: The application whose context has the database.
        settings: The service's.
        failures: Those of authentication, by address.
    """

    def __init__(self, app: ASGIApp, owner: FastAPI, settings: ServiceSettings, failures: Buckets) -> None:
        self._application = app
        self._owner = owner
        self._settings = settings
        # Of its own, so that operations which wait for a command never hold up a look at a token.
        self._lookups = CapacityLimiter(_LOOKUPS_AT_ONCE)
        self._failures = failures

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Find the principal, then pass the request on.

        Raises:
            ProblemError: 401 RPL-1540, 403 RPL-1546 and RPL-1553, 429 RPL-1550.
        """
        if scope["type"] == "http":
            await self._find(scope)
            operation: Operation | None = scope["state"].get("operation")
            if "principal" not in scope["state"] and operation is not None and operation.role is not None:
                refuse(scope, self._failures)
        await self._application(scope, receive, send)

    async def _find(self, scope: Scope) -> None:
        """Set the principal.

        Raises:
            ProblemError: 403 RPL-1546 or RPL-1553 when another site's page may have sent the request.
        """
        if self._settings.auth is Auth.NONE:
            scope["state"]["principal"] = LOCAL
            check_same_site(scope)
            return
        with_header = bool(header_values(scope, b"authorization"))
        text = bearer_token(scope) if with_header else session_cookie(scope)
        if not text:
            if not with_header:
                check_same_site(scope)
            return
        find = find_token if with_header else find_session
        database: Database = self._owner.state.context.database
        token = await to_thread.run_sync(find, database, text, limiter=self._lookups)
        if token is None:
            return
        scope["state"]["principal"] = principal_of_token(token)
        scope["state"]["still_valid"] = lambda: find(database, text) is not None
        if not with_header:
            scope["state"]["session"] = text
            check_same_site(scope)
            _check_csrf(scope, text)


def refuse(scope: Scope, failures: Buckets) -> NoReturn:
    """Refuse a request without a valid token, and count it.

    Raises:
        ProblemError: 401 RPL-1540; 429 RPL-1550 when there were too many from the same address.
    """
    wait = failures.take(client_address(scope))
    raise too_many(wait) if wait else unknown_caller()


def bearer_token(scope: Scope) -> str | None:
    """The token that the header `Authorization` carries."""
    values = header_values(scope, b"authorization")
    if len(values) != 1:
        return None
    scheme, _, text = values[0].partition(" ")
    return text.strip() if scheme.lower() == "bearer" else None


def cookie_name(scope: Scope) -> str:
    """The session's cookie; browsers send cookies to every port of a host, so the port is in its name."""
    _, _, port = header_values(scope, b"host")[0].rpartition(":")
    return f"{COOKIE}_{port}" if port.isdigit() else COOKIE


def session_cookie(scope: Scope) -> str | None:
    """The session's text that the browser sends."""
    jar = SimpleCookie()
    for value in header_values(scope, b"cookie"):
        try:
            jar.load(value)
        except CookieError:
            return None
    found = jar.get(cookie_name(scope))
    return found.value if found else None


def _check_csrf(scope: Scope, text: str) -> None:
    if scope["method"] in SAFE_METHODS:
        return
    shown = header_values(scope, CSRF_HEADER)
    if len(shown) != 1 or not is_csrf_value(text, shown[0]):
        raise ProblemError(
            403,
            NO_CSRF_VALUE,
            "a change from a page needs the session's CSRF value",
            hint="send `csrf` of GET /v1/session as `X-CSRF-Token`; reload the page",
        )
