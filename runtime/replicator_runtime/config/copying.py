"""Refuses settings of copies that the source cannot follow; connects to nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from replicator_runtime.config.problem import Problem
from replicator_runtime.config.validation import json_path

if TYPE_CHECKING:
    from replicator_runtime.config.model import PipelineConfig
    from replicator_sdk.source import DeltaSource

NO_CONDITIONS = "RPL-2061"


def copying_problems(config: PipelineConfig, source: DeltaSource) -> list[Problem]:
    """What of `tables` this source cannot do when it copies tables."""
    if source.filters_snapshots:
        return []
    return [
        Problem(
            json_path(("tables", place, "where")),
            f"the source {source.name} copies no part of a table",
            "remove `where`",
            NO_CONDITIONS,
        )
        for place, entry in enumerate(config.tables)
        if entry.where
    ]
