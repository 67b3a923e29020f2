"""Pipelines: list, create, read, edit, delete, start, stop, restart."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Header, Path, Query, Request, Response

from replicator_runtime.service.access.requirement import requires
from replicator_runtime.service.access.roles import Principal, Role
from replicator_runtime.service.context import Context
from replicator_runtime.service.paging import After, Limit, page
from replicator_runtime.service.pipelines import changes
from replicator_runtime.service.pipelines.items import list_texts, read_answer, read_item
from replicator_runtime.service.pipelines.output import read_output
from replicator_runtime.service.pipelines.schemas import (
    NAME,
    NewPipeline,
    PipelineAnswer,
    PipelineConfigBody,
    PipelineItem,
    ProcessOutput,
)
from replicator_runtime.service.problems import MEDIA_TYPE, Problem
from replicator_runtime.service.supervision.local import OUTPUT_BYTES

router = APIRouter(prefix="/v1/contexts/{namespace}/pipelines", tags=["pipelines"])
Namespace = Annotated[str, Path(pattern=NAME, description="Keeps pipelines of one name apart.")]
PipelineName = Annotated[str, Path(pattern=NAME, description="The pipeline's name.")]
IfMatch = Annotated[str | None, Header(alias="If-Match", description="Only if the pipeline has this ETag still.")]
Viewer = Annotated[Principal, requires(Role.VIEWER)]
Operator = Annotated[Principal, requires(Role.OPERATOR)]
Admin = Annotated[Principal, requires(Role.ADMIN)]


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The documentation of the statuses that a problem may have."""
    return {status: {"model": Problem, "content": {MEDIA_TYPE: {}}} for status in (401, 403, 422, *statuses)}


@router.get("", operation_id="listPipelines", response_model=list[PipelineItem], responses=problems())
def list_all(
    namespace: Namespace,
    context: Context,
    principal: Viewer,
    request: Request,
    response: Response,
    limit: Limit = 1000,
    after: After = None,
) -> Response:
    """List the pipelines of a namespace, by name."""
    found = list_texts(context, namespace, after, limit + 1)
    shown = page(request, response, found, lambda one: one[0], limit)
    headers = {"Link": response.headers["Link"]} if "Link" in response.headers else None
    return Response(f"[{','.join(text for _, text in shown)}]", headers=headers, media_type="application/json")


@router.post("", operation_id="createPipeline", status_code=201, responses=problems(404, 409, 413, 503, 504))
def create(
    namespace: Namespace,
    body: NewPipeline,
    context: Context,
    principal: Admin,
    request: Request,
    response: Response,
) -> PipelineAnswer:
    """Create a pipeline from a draft or a config that is valid, and start it if that is asked for."""
    name = changes.create(context, namespace, body)
    response.headers["Location"] = f"{request.url.path}/{name}"
    return _answer(context, namespace, name, response)


@router.get("/{name}", operation_id="getPipeline", responses=problems(404))
def read(
    namespace: Namespace, name: PipelineName, context: Context, principal: Viewer, response: Response
) -> PipelineAnswer:
    """Read a pipeline with its config; the header `ETag` names the config's version."""
    return _answer(context, namespace, name, response)


@router.put("/{name}", operation_id="putPipeline", responses=problems(404, 409, 412, 413, 503, 504))
def edit(
    namespace: Namespace,
    name: PipelineName,
    body: PipelineConfigBody,
    context: Context,
    principal: Admin,
    response: Response,
    if_match: IfMatch = None,
) -> PipelineAnswer:
    """Edit a pipeline's config; a run that goes on has it after its next start."""
    changes.edit(context, namespace, name, body.config, if_match)
    return _answer(context, namespace, name, response)


@router.delete("/{name}", operation_id="deletePipeline", status_code=202, responses=problems(404, 412))
def delete(
    namespace: Namespace,
    name: PipelineName,
    context: Context,
    principal: Admin,
    if_match: IfMatch = None,
    target_tables: Annotated[
        bool, Query(alias="targetTables", description="Delete the tables at the target, too, that it wrote.")
    ] = False,
    keep_source: Annotated[
        bool,
        Query(alias="keepSource", description="Leave the source alone, such as when it cannot be reached any more."),
    ] = False,
) -> PipelineItem:
    """Stop a pipeline and remove it, its state and what it left at the source; it is gone when that has been done."""
    changes.delete(context, namespace, name, if_match, target_tables=target_tables, keep_source=keep_source)
    context.carrier.end(namespace, name)
    context.jobs.cancel_all(namespace, name)
    return read_item(context, namespace, name)


@router.post("/{name}/start", operation_id="startPipeline", status_code=202, responses=problems(404, 409))
def start(namespace: Namespace, name: PipelineName, context: Context, principal: Operator) -> PipelineItem:
    """Start a pipeline; one that has failed, or waits for its next start, is started at once."""
    changes.start(context, namespace, name)
    context.carrier.end(namespace, name)
    return read_item(context, namespace, name)


@router.post("/{name}/stop", operation_id="stopPipeline", status_code=202, responses=problems(404, 409))
def stop(namespace: Namespace, name: PipelineName, context: Context, principal: Operator) -> PipelineItem:
    """Stop a pipeline: it applies what it has gathered first."""
    changes.stop(context, namespace, name)
    return read_item(context, namespace, name)


@router.post("/{name}/restart", operation_id="restartPipeline", status_code=202, responses=problems(404, 409))
def restart(namespace: Namespace, name: PipelineName, context: Context, principal: Operator) -> PipelineItem:
    """Stop a pipeline and start it again, with its config as it is now."""
    changes.restart(context, namespace, name)
    context.carrier.end(namespace, name)
    return read_item(context, namespace, name)


@router.get("/{name}/output", operation_id="getPipelineOutput", responses=problems(404, 503))
def read_printed(
    namespace: Namespace,
    name: PipelineName,
    context: Context,
    principal: Operator,
    process: Annotated[
        str | None, Query(max_length=26, description="Of which process; of the newest when left out.")
    ] = None,
    size: Annotated[int, Query(alias="bytes", ge=1, le=OUTPUT_BYTES, description="So many bytes at most.")] = 65_536,
) -> ProcessOutput:
    """Read the last of what a process printed beside its log, such as why Java or the system ended it; all remembered processes are named."""
    return read_output(context, namespace, name, process, size)


def _answer(context: Context, namespace: str, name: str, response: Response) -> PipelineAnswer:
    found = read_answer(context, namespace, name)
    response.headers["ETag"] = changes.etag(found.config_version, found.created)
    return found
