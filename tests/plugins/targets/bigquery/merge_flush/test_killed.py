"""A run that is killed at any named place: the next one brings the table to the same end, nothing lost or twice."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

import replicator_target_bigquery.merge_flush.consumer  # noqa: F401 - registers the places
from replicator_sdk import failpoint
from tests.plugins.targets.bigquery.merge_flush.support.killed_run import APPENDED, MERGED, live
from tests.plugins.targets.bigquery.merge_flush.support.projects import intermediates, streaming
from tests.plugins.targets.bigquery.support.killed_run import run
from tests.plugins.targets.bigquery.support.project import Project
from tests.services.bigquery.emulators import Emulators
from tests.services.bigquery.write_gate import Loss

LIFE = Path(__file__).parent / "support" / "killed_run.py"
PLACES = sorted(name for name in failpoint.registered() if name.startswith("merge_flush."))
MERGING = [place for place in PLACES if not place.startswith("merge_flush.append")]
APPENDING = [place for place in PLACES if place.startswith("merge_flush.append")]


@pytest.mark.parametrize("place", [*MERGING, "merge_flush.streamed@2"])
def test_the_next_run_merges_on(project: Project, tmp_path: Path, place: str) -> None:
    assert run(LIFE, project, tmp_path, place) == -signal.SIGKILL
    live(project.config, 2)
    assert project.select("SELECT id, name, extra FROM {d}.customers ORDER BY id") == MERGED
    assert project.select("SELECT customKeyField.id FROM {d}.customers ORDER BY 1") == [["3"], ["4"]]
    assert intermediates(project) == []


def test_the_next_run_merges_on_by_default_streams(project: Project, tmp_path: Path) -> None:
    """Answers are lost before the kill and after it, and rows of the dead run arrive when the next has ended."""
    gate, lossy = project.emulators.write_gate, streaming(project.emulators, use_default_stream=True)
    gate.plan("AppendRows", Loss.ANSWER, Loss.NOTHING, Loss.LATE)
    assert run(LIFE, lossy, tmp_path, "merge_flush.streamed@2") == -signal.SIGKILL
    gate.plan("AppendRows", Loss.ANSWER, Loss.NOTHING, Loss.ANSWER)
    live(lossy.config, 2)
    assert (gate.pending, gate.arrive()) == (0, 1)
    assert lossy.select("SELECT id, name, extra FROM {d}.customers ORDER BY id") == MERGED
    assert "CreateWriteStream" not in gate.calls
    assert intermediates(lossy) == []


@pytest.mark.parametrize("place", APPENDING)
def test_the_next_run_appends_on(bigquery_emulators: Emulators, tmp_path: Path, place: str) -> None:
    project = streaming(bigquery_emulators, upsert_enabled=False, delete_enabled=False)
    assert run(LIFE, project, tmp_path, place) == -signal.SIGKILL
    live(project.config, 2)
    assert project.select("SELECT id, name FROM {d}.customers ORDER BY id") == APPENDED
