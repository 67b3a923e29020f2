"""A run in mode `cdc` that is killed at any place of its own: the next one brings the table to the same end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.plugins.targets.bigquery.cdc.life import LAST, live
from tests.plugins.targets.bigquery.project import Project

ROOT = Path(__file__).resolve().parents[5]
PLACES = (
    "bigquery.commit.before@4",  # the table is made anew, and nobody has said so
    "bigquery.cdc.begun",
    "bigquery.cdc.appended",
    "bigquery.cdc.appended@2",
)


@pytest.mark.parametrize("place", PLACES)
def test_the_next_run_goes_on(project: Project, place: str) -> None:
    point, _, count = place.partition("@")
    environment = dict(os.environ, REPLICATOR_FAILPOINTS=f"{point}=kill@{count or 1}")
    command = [sys.executable, "-m", "tests.plugins.targets.bigquery.cdc.life", project.config.model_dump_json(), "1"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, timeout=90, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    live(project.config, 2)
    assert project.select("SELECT id, name, extra FROM {d}.customers ORDER BY id") == LAST
