"""Event streams that are open: they end with the service, and with the token that opened them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from anyio import CancelScope, CapacityLimiter, to_thread

from replicator_runtime.service.access.requests.rates import is_event_stream

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

CHECKED_EVERY_SECONDS = 30.0
"""A stream sends something each 15 seconds at least, so that a revoked token's ends within 45."""
_AT_ONCE = 2


class OpenStreams:
    """The event streams that are open. Used by the event loop's thread only."""

    def __init__(self) -> None:
        self._open: set[CancelScope] = set()
        self._ended = False

    def add(self, stream: CancelScope) -> None:
        """Take a stream in; it ends at once when the service does."""
        self._open.add(stream)
        if self._ended:
            stream.cancel()

    def discard(self, stream: CancelScope) -> None:
        """Forget a stream that has ended."""
        self._open.discard(stream)

    def end(self) -> None:
        """End all of them; clients connect again when there is a service again."""
        self._ended = True
        for stream in self._open:
            stream.cancel()


class Streams:
    """Middleware that ends event streams whose service or whose token has ended.

    Args:
        app: What follows.
        streams: Those that are open.
    """

    def __init__(self, app: ASGIApp, streams: OpenStreams) -> None:
        self._application = app
        self._streams = streams
        self._threads = CapacityLimiter(_AT_ONCE)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        if scope["type"] != "http" or scope["method"] != "GET":
            await self._application(scope, receive, send)
            return
        with CancelScope() as stream:
            watched = _Watched(self, stream, scope, send)
            try:
                await self._application(scope, receive, watched.send)
            finally:
                self._streams.discard(stream)
        # sse-starlette looks for the end of the service, too, and then leaves its response without an end.
        if watched.is_open:
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    def begin(self, stream: CancelScope) -> None:
        """A response is a stream of events."""
        self._streams.add(stream)

    async def check(self, stream: CancelScope, scope: Scope) -> None:
        """End a stream whose token is not valid any more."""
        is_valid = scope["state"].get("still_valid")
        if is_valid is not None and not await to_thread.run_sync(is_valid, limiter=self._threads):
            stream.cancel()


class _Watched:
    """The way of one response.

    Args:
        streams: Knows those that are open.
        stream: Ends this one.
        scope: Of its request.
        send: The way on.
    """

    def __init__(self, streams: Streams, stream: CancelScope, scope: Scope, send: Send) -> None:
        self._streams = streams
        self._stream = stream
        self._scope = scope
        self._send = send
        self._checked: float | None = None
        self.is_open = False

    async def send(self, message: Message) -> None:
        """Pass a part of the response on."""
        await self._send(message)
        if message["type"] == "http.response.start":
            if is_event_stream(message):
                self._checked = time.monotonic()
                self.is_open = True
                self._streams.begin(self._stream)
        elif not message.get("more_body", False):
            self.is_open = False
        elif self._checked is not None and time.monotonic() - self._checked > CHECKED_EVERY_SECONDS:
            self._checked = time.monotonic()
            await self._streams.check(self._stream, self._scope)
