"""Asks pipelines for something by requests, which their runs, or a process of the service, carry out."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from replicator_runtime.observed.requests import request_json
from replicator_runtime.service.problems import ProblemError
from replicator_sdk.errors import NeedsUserError
from replicator_sdk.failpoint import failpoint, register
from replicator_state import Entry

if TYPE_CHECKING:
    from collections.abc import Mapping

    from replicator_runtime.service.access.roles import Principal
    from replicator_runtime.service.context import ServiceContext
    from replicator_state import ReplicatorDirectory, RequestFolder

register("service.action.before", "service.action.stored")
NEVER_RAN: Final = "RPL-1201"
UNKNOWN_REQUEST: Final = "RPL-1562"
NOT_WITHDRAWN: Final = "RPL-1563"
_ID = re.compile(r"[0-9A-HJKMNP-TV-Z]{26}")


def ask(
    context: ServiceContext,
    namespace: str,
    name: str,
    command: str,
    arguments: Mapping[str, Any],
    principal: Principal,
) -> str:
    """Ask a pipeline for `command`; durable when this returns. The request's id.

    Raises:
        ProblemError: 404 RPL-1520 when there is no such pipeline.
        NeedsUserError: RPL-1201 when it never ran, RPL-7106 when its state is another user's.
        ReplicatorError: As the state's store fails.
    """
    directory = started_directory(context, namespace, name)
    directory.check_user()
    failpoint("service.action.before")
    request = directory.requests().submit(command, arguments, by=principal.name)
    failpoint("service.action.stored")
    context.observation.forget(namespace, name)
    context.carrier.look(namespace, name)
    return request.request_id


def started_directory(context: ServiceContext, namespace: str, name: str) -> ReplicatorDirectory:
    """The state of a pipeline that has run.

    Raises:
        ProblemError: 404 RPL-1520 when there is no such pipeline.
        NeedsUserError: RPL-1201 when it never ran.
    """
    directory = context.observation.reader_of(namespace, name).directory
    generations = directory.generations()
    if not generations:
        raise NeedsUserError(
            f'the pipeline "{name}" has not run yet', code=NEVER_RAN, hint="start it: `replicator start NAME`"
        )
    return directory.of_generation(max(generations))


def history(context: ServiceContext, namespace: str, name: str, limit: int, after: str | None) -> list[dict[str, Any]]:
    """The requests that are kept, the newest first; those that are older than `after`, and one more than `limit`."""
    folder = context.observation.reader_of(namespace, name).directory.requests()
    found = folder.history(limit + 1, before=after)
    return [request_json(entry) for entry in found]


def detail(context: ServiceContext, namespace: str, name: str, request_id: str) -> dict[str, Any]:
    """One request, with all that is known of it.

    Raises:
        ProblemError: 404 RPL-1562 when there is none of this id.
    """
    folder, entry = _entry(context, namespace, name, request_id)
    request, outcome = entry.request, entry.outcome
    found: dict[str, Any] = {
        **request_json(entry),
        "arguments": dict(request.arguments) if request else {},
        "begun": folder.is_begun(request_id),
        "problem": {} if outcome else context.carrier.problem(namespace, name),
    }
    if outcome is not None:
        found |= {
            "lines": list(outcome.lines),
            "code": outcome.code,
            "message": outcome.message,
            "hint": outcome.hint,
            "data": dict(outcome.data),
        }
    return found


def withdraw(context: ServiceContext, namespace: str, name: str, request_id: str) -> None:
    """Withdraw a request that no one has begun.

    Raises:
        ProblemError: 404 RPL-1562 when there is none of this id, 409 RPL-1563 when it has been begun.
    """
    folder, entry = _entry(context, namespace, name, request_id)
    if entry.outcome is not None and entry.outcome.state.value == "withdrawn":
        return
    if entry.outcome is not None or not folder.withdraw(request_id):
        raise ProblemError(
            409,
            NOT_WITHDRAWN,
            "the request has been begun, or is done, and cannot be withdrawn",
            hint=f"GET …/requests/{request_id} says what happened to it",
        )
    context.observation.forget(namespace, name)


def _entry(context: ServiceContext, namespace: str, name: str, request_id: str) -> tuple[RequestFolder, Entry]:
    folder = context.observation.reader_of(namespace, name).directory.requests()
    if _ID.fullmatch(request_id):
        entry = folder.entry(request_id)
        if entry is not None:
            return folder, entry
    raise ProblemError(
        404,
        UNKNOWN_REQUEST,
        "there is no such request; they are kept for 30 days",
        hint="GET …/requests lists those that there are",
    )
