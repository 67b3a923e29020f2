"""Carries a request with an `Idempotency-Key` out once, however often it is sent."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
import structlog
from anyio import CapacityLimiter, to_thread
from sqlalchemy.exc import SQLAlchemyError
from starlette.responses import Response

from replicator_runtime.service.access import repeats
from replicator_runtime.service.access.requests.origins import SAFE_METHODS, header_values
from replicator_runtime.service.access.requests.rates import too_many
from replicator_runtime.service.access.roles import Role
from replicator_runtime.service.problems import NOT_VALID, ProblemError

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastapi import FastAPI
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from replicator_runtime.service.access.operations import Operation
    from replicator_runtime.service.store.database import Database

Result = TypeVar("Result")

OTHER_REQUEST = "RPL-1554"
UNDER_WAY = "RPL-1555"
SECRET_ANSWERS = frozenset({"createToken", "createSession", "sampleDraftTable"})
"""Operations whose answer is a secret, or rows of a source: it is kept nowhere."""
_KEY = re.compile(r"[\x21-\x7e]{1,255}")
_KEPT_HEADERS = frozenset({"content-type", "etag", "location", "link", "retry-after", "allow"})
_NOT_LASTING = frozenset({401, 408, 429})
_WAIT_SECONDS = 10.0
_POLL_SECONDS = 0.05
_CLEANED_EVERY_SECONDS = 600.0
_AT_ONCE = 4
_MOST_BYTES = 64 * 1024
"""Of an answer that is kept."""
MOST_KEYS = 10_000
"""Of one principal in a day."""
log = structlog.get_logger()


class Repeating:
    """Middleware of requests with an `Idempotency-Key`: the same one gets the same answer again for a day.

    Errors of the service itself (5xx) are not kept: such a request may be tried again with its key. Once an operation was
    carried out its key stays taken, even when its answer could be neither kept nor sent. Keys for what viewers may do are
    not looked at: that changes nothing.

    Args:
        app: What follows.
        owner: The application whose context has the database.
    """

    def __init__(self, app: ASGIApp, owner: FastAPI) -> None:
        self._application = app
        self._owner = owner
        self._threads = CapacityLimiter(_AT_ONCE)
        self._under_way: set[tuple[str, str]] = set()
        self._keys: dict[str, int] = {}
        self._cleaned = -_CLEANED_EVERY_SECONDS

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Carry a request out, or answer as before.

        Raises:
            ProblemError: 400 RPL-1500, 422 RPL-1554, 409 RPL-1555, 429 RPL-1550 when there are too many keys.
        """
        key = None if scope["type"] != "http" else _key_of(scope)
        principal = scope.get("state", {}).get("principal")
        if key is None or principal is None:
            await self._application(scope, receive, send)
            return
        await self._clean()
        condition = "".join(header_values(scope, b"if-match") + header_values(scope, b"if-none-match"))
        digest = repeats.digest_of_request(
            scope["method"], scope["path"], scope["query_string"], condition, scope["state"]["body"]
        )
        await self._wait((key, principal.name))
        self._under_way.add((key, principal.name))
        try:
            before = await self._before(key, principal.name, digest)
            if before is None:
                await self._carry_out(key, principal.name, scope, receive, send)
        finally:
            self._under_way.discard((key, principal.name))
        if before is not None:
            headers = dict(before.headers) | {"Idempotent-Replayed": "true"}
            await Response(before.body, before.status or 200, headers)(scope, receive, send)

    async def _wait(self, request: tuple[str, str]) -> None:
        """Wait while this process carries out a request with the same key."""
        deadline = time.monotonic() + _WAIT_SECONDS
        while request in self._under_way:
            if time.monotonic() > deadline:
                raise _no_answer_yet()
            await anyio.sleep(_POLL_SECONDS)

    async def _before(self, key: str, by: str, digest: bytes) -> repeats.Before | None:
        """What was answered before; None when this request is to be carried out, and has its key now."""
        while not await self._claim(key, by, digest):
            before = await self._threaded(repeats.find, key, by)
            if before is None:
                continue  # it has become free
            if before.digest != digest:
                raise ProblemError(
                    422, OTHER_REQUEST, "this Idempotency-Key was used for another request", hint="send another key"
                )
            if before.status is None:
                raise _no_answer_yet()
            return before
        return None

    async def _claim(self, key: str, by: str, digest: bytes) -> bool:
        """Take a key; whether it was free."""
        if by not in self._keys:
            self._keys[by] = await self._threaded(repeats.count, by)
        if self._keys[by] >= MOST_KEYS and await self._threaded(repeats.find, key, by) is None:
            raise too_many(_CLEANED_EVERY_SECONDS)
        claimed = await self._threaded(repeats.claim, key, by, digest)
        self._keys[by] = self._keys.get(by, 0) + claimed
        return claimed

    async def _carry_out(self, key: str, by: str, scope: Scope, receive: Receive, send: Send) -> None:
        start: Message = {}
        body = bytearray()

        async def keep(message: Message) -> None:
            if message["type"] == "http.response.start":
                start.update(message)
                if not _is_lasting(message["status"]):
                    await self._threaded(repeats.release, key, by)
                return
            body.extend(message.get("body", b""))
            if message.get("more_body", False):
                return
            if _is_lasting(start["status"]):
                await self._keep(key, by, start, bytes(body))
            await send(start)
            await send({"type": "http.response.body", "body": bytes(body)})

        try:
            await self._application(scope, receive, keep)
        except Exception:
            # One that is cancelled goes on in its thread: then, as after an answer, it may have been carried out.
            if not start:
                await self._threaded(repeats.release, key, by)
            raise

    async def _keep(self, key: str, by: str, start: Message, body: bytes) -> None:
        """Keep an answer; one that is too large, or cannot be written, is not, and its key stays taken."""
        if len(body) > _MOST_BYTES:
            return
        status = start["status"]
        headers = [(n.decode("latin-1").lower(), v.decode("latin-1")) for n, v in start["headers"]]
        kept = [(name, value) for name, value in headers if name in _KEPT_HEADERS]
        database = self._owner.state.context.database

        def write() -> None:
            repeats.answered(database, key, by, status=status, headers=kept, body=body)

        try:
            await to_thread.run_sync(write, limiter=self._threads)
        except SQLAlchemyError as error:
            log.warning("service.answer_not_kept", kind=type(error).__name__)

    async def _threaded(self, function: Callable[..., Result], *arguments: Any) -> Result:
        database: Database = self._owner.state.context.database
        return await to_thread.run_sync(function, database, *arguments, limiter=self._threads)

    async def _clean(self) -> None:
        if time.monotonic() - self._cleaned > _CLEANED_EVERY_SECONDS:
            self._cleaned = time.monotonic()
            self._keys.clear()
            await self._threaded(repeats.delete_old)


def _is_lasting(status: int) -> bool:
    """Whether a request that is sent again is to have the same answer."""
    return status < 500 and status not in _NOT_LASTING


def _no_answer_yet() -> ProblemError:
    return ProblemError(
        409,
        UNDER_WAY,
        "a request with this Idempotency-Key was taken, and has no answer yet, or none that was kept",
        hint="look at what it was to change; send another key to do it again",
    )


def _key_of(scope: Scope) -> str | None:
    values = header_values(scope, b"idempotency-key")
    operation: Operation | None = scope["state"].get("operation")
    if not values or scope["method"] in SAFE_METHODS or operation is None:
        return None
    if operation.role in {Role.VIEWER, None} and operation.operation_id not in SECRET_ANSWERS:
        return None
    if len(values) != 1 or not _KEY.fullmatch(values[0]):
        raise ProblemError(400, NOT_VALID, "Idempotency-Key is 1 to 255 visible characters", hint="send a UUID")
    if operation.operation_id in SECRET_ANSWERS:
        raise ProblemError(400, NOT_VALID, "this operation takes no Idempotency-Key", hint="leave it out")
    return values[0]
