"""Checks that source and target can do what `onDataError` asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from replicator_runtime.config.problem import Problem

if TYPE_CHECKING:
    from replicator_runtime.config.model import PipelineConfig
    from replicator_sdk.source import DeltaSource
    from replicator_sdk.target import DeltaTarget


def data_error_problem(
    config: PipelineConfig, source: DeltaSource | DeltaTarget | None, target: DeltaSource | DeltaTarget | None
) -> Problem | None:
    """Why `onDataError` cannot be followed with these plugins; None when it can."""
    wanted = config.on_data_error
    if wanted == "fail" or source is None or target is None:
        return None
    if not getattr(source, "marks_refused", False):
        return Problem(
            "onDataError",
            f"the source {source.name} does not say which values it cannot convert, as `{wanted}` needs",
            "leave `onDataError` out; `outOfRange` in the target's properties replaces values out of range",
        )
    if wanted == "lane" and not getattr(target, "takes_lane", False):
        return Problem(
            "onDataError",
            f"the target {target.name} cannot put rows aside: it does not commit a table's changes before it takes more",
            'set "null", or leave `onDataError` out',
        )
    return None
