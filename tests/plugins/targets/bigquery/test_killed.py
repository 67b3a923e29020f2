"""A run that is killed at any named place: the next one brings the table to the same end, nothing lost or twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import replicator_target_bigquery.consumer  # noqa: F401 - registers the places
from replicator_sdk import failpoint
from tests.plugins.targets.bigquery.life import LAST, live
from tests.plugins.targets.bigquery.project import Project

ROOT = Path(__file__).resolve().parents[4]
PLACES = sorted(
    name for name in failpoint.registered() if name.startswith("bigquery.") and not name.startswith("bigquery.cdc.")
)
AGAIN = ("bigquery.commit.before@3", "bigquery.commit.after@5", "bigquery.commit.before@7", "bigquery.ddl.step@2")


def run(project: Project, epoch: int, place: str) -> int:
    """A child's exit code."""
    point, _, count = place.partition("@")
    environment = dict(os.environ, REPLICATOR_FAILPOINTS=f"{point}=kill@{count or 1}")
    command = [
        sys.executable,
        "-m",
        "tests.plugins.targets.bigquery.life",
        project.config.model_dump_json(),
        str(epoch),
    ]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, timeout=90, check=False)
    return done.returncode


@pytest.mark.parametrize("place", [p for p in (*PLACES, *AGAIN) if p != "bigquery.claimed"])
def test_the_next_run_goes_on(project: Project, place: str) -> None:
    assert run(project, 1, place) == -signal.SIGKILL
    live(project.config, 2)
    assert sorted(project.select("SELECT name, number, extra FROM {d}.log")) == LAST


def test_a_run_that_is_killed_while_it_takes_over_leaves_the_table_to_the_next(project: Project) -> None:
    assert run(project, 1, "bigquery.staging.loaded") == -signal.SIGKILL
    assert run(project, 2, "bigquery.claimed") == -signal.SIGKILL
    live(project.config, 3)
    assert sorted(project.select("SELECT name, number, extra FROM {d}.log")) == LAST
