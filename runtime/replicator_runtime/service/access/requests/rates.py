"""How many requests are taken: per principal, per address that fails to authenticate, and in all at once."""

from __future__ import annotations

import time
from collections import OrderedDict, defaultdict
from typing import TYPE_CHECKING

from replicator_runtime.service.problems import ProblemError

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from replicator_runtime.service.access.roles import Principal
    from replicator_runtime.service.settings import Limits

TOO_MANY_REQUESTS = "RPL-1550"
OVERLOADED = "RPL-1551"
_REMEMBERED = 10_000


class Buckets:
    """Token buckets by key: each allows a burst, then so many a second. The keys used last are remembered.

    Args:
        rate: A second.
        burst: At once.
        clock: In seconds.
    """

    def __init__(self, rate: float, burst: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._burst = burst
        self._clock = clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, key: str) -> float:
        """Take one; 0 when there was one, else the seconds until there is one."""
        now = self._clock()
        left, at = self._left.pop(key, (self._burst, now))
        left = min(self._burst, left + (now - at) * self._rate)
        wait = 0.0 if left >= 1 else (1 - left) / self._rate
        self._left[key] = (left if wait else left - 1, now)
        if len(self._left) > _REMEMBERED:
            self._left.popitem(last=False)
        return wait


class Rates:
    """Middleware that refuses requests of those who send too many.

    Event streams count as open, not as work.

    Args:
        app: What follows.
        limits: How many.
    """

    def __init__(self, app: ASGIApp, limits: Limits) -> None:
        self._application = app
        self._limits = limits
        self._requests = Buckets(limits.requests_per_second, limits.requests_at_once)
        self._working: dict[str, int] = defaultdict(int)
        self._open = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it.

        Raises:
            ProblemError: 429 RPL-1550 for one principal's, 503 RPL-1551 when there are too many in all.
        """
        principal: Principal | None = scope.get("state", {}).get("principal")
        if scope["type"] != "http" or scope["path"] in {"/livez", "/readyz"}:
            await self._application(scope, receive, send)
            return
        who = principal.name if principal else f"address {client_address(scope)}"
        wait = self._requests.take(who)
        if wait:
            raise too_many(wait)
        if self._working[who] >= self._limits.working_at_once:
            raise too_many(1)
        if self._open >= self._limits.open_at_once:
            raise ProblemError(
                503, OVERLOADED, "too many requests are open", hint="try again later", headers={"Retry-After": "5"}
            )
        await self._count(who, scope, receive, send)

    async def _count(self, who: str, scope: Scope, receive: Receive, send: Send) -> None:
        working = True

        def done() -> None:
            nonlocal working
            if working:
                working = False
                self._working[who] -= 1
                if not self._working[who]:
                    del self._working[who]

        async def watched(message: Message) -> None:
            if message["type"] == "http.response.start" and is_event_stream(message):
                done()
            await send(message)

        self._working[who] += 1
        self._open += 1
        try:
            await self._application(scope, receive, watched)
        finally:
            self._open -= 1
            done()


def too_many(wait: float) -> ProblemError:
    """The refusal of one who may try again after `wait` seconds."""
    return ProblemError(
        429,
        TOO_MANY_REQUESTS,
        "too many requests",
        hint="wait as long as `Retry-After` says",
        headers={"Retry-After": str(max(1, round(wait + 0.5)))},
    )


def client_address(scope: Scope) -> str:
    """The address from which a request came."""
    return scope["client"][0] if scope.get("client") else ""


def is_event_stream(start: Message) -> bool:
    """Whether a response that starts is one of server-sent events."""
    return any(n.lower() == b"content-type" and v.startswith(b"text/event-stream") for n, v in start["headers"])
