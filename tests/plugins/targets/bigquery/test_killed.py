"""A run that is killed at any named place: three runs, with changes of rows and structure between them, lose and double nothing."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

import replicator_target_bigquery.consumer  # noqa: F401 - registers the places
from replicator_sdk import failpoint
from tests.crash.kill_points import OF_SLICES_IN_BIGQUERY
from tests.plugins.targets.bigquery.support.keyless_run import LAST, WIDER, live
from tests.plugins.targets.bigquery.support.killed_run import run
from tests.plugins.targets.bigquery.support.later_runs import LaterRuns, named
from tests.plugins.targets.bigquery.support.project import Project
from tests.services.bigquery.emulators import Emulators

LIFE = Path(__file__).parent / "support" / "keyless_run.py"
PLACES = sorted(
    name for name in failpoint.registered() if name.startswith("bigquery.") and not name.startswith("bigquery.cdc.")
)
AGAIN = ("bigquery.commit.before@3", "bigquery.commit.after@5", "bigquery.commit.before@7", "bigquery.ddl.step@2")


_STRUCTURE = ("bigquery.rename.", "bigquery.database.", "bigquery.beside.")
ELSEWHERE = (
    "bigquery.claimed",
    "bigquery.changes.held",
    *OF_SLICES_IN_BIGQUERY,
    *(place for place in PLACES if place.startswith(_STRUCTURE)),
)
"""Tried below; while executors read, in `tests/end_to_end/kafka/test_to_bigquery.py`; while a copy is made beside its table, in
`tests/end_to_end/commands/test_copy_beside_in_bigquery.py`; while tables are renamed, in `tests/end_to_end/test_renames_in_bigquery.py`; while a database is dropped, in
`tests/end_to_end/test_databases_in_bigquery.py`."""


@pytest.mark.parametrize("place", [p for p in (*PLACES, *AGAIN) if p not in ELSEWHERE])
def test_three_runs_after_a_kill_are_equal(project: Project, tmp_path: Path, place: str) -> None:
    assert run(LIFE, project, tmp_path, place) == -signal.SIGKILL
    _later_runs(project).check()


def test_three_runs_after_a_kill_of_a_run_that_takes_over_from_a_killed_one_are_equal(
    project: Project, tmp_path: Path
) -> None:
    """The harder history: no run ends between the two kills."""
    assert run(LIFE, project, tmp_path, "bigquery.staging.loaded") == -signal.SIGKILL
    assert run(LIFE, project, tmp_path, "bigquery.claimed", epoch=2) == -signal.SIGKILL
    _later_runs(project, epoch=2).check()


@pytest.mark.parametrize("place", ["bigquery.changes.held", "bigquery.staging.loaded"])
def test_three_runs_after_a_kill_of_a_run_whose_changes_wait_are_equal(
    bigquery_emulators: Emulators, tmp_path: Path, place: str
) -> None:
    """Changes are held, because the table was loaded just before; all of them are gone with the run."""
    bigquery_emulators.gate.clear()
    project = Project(bigquery_emulators, load_interval=3)
    assert run(LIFE, project, tmp_path, place) == -signal.SIGKILL
    _later_runs(project).check()


def _later_runs(project: Project, epoch: int = 1) -> LaterRuns:
    return LaterRuns(project, live, WIDER, named(WIDER.names, LAST), epoch=epoch)
