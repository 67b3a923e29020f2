"""Which stage is the source and which the target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from replicator_runtime.config.model import PipelineConfig
from replicator_runtime.config.problem import Problem
from replicator_runtime.spelling import did_you_mean

WRONG_STAGES = "RPL-1005"


@dataclass(frozen=True, slots=True)
class Ends:
    """Indexes of the two stages that one connection joins."""

    source: int
    target: int


def find_ends(config: PipelineConfig) -> tuple[Ends | None, list[Problem]]:
    """The source's and the target's stage, or why there are not exactly one of each, joined by one connection."""
    problems = _names_twice(config)
    sources = [i for i, stage in enumerate(config.stages) if stage.plugin.is_source]
    targets = [i for i, stage in enumerate(config.stages) if not stage.plugin.is_source]
    for kind, found in (("cdcSource", sources), ("cdcTarget", targets)):
        if len(found) != 1:
            problems.append(_problem("stages", f"{len(found)} stages are of type {kind}", "keep exactly one"))
    if not problems:
        problems = _wrong_connections(config, sources[0], targets[0])
    return (None, problems) if problems else (Ends(sources[0], targets[0]), [])


def find_end(config: PipelineConfig, kind: Literal["source", "target"]) -> tuple[int | None, list[Problem]]:
    """The index of the source's, or the target's, only stage; or why there is not exactly one. The other end is not looked at."""
    found = [i for i, stage in enumerate(config.stages) if stage.plugin.is_source == (kind == "source")]
    if len(found) == 1:
        return found[0], []
    type_ = "cdcSource" if kind == "source" else "cdcTarget"
    return None, [_problem("stages", f"{len(found)} stages are of type {type_}", "keep exactly one")]


def _names_twice(config: PipelineConfig) -> list[Problem]:
    seen: set[str] = set()
    problems = []
    for i, stage in enumerate(config.stages):
        if stage.name in seen:
            problems.append(_problem(f"stages[{i}].name", f'a second stage is named "{stage.name}"', "rename one"))
        seen.add(stage.name)
    return problems


def _wrong_connections(config: PipelineConfig, source: int, target: int) -> list[Problem]:
    names = [stage.name for stage in config.stages]
    if len(config.connections) != 1:
        hint = f'write one: {{"from": "{names[source]}", "to": "{names[target]}"}}'
        return [_problem("connections", f"{len(config.connections)} connections", hint)]
    connection = config.connections[0]
    problems = []
    for key, name, wanted in (
        ("from", connection.from_, names[source]),
        ("to", connection.to, names[target]),
    ):
        if name not in names:
            hint = did_you_mean(name, names)
            problems.append(_problem(f"connections[0].{key}", f'no stage is named "{name}"', hint))
        elif name != wanted:
            role = "source" if key == "from" else "target"
            problems.append(_problem(f"connections[0].{key}", f'"{name}" is not the {role}', f'write "{wanted}"'))
    return problems


def _problem(path: str, message: str, hint: str) -> Problem:
    return Problem(path, message, hint, WRONG_STAGES)
