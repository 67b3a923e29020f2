"""Whether the service lives, and whether it can serve; for Kubernetes and load balancers, without a token."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from anyio import move_on_after, to_thread
from fastapi import APIRouter, Request
from pydantic import BaseModel, Field
from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError

from replicator_runtime.service.problems import NO_DATABASE, ProblemError

if TYPE_CHECKING:
    from replicator_runtime.service.context import ServiceContext

AT_ONCE: Final = 4
"""Threads that ask the database: readiness waits for none of the other requests' threads."""
_SECONDS: Final = 2.0
SUPERVISION_STUCK = "RPL-1539"
router = APIRouter(tags=["service"])


class Health(BaseModel):
    """The service answers."""

    status: Literal["ok"] = "ok"


class Readiness(Health):
    """The service can serve."""

    supervises: bool = Field(description="Whether it starts and stops pipelines; one service of a database does.")
    reason: str = Field(description="Why it does not; empty when it does.")


@router.get("/livez", operation_id="getLiveness", summary="Whether the process answers")
async def get_liveness() -> Health:
    """The process answers; nothing else is asked."""
    return Health()


@router.get("/readyz", operation_id="getReadiness", summary="Whether the service can serve")
async def get_readiness(request: Request) -> Readiness:
    """The database answers, and pipelines are looked after; 503 RPL-1542 or RPL-1539 when not."""
    state = request.app.state
    with move_on_after(_SECONDS):
        return await to_thread.run_sync(_readiness, state.context, abandon_on_cancel=True, limiter=state.readiness)
    raise ProblemError(
        503, NO_DATABASE, f"the service's database does not answer in {_SECONDS:g} s", hint="look at --store"
    )


def _readiness(context: ServiceContext) -> Readiness:
    try:
        with context.database.session() as session:
            session.execute(text("SELECT 1"))
    except SQLAlchemyError as error:
        raise ProblemError(
            503, NO_DATABASE, f"the service's database does not answer: {type(error).__name__}", hint="look at --store"
        ) from None
    if context.supervisor.is_stuck:
        raise ProblemError(
            503,
            SUPERVISION_STUCK,
            "pipelines are neither started nor stopped: their supervisor has not looked at them for a minute",
            hint="look into the service's log for `service.supervision_failed`, and start the service again; replicators go on meanwhile",
        )
    refusal = context.supervisor.refusal
    # Who asks has shown no token: which host and folder the other one has is in the log, and in `needsYou` of pipelines.
    reason = "another service of the same store or work folder starts and stops pipelines, or this one has just begun"
    return Readiness(supervises=not refusal, reason=reason if refusal else "")
