"""Plans and approvals, changes of structure, offsets and rows put aside: what operators decide on."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any, Final

from fastapi import APIRouter, Depends, Query

from replicator_runtime.engine.planning.approvals import APPROVE
from replicator_runtime.observed.schema_changes import waiting_changes
from replicator_runtime.service.access.requirement import requires
from replicator_runtime.service.access.roles import Principal, Role
from replicator_runtime.service.catalogue.secret_settings import refuse_literal_secrets
from replicator_runtime.service.commands.config_file import config_file
from replicator_runtime.service.context import Context, ServiceContext
from replicator_runtime.service.operations import requests
from replicator_runtime.service.operations.endpoints import PROBLEMS
from replicator_runtime.service.operations.schemas import (
    Approval,
    Approved,
    Asked,
    OffsetItem,
    Plan,
    PlanRequest,
    SchemaChange,
    SomeTables,
    TableLetters,
)
from replicator_runtime.service.pipelines.files import pipeline_file
from replicator_runtime.service.places import place_for_state
from replicator_runtime.service.problems import ProblemError

if TYPE_CHECKING:
    from pathlib import Path

router = APIRouter(
    prefix="/v1/contexts/{namespace}/pipelines/{name}", tags=["decisions"], dependencies=[Depends(place_for_state)]
)
Viewer = Annotated[Principal, requires(Role.VIEWER)]
Operator = Annotated[Principal, requires(Role.OPERATOR)]
Admin = Annotated[Principal, requires(Role.ADMIN)]
AtMost = Annotated[int, Query(ge=1, le=1000, description="So many at most.")]
OUT_OF_DATE: Final = "RPL-1263"
NOT_WAITING: Final = "RPL-1566"
_PLAN_SECONDS: Final = 120.0


@router.get(
    "/plan",
    operation_id="getPlan",
    summary="What the next run does, as `replicator plan --json`",
    response_model=Plan,
    responses=PROBLEMS,
)
def get_plan(namespace: str, name: str, context: Context, principal: Viewer) -> Any:
    """Compares the stored pipeline with what its last run left; connects to nothing."""
    return _planned(context, pipeline_file(context, namespace, name))


@router.post(
    "/plan",
    operation_id="planPipeline",
    summary="What the next run would do with another config",
    response_model=Plan,
    responses=PROBLEMS,
)
def plan(namespace: str, name: str, body: PlanRequest, context: Context, principal: Operator) -> Any:
    """Changes nothing; with no config it is the plan of the stored one."""
    file = pipeline_file(context, namespace, name)
    if body.config is None:
        return _planned(context, file)
    stored = json.loads(file.read_text("utf-8"))
    kept = {key: stored[key] for key in ("name", "namespace", "offsetBasePath") if key in stored}
    refuse_literal_secrets(context, body.config)
    with config_file(context.settings, {**body.config, **kept}) as other:
        return _planned(context, other)


@router.post(
    "/approvals",
    operation_id="approvePlan",
    summary="Approve a plan, so that the next run does what it says",
    status_code=201,
    response_model=Approved,
    responses=PROBLEMS,
)
def approve_plan(namespace: str, name: str, body: Approval, context: Context, principal: Admin) -> Approved:
    """The plan is made again, and one that is out of date is refused (409 RPL-1263)."""
    found = _planned(context, pipeline_file(context, namespace, name))
    if found["plan"] != body.plan or not any(step.get("needsApproval") for step in found["steps"]):
        now = f"it is {found['plan']} now" if found["needsApproval"] else "nothing needs an approval now"
        raise ProblemError(
            409,
            OUT_OF_DATE,
            f"plan {body.plan} is out of date: {now}; nothing was approved",
            hint="look at the plan of now, and approve that",
        )
    directory = requests.started_directory(context, namespace, name)
    directory.check_user()
    made = directory.requests().record(APPROVE, {"plan": body.plan}, f"plan {body.plan} is approved", by=principal.name)
    return Approved(plan=body.plan, request=made.request_id, by=made.by, at=made.at.isoformat())


@router.get(
    "/schemaChanges",
    operation_id="listSchemaChanges",
    summary="Changes of structure that wait for a decision, as `replicator ddl list --json`",
    response_model=list[SchemaChange],
    responses=PROBLEMS,
)
def list_schema_changes(namespace: str, name: str, context: Context, principal: Viewer) -> Any:
    """In the order of their tables."""
    return waiting_changes(requests.started_directory(context, namespace, name))


@router.post(
    "/schemaChanges/{change_id}/approve",
    operation_id="approveSchemaChange",
    summary="Have the target follow a change of structure",
    status_code=202,
    response_model=Asked,
    responses=PROBLEMS,
)
def approve_change(namespace: str, name: str, change_id: str, context: Context, principal: Operator) -> Asked:
    """As `replicator ddl approve`."""
    return _decided(context, namespace, name, "ddl.approve", change_id, principal)


@router.post(
    "/schemaChanges/{change_id}/reject",
    operation_id="rejectSchemaChange",
    summary="Have the target go on without a change of structure",
    status_code=202,
    response_model=Asked,
    responses=PROBLEMS,
)
def reject_change(namespace: str, name: str, change_id: str, context: Context, principal: Operator) -> Asked:
    """As `replicator ddl reject`."""
    return _decided(context, namespace, name, "ddl.reject", change_id, principal)


@router.get(
    "/offsets",
    operation_id="listOffsets",
    summary="Offsets that were saved, the newest first, as `replicator offsets list --json`",
    response_model=list[OffsetItem],
    responses=PROBLEMS,
)
def list_offsets(namespace: str, name: str, context: Context, principal: Viewer, limit: AtMost = 20) -> Any:
    """Those whose file cannot be read say why."""
    requests.started_directory(context, namespace, name)
    file = pipeline_file(context, namespace, name)
    return _run(context, ["offsets", "list", f"--limit={limit}", "--", str(file)])


@router.get(
    "/deadLetters",
    operation_id="listDeadLetters",
    summary="Rows that were put aside, without their values, as `replicator dead-letters list --json`",
    response_model=list[TableLetters],
    responses=PROBLEMS,
)
def list_dead_letters(
    namespace: str,
    name: str,
    context: Context,
    principal: Viewer,
    table: Annotated[str, Query(max_length=1000, description="Only those of this table.")] = "",
    limit: AtMost = 100,
) -> Any:
    """So many of each table at most."""
    requests.started_directory(context, namespace, name)
    file = pipeline_file(context, namespace, name)
    tables = [table] if table else []
    return _run(context, ["dead-letters", "list", f"--limit={limit}", "--", str(file), *tables])


@router.post(
    "/deadLetters/replay",
    operation_id="replayDeadLetters",
    summary="Read the rows put aside again from the source: their tables are copied again",
    status_code=202,
    response_model=Asked,
    responses=PROBLEMS,
)
def replay_dead_letters(namespace: str, name: str, body: SomeTables, context: Context, principal: Operator) -> Asked:
    """As `replicator dead-letters replay`."""
    arguments = {"tables": body.tables}
    return Asked(request_id=requests.ask(context, namespace, name, "dead-letters.replay", arguments, principal))


def _decided(
    context: ServiceContext, namespace: str, name: str, command: str, change_id: str, principal: Principal
) -> Asked:
    waiting = waiting_changes(requests.started_directory(context, namespace, name))
    if change_id not in {change["id"] for change in waiting}:
        raise ProblemError(
            404,
            NOT_WAITING,
            "no change of structure of this id waits for a decision",
            hint="GET …/schemaChanges lists those that wait",
        )
    return Asked(request_id=requests.ask(context, namespace, name, command, {"changes": [change_id]}, principal))


def _planned(context: ServiceContext, file: Path) -> dict[str, Any]:
    """The plan, also where it asks for an approval or is refused."""
    found = context.commands.run(["plan", "--", str(file)], timeout=_PLAN_SECONDS)
    if not isinstance(found.data, dict):
        found.raise_for_error()
    return {**found.data, "error": found.error}


def _run(context: ServiceContext, words: list[str]) -> Any:
    found = context.commands.run(words)
    found.raise_for_error()
    return found.data
