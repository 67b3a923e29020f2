"""A run in mode `cdc` that is killed at any place of its own: the next one brings the table to the same end."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.plugins.targets.bigquery.cdc.killed_run import LAST, live
from tests.plugins.targets.bigquery.support.killed_run import run
from tests.plugins.targets.bigquery.support.project import Project

LIFE = Path(__file__).with_name("killed_run.py")
PLACES = (
    "bigquery.commit.before@4",  # the table is replaced, and this is not committed yet
    "bigquery.cdc.begun",
    "bigquery.cdc.appended",
    "bigquery.cdc.appended@2",
)


@pytest.mark.parametrize("place", PLACES)
def test_the_next_run_goes_on(project: Project, tmp_path: Path, place: str) -> None:
    assert run(LIFE, project, tmp_path, place) == -signal.SIGKILL
    live(project.config, 2)
    assert project.select("SELECT id, name, extra FROM {d}.customers ORDER BY id") == LAST
