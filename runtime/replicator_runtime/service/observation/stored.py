"""The rows of pipelines, and where each keeps its state."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from sqlalchemy import select

from replicator_runtime.config.default_paths import expand_home
from replicator_runtime.config.macros import resolve
from replicator_runtime.secrets_of_service import ServiceRules
from replicator_runtime.service.pipelines.items import no_pipeline
from replicator_runtime.service.store.tables import Pipeline
from replicator_state import ReplicatorDirectory

if TYPE_CHECKING:
    from replicator_runtime.service.store.database import Database

_RETRY_SECONDS = 5.0


def pipeline_row(database: Database, namespace: str, name: str) -> Pipeline:
    """The pipeline's row.

    Raises:
        ProblemError: 404 RPL-1520 when there is none of this name.
    """
    with database.session() as session:
        found = session.get(Pipeline, (namespace, name))
    if found is None:
        raise no_pipeline(namespace, name)
    return found


def pipeline_rows(database: Database, namespace: str | None = None) -> list[Pipeline]:
    """The pipelines of a namespace, or of all, in the order of their names."""
    query = select(Pipeline).order_by(Pipeline.namespace, Pipeline.name)
    if namespace is not None:
        query = query.where(Pipeline.namespace == namespace)
    with database.session() as session:
        return list(session.scalars(query))


def directory_of(row: Pipeline, base_path: str) -> ReplicatorDirectory:
    """Where a pipeline keeps its state; connects to nothing.

    Args:
        row: The pipeline.
        base_path: Where, unless its JSON says.

    Raises:
        ConfigError: RPL-7102 when the path cannot be used.
    """
    return ReplicatorDirectory(
        _own_base_path(row.config) or base_path, row.namespace, row.name, retry_seconds=_RETRY_SECONDS
    )


def _own_base_path(config: str) -> str:
    """`offsetBasePath` of a pipeline JSON, as a run would understand it; empty when it has none."""
    try:
        found = json.loads(config).get("offsetBasePath")
    except (ValueError, AttributeError):
        return ""
    if not isinstance(found, str):
        return ""
    # This process is the service: its environment is not for those who write pipelines.
    value, problems = resolve(found, "offsetBasePath", secrets_allowed=False, rules=ServiceRules())
    return "" if problems else expand_home(str(value))
