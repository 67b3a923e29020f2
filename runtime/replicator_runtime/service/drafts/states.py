"""What seed 001 and CDAP read of a pipeline: its state, its application, the offsets and states of its instances."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastapi import APIRouter, Depends, Path, Response

from replicator_runtime.service.access.requirement import requires
from replicator_runtime.service.access.roles import Principal, Role
from replicator_runtime.service.context import Context
from replicator_runtime.service.drafts.endpoints import Namespace, problems
from replicator_runtime.service.drafts.schemas import NAME
from replicator_runtime.service.drafts.state_schemas import (
    Application,
    ApplicationPlugin,
    OffsetAndSequence,
    Program,
    ReplicationError,
    StateAnswer,
    StateBody,
    TableReplicationState,
)
from replicator_runtime.service.observation.stored import directory_of, pipeline_row
from replicator_runtime.service.places import place_for_state
from replicator_runtime.service.problems import NOT_FOUND, FieldProblem, ProblemError
from replicator_runtime.service.store.tables import Pipeline
from replicator_state import ReplicatorDirectory

if TYPE_CHECKING:
    from collections.abc import Mapping

    from replicator_runtime.service.context import ServiceContext

OTHER_BASE_PATH = "RPL-1513"
DEFAULT_NAMESPACE = "default"
INSTANCE = 0
"""A replicator is one instance; CDAP's may be several."""
_RETRY_SECONDS = 5.0
_STATES: Mapping[str, Literal["SNAPSHOTTING", "REPLICATING"]] = {
    "SNAPSHOTTING": "SNAPSHOTTING",
    "PENDING": "SNAPSHOTTING",
    "REPLICATING": "REPLICATING",
    "PAUSED": "REPLICATING",
}
"""Ours → the seed's; any other is FAILING."""
Viewer = Annotated[Principal, requires(Role.VIEWER)]
AppName = Annotated[str, Path(pattern=NAME, description="The pipeline's name.")]
Generation = Annotated[int, Path(ge=1, le=999_999_999, description="Of the replicator's state.")]
Instance = Annotated[int, Path(ge=0, le=INSTANCE, description="0: a replicator is one instance.")]
_APP = "/v1/contexts/{namespace}/apps/{app}"
_INSTANCE = _APP + "/generations/{generation}/instances/{instance}"
router = APIRouter(tags=["states"], dependencies=[Depends(place_for_state)])


@router.post("/v1/contexts/{namespace}/getState", operation_id="getState", responses=problems(401, 403, 409, 422, 503))
def read_state(namespace: Namespace, body: StateBody, context: Context, principal: Viewer) -> StateAnswer:
    """Read the state of the source and of each table; one that never ran is OK and has no tables."""
    directory = _directory(context, namespace, body.name, body.offset_base_path)
    status = directory.states().read_status() if directory.generations() else None
    if status is None:
        return StateAnswer(source_state="OK", source_error=None, tables=[])
    return StateAnswer(
        source_state="OK" if status.get("sourceState") == "OK" else "FAILING",
        source_error=_error(status.get("sourceError")),
        tables=[_table(table) for table in status.get("tables", ())],
    )


@router.get("/v3/apps/{app}", operation_id="getDefaultApplication", responses=problems(401, 403, 404, 422))
def read_default_application(
    app: AppName, context: Context, principal: Annotated[Principal, requires(Role.VIEWER, DEFAULT_NAMESPACE)]
) -> Application:
    """Read the application of a pipeline in the namespace `default`."""
    return _application(pipeline_row(context.database, DEFAULT_NAMESPACE, app))


@router.get(
    "/v3/namespaces/{namespace}/apps/{app}", operation_id="getApplication", responses=problems(401, 403, 404, 422)
)
def read_application(namespace: Namespace, app: AppName, context: Context, principal: Viewer) -> Application:
    """Read the application of a pipeline."""
    return _application(pipeline_row(context.database, namespace, app))


@router.get(_APP + "/maxgeneration", operation_id="getMaxGeneration", responses=problems(401, 403, 404, 422, 503))
def read_max_generation(namespace: Namespace, app: AppName, context: Context, principal: Viewer) -> int:
    """Read the newest generation of a replicator's state."""
    return max(_with_state(context, namespace, app).generations())


