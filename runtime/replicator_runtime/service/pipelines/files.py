"""The file of a pipeline, for commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from replicator_runtime.service.observation.stored import pipeline_row

if TYPE_CHECKING:
    from pathlib import Path

    from replicator_runtime.service.context import ServiceContext


def pipeline_file(context: ServiceContext, namespace: str, name: str) -> Path:
    """The file that holds a pipeline's config as it is stored now: JSON, of mode 600, replaced as a whole.

    Raises:
        ProblemError: 404 RPL-1520 when there is no such pipeline.
    """
    row = pipeline_row(context.database, namespace, name)
    return context.files.write(namespace, name, row.config)
