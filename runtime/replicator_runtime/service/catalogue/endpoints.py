"""Installed plugins."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path

from replicator_runtime.service.access.requirement import requires
from replicator_runtime.service.access.roles import Principal, Role
from replicator_runtime.service.catalogue.schemas import PluginDetail, PluginItem
from replicator_runtime.service.context import Context
from replicator_runtime.service.drafts.endpoints import problems

router = APIRouter(prefix="/v1/plugins", tags=["plugins"])
Viewer = Annotated[Principal, requires(Role.VIEWER, anywhere=True)]


@router.get("", operation_id="listPlugins", response_model=list[PluginItem], responses=problems(401, 403, 503, 504))
def list_plugins(context: Context, principal: Viewer) -> list[dict[str, Any]]:
    """List the installed sources and targets."""
    return context.plugins.all()


@router.get(
    "/{type}/{name}", operation_id="getPlugin", response_model=PluginDetail, responses=problems(401, 403, 404, 503, 504)
)
def read_plugin(
    type: Literal["cdcSource", "cdcTarget"],  # noqa: A002 - the path's word
    name: Annotated[str, Path(max_length=255)],
    context: Context,
    principal: Viewer,
) -> dict[str, Any]:
    """Read the settings and the documentation of a plugin."""
    return context.plugins.find(type, name)
