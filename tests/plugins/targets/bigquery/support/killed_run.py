"""A run in a process of its own that kills itself at a named place."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.plugins.targets.bigquery.support.project import Project
from tests.services.forks import fork
from tests.services.spark.session import INTERPRETER


def run(life: Path, project: Project, folder: Path, place: str, epoch: int = 1) -> int:
    """The exit code of `life`, which dies when it passes `place`, or the n-th time at `place@n`."""
    point, _, count = place.partition("@")
    command: list[str | Path] = [sys.executable, life, project.config.model_dump_json(), str(epoch)]
    environment = {"REPLICATOR_FAILPOINTS": f"{point}=kill@{count or 1}", **INTERPRETER}
    return fork(command, log=folder / "log", environment=environment).wait(240)
