"""Writes each change that is asked for into the audit log, before it is carried out, and then what was answered."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import structlog
from anyio import CapacityLimiter, to_thread
from sqlalchemy.exc import SQLAlchemyError

from replicator_runtime.service.access import audit
from replicator_runtime.service.access.operations import Operation, operation_of, operations_of
from replicator_runtime.service.access.requests.origins import SAFE_METHODS
from replicator_runtime.service.access.requests.rates import TOO_MANY_REQUESTS
from replicator_runtime.service.access.roles import Role
from replicator_runtime.service.problems import ProblemError

if TYPE_CHECKING:
    from fastapi import FastAPI
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from replicator_runtime.service.access.roles import Principal
    from replicator_runtime.service.store.database import Database

NOT_RECORDED = "RPL-1552"
_AT_ONCE = 8
_CLEANED_EVERY_SECONDS = 3600.0
log = structlog.get_logger()


class Recording:
    """Middleware that knows each request's operation (`scope["state"]["operation"]`) and records those that change.

    What viewers may do changes nothing. Requests that are too many are not recorded, nor are those without a valid
    token: whoever sends them could fill the database.

    Args:
        app: What follows.
        owner: Whose operations they are.
    """

    def __init__(self, app: ASGIApp, owner: FastAPI) -> None:
        self._application = app
        self._owner = owner
        self._operations: list[Operation] | None = None
        self._threads = CapacityLimiter(_AT_ONCE)
        self._cleaned = -_CLEANED_EVERY_SECONDS

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return
        if self._operations is None:
            self._operations = operations_of(self._owner)
        operation = operation_of(self._operations, scope["method"], scope["path"])
        scope["state"]["operation"] = operation
        if scope["method"] in SAFE_METHODS or operation is None or operation.role in {Role.VIEWER, None}:
            await self._application(scope, receive, send)
            return
        entry = _Entry(self._owner.state.context.database, scope, operation, self._threads)
        scope["state"]["audit"] = entry
        await self._clean()
        await self._record(entry, scope, receive, send)

    async def _record(self, entry: _Entry, scope: Scope, receive: Receive, send: Send) -> None:
        async def watched(message: Message) -> None:
            if message["type"] == "http.response.start":
                await entry.end(message["status"], scope["state"].get("problem", ""))
            await send(message)

        try:
            await self._application(scope, receive, watched)
        except ProblemError as error:
            if error.code != TOO_MANY_REQUESTS:
                await entry.end(error.status, error.code)
            raise

    async def _clean(self) -> None:
        if time.monotonic() - self._cleaned < _CLEANED_EVERY_SECONDS:
            return
        self._cleaned = time.monotonic()
        await to_thread.run_sync(audit.delete_old_entries, self._owner.state.context.database, limiter=self._threads)


class _Entry:
    """The entry of one request.

    Args:
        database: The service's.
        scope: Of the request.
        operation: That it is for.
        threads: That write.
    """

    def __init__(self, database: Database, scope: Scope, operation: Operation, threads: CapacityLimiter) -> None:
        self._database = database
        self._scope = scope
        self._operation = operation
        self._threads = threads
        self._id: str | None = None
        self._ended = False

    async def begin(self) -> None:
        """Write it; `state.principal` is known.

        Raises:
            ProblemError: 503 RPL-1552 when it cannot be written: nothing is changed that is not recorded.
        """
        try:
            self._id = await to_thread.run_sync(self._begin, limiter=self._threads)
        except SQLAlchemyError as error:
            raise ProblemError(
                503,
                NOT_RECORDED,
                f"the audit log cannot be written: {type(error).__name__}",
                hint="look at the service's database and try again",
            ) from None

    async def end(self, status: int, code: str) -> None:
        """Write what is answered; once. Entries of requests without a valid token are not written."""
        if self._ended or (self._id is None and "principal" not in self._scope["state"]):
            return
        self._ended = True
        try:
            await to_thread.run_sync(self._end, status, code, limiter=self._threads)
        except SQLAlchemyError as error:
            # The change has been made: the client is to know of it. Its entry says that it was asked for.
            log.warning("service.audit_not_written", operation=self._operation.operation_id, kind=type(error).__name__)

    def _begin(self) -> str:
        principal: Principal = self._scope["state"]["principal"]
        found = self._operation.pattern.match(self._scope["path"])
        return audit.begin_entry(
            self._database,
            by=principal.name,
            operation=self._operation.operation_id,
            namespace=(found.groupdict().get("namespace") or "") if found else "",
            path=self._scope["path"],
        )

    def _end(self, status: int, code: str) -> None:
        if self._id is None:
            self._id = self._begin()
        audit.end_entry(self._database, self._id, status=status, code=code)


async def begin_entry(scope: Scope) -> None:
    """Write the entry of a request that may change something; nothing for others."""
    entry: _Entry | None = scope["state"].get("audit")
    if entry is not None and "principal" in scope["state"]:
        await entry.begin()
