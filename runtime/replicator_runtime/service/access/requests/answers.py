"""The outermost part: headers of every response, problems instead of exceptions, an end for clients that do not read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio
import structlog
from starlette.datastructures import MutableHeaders
from starlette.requests import Request

from replicator_runtime.service import problems

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

_SEND_SECONDS = 60.0
"""A client that takes nothing for so long is gone, or means to hold memory."""
_HEADERS: Mapping[str, str] = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
"""Of each response that does not set its own."""
log = structlog.get_logger()


class Answers:
    """Middleware that sees to it that each request gets one whole answer of this service.

    An exception never reaches the server, which would log it with values that it carries.

    Args:
        app: What follows.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._application = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return
        scope.setdefault("state", {})
        response = _Response(scope, send)
        try:
            await self._application(scope, receive, response.send)
        except problems.ProblemError as error:
            if not response.started:
                await problems.respond(error)(scope, receive, response.send)
        except TimeoutError:
            log.info("service.client_does_not_read", path=scope["path"])
        except Exception as error:  # noqa: BLE001  # whatever it is, the client gets an answer
            if response.started:
                # Without the exception, whose text may carry values.
                log.warning("service.broken_answer", path=scope["path"], kind=type(error).__name__)
                return
            await problems.unexpected(Request(scope), error)(scope, receive, response.send)


class _Response:
    """One response on its way out.

    Args:
        scope: Of the request.
        send: The server's.
    """

    def __init__(self, scope: Scope, send: Send) -> None:
        self.started = False
        self._scope = scope
        self._send = send

    async def send(self, message: Message) -> None:
        """Pass a part of the response on.

        Raises:
            TimeoutError: The client has taken nothing for a minute.
        """
        if message["type"] == "http.response.start":
            self.started = True
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)
            if self._scope["scheme"] == "https":
                headers.setdefault("Strict-Transport-Security", "max-age=31536000")
        with anyio.fail_after(_SEND_SECONDS):
            await self._send(message)