@router.get(_INSTANCE + "/offset", operation_id="getOffset", responses=problems(401, 403, 404, 409, 422, 503))
def read_offset(
    namespace: Namespace, app: AppName, generation: Generation, instance: Instance, context: Context, principal: Viewer
) -> OffsetAndSequence:
    """Read the newest offset, and the number of the last change up to it; the offset is empty before the first one."""
    saved = _of_generation(context, namespace, app, generation).offsets().latest()
    if saved is None:
        return OffsetAndSequence(offset={"state": {}}, sequence_number=0)
    return OffsetAndSequence(
        offset={"state": {key: _text(value) for key, value in saved.fields.items()}},
        sequence_number=saved.sequence_number,
    )


@router.get(
    _INSTANCE + "/states/{state}",
    operation_id="getStateValue",
    response_class=Response,
    responses={200: {"content": {"application/octet-stream": {}}}, **problems(401, 403, 404, 409, 422, 503)},
)
def read_state_value(
    namespace: Namespace,
    app: AppName,
    generation: Generation,
    instance: Instance,
    state: Annotated[str, Path(min_length=1, max_length=120, pattern=r"^[A-Za-z0-9_.:-]+$", description="Its key.")],
    context: Context,
    principal: Viewer,
) -> Response:
    """Read what the replicator, or a plugin of it, keeps under a key."""
    found = _of_generation(context, namespace, app, generation).states().get(state)
    if found is None:
        raise ProblemError(404, NOT_FOUND, "nothing is kept under this key", hint="look at the key")
    return Response(found, media_type="application/octet-stream", headers={"X-Content-Type-Options": "nosniff"})


def _directory(context: ServiceContext, namespace: str, name: str, base_path: str | None = None) -> ReplicatorDirectory:
    """Where the state is: as the pipeline says, or below the service's base path. No request names another place."""
    with context.database.session() as session:
        row = session.get(Pipeline, (namespace, name))
    if row is not None:
        found = directory_of(row, context.settings.base_path)
    else:
        found = ReplicatorDirectory(context.settings.base_path, namespace, name, retry_seconds=_RETRY_SECONDS)
    if base_path and base_path.rstrip("/") != found.base_path.rstrip("/"):
        raise ProblemError(
            422,
            OTHER_BASE_PATH,
            "the replicator's state is not at this offsetBasePath",
            hint="leave `offsetBasePath` out",
            errors=[FieldProblem(pointer="/body/offsetBasePath", message="is the pipeline's own, or left out")],
        )
    return found


def _with_state(context: ServiceContext, namespace: str, name: str) -> ReplicatorDirectory:
    directory = _directory(context, namespace, name)
    if not directory.generations():
        raise ProblemError(404, NOT_FOUND, "this replicator has never run", hint="start it")
    return directory


def _of_generation(context: ServiceContext, namespace: str, name: str, generation: int) -> ReplicatorDirectory:
    directory = _with_state(context, namespace, name)
    if generation not in directory.generations():
        raise ProblemError(404, NOT_FOUND, "there is no such generation", hint="maxgeneration gives the newest")
    return directory.of_generation(generation)


def _table(table: Mapping[str, Any]) -> TableReplicationState:
    return TableReplicationState(
        database=table.get("database", ""),
        schema=table.get("schema", ""),
        table=table.get("table", ""),
        state=_STATES.get(table.get("state", ""), "FAILING"),
        table_state=str(table.get("state")),
        error=_error(table.get("error")),
    )


def _error(error: Mapping[str, Any] | None) -> ReplicationError | None:
    """An error without its stack: that is the program's affair, and may show values."""
    if not error:
        return None
    return ReplicationError(
        message=error.get("message", ""), stack_trace=[], code=error.get("code", ""), hint=error.get("hint", "")
    )


def _application(row: Pipeline) -> Application:
    config: dict[str, Any] = json.loads(row.config)
    return Application(
        name=row.name,
        version=str(row.version),
        app_version=str(row.version),
        namespace=row.namespace,
        description=str(config.get("description") or ""),
        config=config,
        configuration=row.config,
        programs=[Program(app=row.name, name="DeltaWorker", description="The replicator's run.")],
        plugins=[
            ApplicationPlugin(id=str(stage.get("name")), name=str(plugin.get("name")), type=str(plugin.get("type")))
            for stage in config.get("stages", ())
            if isinstance(stage, dict) and isinstance(plugin := stage.get("plugin"), dict)
        ],
    )


def _text(value: bytes) -> str:
    """The text of a field of an offset; in Base64 where it is none."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return base64.b64encode(value).decode()
