"""Connections: list, read, write, delete, test."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Path, Request, Response

from replicator_runtime.service.access.requirement import requires
from replicator_runtime.service.access.roles import Principal, Role
from replicator_runtime.service.catalogue.connection_test import run_checks
from replicator_runtime.service.catalogue.schemas import Check, ConnectionAnswer, ConnectionBody, PluginSettings
from replicator_runtime.service.catalogue.secret_settings import refuse_literal_secrets_of_plugin
from replicator_runtime.service.context import Context
from replicator_runtime.service.drafts.documents import config_text
from replicator_runtime.service.drafts.endpoints import IfMatch, IfNoneMatch, Namespace, problems
from replicator_runtime.service.drafts.schemas import NAME
from replicator_runtime.service.paging import After, Limit, page
from replicator_runtime.service.store.conditions import Condition
from replicator_runtime.service.store.documents import StoredConnections, etag

if TYPE_CHECKING:
    from collections.abc import Sequence

    from replicator_runtime.service.store.tables import Connection

router = APIRouter(prefix="/v1/contexts/{namespace}/connections", tags=["connections"])
ConnectionName = Annotated[str, Path(pattern=NAME, description="The connection's name.")]
Viewer = Annotated[Principal, requires(Role.VIEWER)]
Operator = Annotated[Principal, requires(Role.OPERATOR)]


@router.get("", operation_id="listConnections", responses=problems(401, 403, 422))
def list_connections(
    namespace: Namespace,
    context: Context,
    principal: Viewer,
    request: Request,
    response: Response,
    limit: Limit = 1000,
    after: After = None,
) -> list[ConnectionAnswer]:
    """List the connections of a namespace, by name."""
    found = StoredConnections(context.database).after(namespace, after, limit + 1)
    shown: Sequence[Connection] = page(request, response, found, lambda connection: connection.name, limit)
    return list(map(_answer, shown))


@router.get("/{name}", operation_id="getConnection", responses=problems(401, 403, 404, 422))
def read_connection(
    namespace: Namespace, name: ConnectionName, context: Context, principal: Viewer, response: Response
) -> ConnectionAnswer:
    """Read a connection; the header `ETag` names its version."""
    found = StoredConnections(context.database).find(namespace, name)
    response.headers["ETag"] = etag(found)
    return _answer(found)


@router.put(
    "/{name}",
    operation_id="putConnection",
    responses={201: {"model": ConnectionAnswer, "description": "It is new."}, **problems(401, 403, 412, 413, 422)},
)
def write_connection(
    namespace: Namespace,
    name: ConnectionName,
    body: ConnectionBody,
    context: Context,
    principal: Operator,
    response: Response,
    if_match: IfMatch = None,
    if_none_match: IfNoneMatch = None,
) -> ConnectionAnswer:
    """Create a connection, or overwrite it; one with a secret in it is refused."""
    text = _checked(context, body.plugin)
    condition = Condition(if_match, if_none_match)
    saved, is_new = StoredConnections(context.database).save(namespace, name, {"plugin": text}, condition)
    response.headers["ETag"] = etag(saved)
    response.status_code = 201 if is_new else 200
    return _answer(saved)


@router.delete("/{name}", operation_id="deleteConnection", status_code=204, responses=problems(401, 403, 404, 412, 422))
def delete_connection(
    namespace: Namespace, name: ConnectionName, context: Context, principal: Operator, if_match: IfMatch = None
) -> None:
    """Delete a connection; pipelines have their own copy of its settings."""
    StoredConnections(context.database).delete(namespace, name, Condition(if_match))


@router.post("/{name}/test", operation_id="testConnection", responses=problems(401, 403, 404, 422, 503, 504))
def test_connection(namespace: Namespace, name: ConnectionName, context: Context, principal: Operator) -> list[Check]:
    """Test a connection, one check after the other; changes nothing at the source or target."""
    return run_checks(context, namespace, _answer(StoredConnections(context.database).find(namespace, name)).plugin)


@router.post("/test", operation_id="testPlugin", responses=problems(401, 403, 413, 422, 503, 504))
def test_plugin(namespace: Namespace, body: PluginSettings, context: Context, principal: Operator) -> list[Check]:
    """Test settings that are not stored."""
    _checked(context, body)
    return run_checks(context, namespace, body)


def _checked(context: Any, plugin: PluginSettings) -> str:
    """The text that is stored of a plugin's settings."""
    written = plugin.model_dump()
    text = config_text(written)
    refuse_literal_secrets_of_plugin(context, written)
    return text


def _answer(connection: Connection) -> ConnectionAnswer:
    return ConnectionAnswer(
        name=connection.name,
        created=connection.created,
        updated=connection.updated,
        plugin=PluginSettings(**json.loads(connection.plugin)),
    )
