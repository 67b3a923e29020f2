"""A run in mode `cdc` that is killed at any place of its own: three runs, with changes of rows and structure
between them, lose and double nothing.
"""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.plugins.targets.bigquery.cdc.killed_run import LAST, WIDER, live
from tests.plugins.targets.bigquery.support.killed_run import run
from tests.plugins.targets.bigquery.support.later_runs import LaterRuns, named
from tests.plugins.targets.bigquery.support.project import Project

LIFE = Path(__file__).with_name("killed_run.py")
PLACES = (
    "bigquery.commit.before@4",  # the table is replaced, and this is not committed yet
    "bigquery.cdc.begun",
    "bigquery.cdc.appended",
    "bigquery.cdc.appended@2",
)


@pytest.mark.parametrize("place", PLACES)
def test_three_runs_after_a_kill_are_equal(project: Project, tmp_path: Path, place: str) -> None:
    assert run(LIFE, project, tmp_path, place) == -signal.SIGKILL
    rows = named(("id", "name", "extra"), LAST)
    LaterRuns(project, live, WIDER, rows, structures=("add", "truncate")).check()
