"""Commands that take long: each is a job, which is looked at until it has ended."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any, Final

from fastapi import APIRouter, Depends, Path, Query, Request, Response

from replicator_runtime.service.access.requirement import check_role, requires
from replicator_runtime.service.access.roles import Principal, Role
from replicator_runtime.service.context import Context, ServiceContext
from replicator_runtime.service.operations import commands
from replicator_runtime.service.operations.endpoints import PROBLEMS
from replicator_runtime.service.operations.job_records import OPEN
from replicator_runtime.service.operations.requests import started_directory
from replicator_runtime.service.operations.schemas import ExplainRow, JobDetail, JobItem, Maintain, Rewind, Verify
from replicator_runtime.service.paging import After, Limit, page
from replicator_runtime.service.pipelines.files import pipeline_file
from replicator_runtime.service.places import place_for_state
from replicator_runtime.service.problems import ProblemError

if TYPE_CHECKING:
    from replicator_runtime.service.operations.commands import Command
    from replicator_runtime.service.store.tables import Job

router = APIRouter(prefix="/v1/contexts/{namespace}", tags=["jobs"])
Viewer = Annotated[Principal, requires(Role.VIEWER)]
Operator = Annotated[Principal, requires(Role.OPERATOR)]
Admin = Annotated[Principal, requires(Role.ADMIN)]
JobId = Annotated[str, Path(max_length=26, description="Of the answer that began it, or of the list.")]
NO_RESULT: Final = "RPL-1565"
_STARTS: Final[dict[str, Any]] = {
    "status_code": 202,
    "response_model": JobItem,
    "responses": PROBLEMS,
    "dependencies": [Depends(place_for_state)],
}


@router.post(
    "/pipelines/{name}/verify",
    operation_id="verifyPipeline",
    summary="Compare tables with their copies; with `repair` (admin) write what differs",
    **_STARTS,
)
def verify(namespace: str, name: str, body: Verify, context: Context, principal: Operator) -> JobItem:
    """As `replicator verify`."""
    if body.repair:
        check_role(principal, Role.ADMIN, namespace)
    file = _file(context, namespace, name)
    return _started(context, namespace, name, commands.verify(file, name, body), principal)


@router.post(
    "/pipelines/{name}/explainRow",
    operation_id="explainRow",
    summary="Compare one row at source and target; its values are not shown",
    **_STARTS,
)
def explain_row(namespace: str, name: str, body: ExplainRow, context: Context, principal: Operator) -> JobItem:
    """As `replicator explain-row`."""
    file = _file(context, namespace, name)
    return _started(context, namespace, name, commands.explain_row(file, name, body), principal)


@router.post(
    "/pipelines/{name}/heal",
    operation_id="healPipeline",
    summary="Go on after the source has lost its log, by comparing",
    **_STARTS,
)
def heal(namespace: str, name: str, context: Context, principal: Admin) -> JobItem:
    """As `replicator heal --yes`; stop the pipeline first."""
    return _started(context, namespace, name, commands.heal(_file(context, namespace, name), name), principal)


@router.post(
    "/pipelines/{name}/reset",
    operation_id="resetPipeline",
    summary="Have every table copied again from the beginning",
    **_STARTS,
)
def reset(namespace: str, name: str, context: Context, principal: Admin) -> JobItem:
    """As `replicator reset --yes`; stop the pipeline first."""
    return _started(context, namespace, name, commands.reset(_file(context, namespace, name), name), principal)


@router.post(
    "/pipelines/{name}/maintain",
    operation_id="maintainPipeline",
    summary="Have the target do the maintenance that is due",
    **_STARTS,
)
def maintain(namespace: str, name: str, body: Maintain, context: Context, principal: Operator) -> JobItem:
    """As `replicator maintain`; a run does the same by itself."""
    file = _file(context, namespace, name)
    return _started(context, namespace, name, commands.maintain(file, name, body), principal)


@router.post(
    "/pipelines/{name}/offsets/rewind",
    operation_id="rewindPipeline",
    summary="Go back to an offset, the target's tables with it; or only say what that does",
    **_STARTS,
)
def rewind(namespace: str, name: str, body: Rewind, context: Context, principal: Admin) -> JobItem:
    """As `replicator rewind`; stop the pipeline first."""
    made = commands.rewind(_file(context, namespace, name), name, body)
    return _started(context, namespace, name, made, principal, plan_only=body.plan_only)


@router.get(
    "/jobs",
    operation_id="listJobs",
    summary="The namespace's jobs, the newest first",
    response_model=list[JobItem],
)
def list_jobs(
    namespace: str,
    context: Context,
    principal: Viewer,
    request: Request,
    response: Response,
    pipeline: Annotated[str | None, Query(max_length=63, description="Only those of this one.")] = None,
    limit: Limit = 100,
    after: After = None,
) -> Any:
    """The newest 200 of each pipeline are kept."""
    found = context.jobs.records.newest(namespace, pipeline, after, limit)
    return page(request, response, [_item(job) for job in found], lambda job: job.id, limit)


@router.get(
    "/jobs/{job_id}",
    operation_id="getJob",
    summary="A job, and what its command printed",
    response_model=JobDetail,
    responses=PROBLEMS,
)
def get_job(namespace: str, job_id: JobId, context: Context, principal: Viewer) -> JobDetail:
    """One job with its result."""
    return _detail(context.jobs.records.find(namespace, job_id))


@router.delete(
    "/jobs/{job_id}",
    operation_id="cancelJob",
    summary="End a job that has not ended",
    status_code=202,
    response_model=JobItem,
    responses=PROBLEMS,
)
def cancel_job(namespace: str, job_id: JobId, context: Context, principal: Operator) -> JobItem:
    """Its process gets SIGTERM, and SIGKILL 15 seconds later; what it had done by then stays."""
    return _item(context.jobs.cancel(namespace, job_id))


def _file(context: ServiceContext, namespace: str, name: str) -> Any:
    """The file of a pipeline that has run."""
    started_directory(context, namespace, name)
    return pipeline_file(context, namespace, name)


def _started(
    context: ServiceContext,
    namespace: str,
    name: str,
    command: Command,
    principal: Principal,
    *,
    plan_only: bool = False,
) -> JobItem:
    job = context.jobs.start(namespace, name, command.shown, command.words, principal.name, plan_only=plan_only)
    return _item(job)


def _item(job: Job) -> JobItem:
    return JobItem(
        id=job.job_id,
        pipeline=job.name,
        command=json.loads(job.command),
        by=job.by,
        state=job.state,
        started=job.started,
        ended=job.ended,
        exit_code=job.exit_code,
    )


def _detail(job: Job) -> JobDetail:
    result = None
    if job.state not in OPEN:
        result = json.loads(job.output) if job.output else _without_result(job)
    return JobDetail(**_item(job).model_dump(), result=result)


def _without_result(job: Job) -> dict[str, Any]:
    """An envelope for a command that printed none."""
    if job.state == "cancelled":
        return {"data": None, "warnings": [], "error": None}
    why = "the service ended while it ran, and its process with it" if job.state == "lost" else "its process ended"
    problem = ProblemError(
        503,
        NO_RESULT,
        f"the job has no result: {why}",
        hint="begin it again; each of these commands may be given twice",
    )
    error = {"code": problem.code, "class": "retryable", "message": problem.detail, "hint": problem.hint}
    return {"data": None, "warnings": [], "error": error}
