"""A run that is killed at any named place: the next one brings the table to the same end, nothing lost or twice."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

import replicator_target_bigquery.consumer  # noqa: F401 - registers the places
from replicator_sdk import failpoint
from tests.plugins.targets.bigquery.support.keyless_run import LAST, live
from tests.plugins.targets.bigquery.support.killed_run import run
from tests.plugins.targets.bigquery.support.project import Project

LIFE = Path(__file__).parent / "support" / "keyless_run.py"
PLACES = sorted(
    name for name in failpoint.registered() if name.startswith("bigquery.") and not name.startswith("bigquery.cdc.")
)
AGAIN = ("bigquery.commit.before@3", "bigquery.commit.after@5", "bigquery.commit.before@7", "bigquery.ddl.step@2")


@pytest.mark.parametrize("place", [p for p in (*PLACES, *AGAIN) if p != "bigquery.claimed"])
def test_the_next_run_goes_on(project: Project, tmp_path: Path, place: str) -> None:
    assert run(LIFE, project, tmp_path, place) == -signal.SIGKILL
    live(project.config, 2)
    assert sorted(project.select("SELECT name, number, extra FROM {d}.log")) == LAST


def test_a_run_that_is_killed_while_it_takes_over_leaves_the_table_to_the_next(
    project: Project, tmp_path: Path
) -> None:
    assert run(LIFE, project, tmp_path, "bigquery.staging.loaded") == -signal.SIGKILL
    assert run(LIFE, project, tmp_path, "bigquery.claimed", epoch=2) == -signal.SIGKILL
    live(project.config, 3)
    assert sorted(project.select("SELECT name, number, extra FROM {d}.log")) == LAST
