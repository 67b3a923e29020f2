"""Refuses settings that source or target cannot follow; connects to nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from replicator_runtime.config.problem import Problem
from replicator_runtime.config.validation import json_path
from replicator_sdk.source import DeltaSource

if TYPE_CHECKING:
    from replicator_runtime.config.model import PipelineConfig
    from replicator_sdk.target import DeltaTarget

NO_CONDITIONS = "RPL-2061"
NO_COPIES = "RPL-2065"
NO_STARTS = "RPL-2071"


def copying_problems(config: PipelineConfig, source: DeltaSource) -> list[Problem]:
    """What of `tables` and `snapshot` this source cannot do when it copies tables."""
    problems = []
    if config.snapshot.mode != "initial" and type(source).create_snapshot_reader is DeltaSource.create_snapshot_reader:
        problems.append(
            Problem(
                json_path(("snapshot", "mode")),
                f"the source {source.name} copies no tables: its log has what it has of them",
                "remove `mode`"
                + (" and `from`; `startFrom` of the source says where it begins" if config.snapshot.from_ else ""),
                NO_COPIES,
            )
        )
    start = config.snapshot.from_.start if config.snapshot.from_ is not None else None
    if start is not None and not problems and start.kind not in source.starts_from:
        can = " or ".join(f"`{kind}`" for kind in sorted(source.starts_from))
        problems.append(
            Problem(
                json_path(("snapshot", "from", start.kind)),
                f"the source {source.name} finds no position of its log by {'a time' if start.kind == 'time' else 'an offset'}",
                f"give {can}; or remove `from`" if can else "remove `from`: the pipeline then begins now",
                NO_STARTS,
            )
        )
    if source.filters_snapshots:
        return problems
    return problems + [
        Problem(
            json_path(("tables", place, "where")),
            f"the source {source.name} copies no part of a table",
            "remove `where`",
            NO_CONDITIONS,
        )
        for place, entry in enumerate(config.tables)
        if entry.where
    ]


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
