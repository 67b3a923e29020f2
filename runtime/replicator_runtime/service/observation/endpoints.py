"""What is known of pipelines: status, tables, logs, objectives; event streams."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Header, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import PlainTextResponse
from sse_starlette import EventSourceResponse

from replicator_runtime.observability.log_reading import Wanted
from replicator_runtime.observed.objectives import slo_json, stored_figures
from replicator_runtime.service.access.requirement import requires
from replicator_runtime.service.access.roles import Principal, Role
from replicator_runtime.service.context import Context
from replicator_runtime.service.observation.activity import END, ActivityEntry, Place, activity
from replicator_runtime.service.observation.log_pages import page_of_lines
from replicator_runtime.service.observation.metrics import metrics_text
from replicator_runtime.service.observation.schemas import LogLevel, LogLine, TableLineage, TableRow
from replicator_runtime.service.observation.stored import pipeline_row
from replicator_runtime.service.observation.streaming.topics import Topic
from replicator_runtime.service.observation.tables import TableSort, chosen, cursor
from replicator_runtime.service.paging import Limit, link, page
from replicator_runtime.service.places import place_for_state
from replicator_runtime.service.problems import Problem

router = APIRouter(prefix="/v1/contexts/{namespace}", tags=["observation"])
Viewer = Annotated[Principal, requires(Role.VIEWER)]
NO_PIPELINE: Final[dict[int | str, dict[str, Any]]] = {
    404: {"model": Problem, "description": "There is no such pipeline, or its state does not exist yet."},
    409: {"model": Problem, "description": "The state cannot be read."},
}
_PING_SECONDS = 15
_SEND_SECONDS = 60
_STREAM: Final[dict[int | str, dict[str, Any]]] = {
    200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}, "description": "The events, without end."},
}
LastId = Annotated[
    str | None, Header(alias="Last-Event-ID", max_length=100, description="The last event that the reader has.")
]
AfterId = Annotated[
    str | None, Query(alias="lastEventId", max_length=100, description="The same, where a header cannot be sent.")
]


@router.get(
    "/pipelines/{name}/status",
    operation_id="getPipelineStatus",
    dependencies=[Depends(place_for_state)],
    summary="The state that the pipeline's run wrote last, as `replicator status --json`",
    responses=NO_PIPELINE,
)
def get_status(namespace: str, name: str, context: Context, principal: Viewer) -> dict[str, Any]:
    """The state that the pipeline's run wrote last, and what is known beside it."""
    return context.observation.reader_of(namespace, name).status()


@router.get(
    "/pipelines/{name}/tables",
    operation_id="listPipelineTables",
    summary="The pipeline's tables with state, progress, lag and errors",
    response_model=list[TableRow],
    responses=NO_PIPELINE,
)
def list_tables(
    namespace: str,
    name: str,
    context: Context,
    principal: Viewer,
    request: Request,
    response: Response,
    search: Annotated[str, Query(max_length=200, description="A part of the name, in any case.")] = "",
    state: Annotated[str, Query(max_length=20, description="Only tables in this state.")] = "",
    sort: TableSort = TableSort.NAME,
    limit: Limit = 100,
    after: Annotated[
        str | None, Query(max_length=4096, description="Those after this one; of a `Link` header.")
    ] = None,
) -> Any:
    """A part of the tables, in order."""
    rows = context.observation.rows(namespace, name)
    found = chosen(rows.values(), search, state, sort, after, limit)
    return page(request, response, found, lambda row: cursor(row, sort), limit)


@router.get(
    "/pipelines/{name}/logs",
    operation_id="listPipelineLogs",
    dependencies=[Depends(place_for_state)],
    summary="What runs of the pipeline have logged, the newest first",
    response_model=list[LogLine],
    responses=NO_PIPELINE,
)
def list_logs(
    namespace: str,
    name: str,
    context: Context,
    principal: Viewer,
    request: Request,
    response: Response,
    level: LogLevel = LogLevel.DEBUG,
    text: Annotated[str, Query(max_length=200, description="Only lines with this text in them.")] = "",
    table: Annotated[str, Query(max_length=400, description="Only lines about this table.")] = "",
    before: Annotated[datetime | None, Query(description="Only earlier lines.")] = None,
    limit: Limit = 100,
) -> Any:
    """A page of lines; the `Link` header names those before them, also where a page has none that are wanted."""
    folder = context.observation.reader_of(namespace, name).directory.logs()
    found, oldest = page_of_lines(folder, Wanted(table, level.value), text, before, limit)
    if oldest is not None:
        link(request, response, before=oldest, limit=limit)
    return found


