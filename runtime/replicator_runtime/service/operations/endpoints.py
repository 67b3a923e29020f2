"""What pipelines and their tables are asked for, and what happened to it."""

from __future__ import annotations

import enum
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Path, Request, Response

from replicator_runtime.service.access.requirement import check_role, requires
from replicator_runtime.service.access.roles import Principal, Role
from replicator_runtime.service.context import Context
from replicator_runtime.service.operations import requests
from replicator_runtime.service.operations.schemas import Asked, RequestDetail, RequestItem, Tables
from replicator_runtime.service.paging import After, Limit, page
from replicator_runtime.service.places import place_for_state
from replicator_runtime.service.problems import Problem

router = APIRouter(
    prefix="/v1/contexts/{namespace}/pipelines/{name}", tags=["operations"], dependencies=[Depends(place_for_state)]
)
Viewer = Annotated[Principal, requires(Role.VIEWER)]
Operator = Annotated[Principal, requires(Role.OPERATOR)]
RequestId = Annotated[str, Path(max_length=26, description="Of the answer to the action, or of the list.")]
PROBLEMS: Final[dict[int | str, dict[str, Any]]] = {
    404: {"model": Problem, "description": "There is no such pipeline, request or change."},
    409: {"model": Problem, "description": "It cannot be done now; the problem says why."},
    503: {"model": Problem, "description": "The state's store does not answer."},
}


class TableAction(enum.StrEnum):
    """What can be asked for of tables."""

    PAUSE = "pause"
    RESUME = "resume"
    RETRY = "retry"
    RESYNC = "resync"
    DROP = "drop"


@router.post(
    "/pause",
    operation_id="pausePipeline",
    summary="Let the whole pipeline read nothing until it is resumed",
    status_code=202,
    response_model=Asked,
    responses=PROBLEMS,
)
def pause_pipeline(namespace: str, name: str, context: Context, principal: Operator) -> Asked:
    """What it has gathered is applied and saved; the source has to keep its log meanwhile."""
    return Asked(request_id=requests.ask(context, namespace, name, "pause", {}, principal))


@router.post(
    "/resume",
    operation_id="resumePipeline",
    summary="Let a paused pipeline go on",
    status_code=202,
    response_model=Asked,
    responses=PROBLEMS,
)
def resume_pipeline(namespace: str, name: str, context: Context, principal: Operator) -> Asked:
    """From where it was; a run that waits does so at once."""
    return Asked(request_id=requests.ask(context, namespace, name, "resume", {}, principal))


@router.post(
    "/tables/{action}",
    operation_id="askForTables",
    summary="Pause, resume, retry, copy again or drop tables (drop: admin)",
    status_code=202,
    response_model=Asked,
    responses=PROBLEMS,
)
def ask_for_tables(
    namespace: str, name: str, action: TableAction, body: Tables, context: Context, principal: Operator
) -> Asked:
    """As `replicator table ACTION`. A name that means no table is refused by the request's outcome."""
    if action is TableAction.DROP:
        check_role(principal, Role.ADMIN, namespace)
    arguments: dict[str, Any] = {"tables": body.tables}
    if action is TableAction.RESYNC:
        arguments["inPlace"] = body.in_place
    if action is TableAction.DROP:
        arguments["keepTarget"] = body.keep_target
    return Asked(request_id=requests.ask(context, namespace, name, f"table.{action}", arguments, principal))


@router.get(
    "/requests",
    operation_id="listRequests",
    summary="What was asked for, the newest first, as `replicator requests --json`",
    response_model=list[RequestItem],
    responses=PROBLEMS,
)
def list_requests(
    namespace: str,
    name: str,
    context: Context,
    principal: Viewer,
    request: Request,
    response: Response,
    limit: Limit = 20,
    after: After = None,
) -> Any:
    """Requests are kept for 30 days."""
    found = requests.history(context, namespace, name, limit, after)
    return page(request, response, found, lambda one: str(one["request"]), limit)


@router.get(
    "/requests/{request_id}",
    operation_id="getRequest",
    summary="One request, and what happened to it",
    response_model=RequestDetail,
    responses=PROBLEMS,
)
def get_request(namespace: str, name: str, request_id: RequestId, context: Context, principal: Viewer) -> Any:
    """All that is known of it."""
    return requests.detail(context, namespace, name, request_id)


@router.delete(
    "/requests/{request_id}",
    operation_id="withdrawRequest",
    summary="Withdraw a request that no one has begun",
    status_code=204,
    responses=PROBLEMS,
)
def withdraw_request(namespace: str, name: str, request_id: RequestId, context: Context, principal: Operator) -> None:
    """Nothing of it is done."""
    requests.withdraw(context, namespace, name, request_id)