@router.get(
    "/pipelines/{name}/objectives",
    operation_id="getPipelineObjectives",
    dependencies=[Depends(place_for_state)],
    summary="How much of the time the tables were fresh, as `replicator slo --json`",
    responses=NO_PIPELINE,
)
def get_objectives(
    namespace: str,
    name: str,
    context: Context,
    principal: Viewer,
    tables: Annotated[int, Query(ge=0, le=10_000, description="So many tables at most, the worst first.")] = 20,
) -> dict[str, Any]:
    """The figures as of now."""
    directory = context.observation.reader_of(namespace, name).directory
    figures = stored_figures(directory.states().scoped("runtime"))
    return {
        "name": directory.name,
        "namespace": directory.namespace,
        "generation": directory.generation,
        "slo": slo_json(figures, tables),
    }


@router.get(
    "/pipelines/{name}/lineage",
    operation_id="getPipelineLineage",
    dependencies=[Depends(place_for_state)],
    summary="Which column of the target comes from which column of the source",
    response_model=list[TableLineage],
    responses=NO_PIPELINE,
)
def get_lineage(namespace: str, name: str, context: Context, principal: Viewer) -> Any:
    """Of each table that runs have found, by the names of OpenLineage; up to half a minute old."""
    return context.lineage.of(namespace, name)


@router.get(
    "/pipelines/{name}/activity",
    operation_id="listPipelineActivity",
    dependencies=[Depends(place_for_state)],
    summary="Requests, jobs, changes and what waits for a decision, the newest first",
    response_model=list[ActivityEntry],
    responses=NO_PIPELINE,
)
def list_activity(
    namespace: str,
    name: str,
    context: Context,
    principal: Viewer,
    request: Request,
    response: Response,
    before: Annotated[datetime | None, Query(description="Only earlier ones.")] = None,
    before_id: Annotated[
        str, Query(alias="beforeId", max_length=100, description="Also those of that moment with a smaller id.")
    ] = "",
    limit: Limit = 50,
) -> Any:
    """A page; the `Link` header names what came before."""
    place = END if before is None else Place(before if before.tzinfo else before.replace(tzinfo=UTC), before_id)
    found = activity(context, namespace, name, place, limit)
    if len(found) > limit:
        last = found[limit - 1]
        link(request, response, before=last.at.isoformat(), beforeId=last.id, limit=limit)
    return found[:limit]


@router.get(
    "/events",
    operation_id="streamFleet",
    summary="All pipelines of the namespace, as a stream of what changes",
    response_class=EventSourceResponse,
    responses=_STREAM,
)
async def stream_fleet(
    namespace: str, context: Context, principal: Viewer, last_id: LastId = None, after: AfterId = None
) -> EventSourceResponse:
    """Events: `begin` (all things follow), `pipeline` (a list item), `deleted`."""
    topic = context.streams.fleet(namespace)
    return _stream(context, topic, last_id or after)


@router.get(
    "/pipelines/{name}/events",
    operation_id="streamPipeline",
    summary="A pipeline and its tables, as a stream of what changes",
    response_class=EventSourceResponse,
    responses={**_STREAM, 404: NO_PIPELINE[404]},
)
async def stream_pipeline(
    namespace: str, name: str, context: Context, principal: Viewer, last_id: LastId = None, after: AfterId = None
) -> EventSourceResponse:
    """Events: `begin` (all things follow), `pipeline`, `status` (without tables), `table`, `deleted`."""
    await run_in_threadpool(pipeline_row, context.database, namespace, name)
    return _stream(context, context.streams.pipeline(namespace, name), last_id or after)


def _stream(context: Context, topic: Topic, last_id: str | None) -> EventSourceResponse:
    context.streams.check(topic)
    return EventSourceResponse(
        context.streams.events(topic, last_id),
        ping=_PING_SECONDS,
        send_timeout=_SEND_SECONDS,
        headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
    )


metrics_router = APIRouter(tags=["observation"])


@metrics_router.get(
    "/metrics",
    operation_id="getMetrics",
    summary="Metrics of the service and of all pipelines, for Prometheus",
    response_class=PlainTextResponse,
)
def get_metrics(context: Context, principal: Viewer) -> PlainTextResponse:
    """Tables are counted together; a run that shows its own metrics shows each."""
    return PlainTextResponse(metrics_text(context), media_type="text/plain; version=0.0.4; charset=utf-8")
