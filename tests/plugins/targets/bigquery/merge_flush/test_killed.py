"""A run that is killed at any named place: the next one brings the table to the same end, nothing lost or twice."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

import replicator_target_bigquery.merge_flush.consumer  # noqa: F401 - registers the places
from replicator_sdk import failpoint
from tests.plugins.targets.bigquery.killed import run
from tests.plugins.targets.bigquery.merge_flush.life import APPENDED, MERGED, live
from tests.plugins.targets.bigquery.merge_flush.streaming import intermediates, streaming
from tests.plugins.targets.bigquery.project import Project
from tests.services.bigquery import Emulators

LIFE = Path(__file__).with_name("life.py")
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


@pytest.mark.parametrize("place", APPENDING)
def test_the_next_run_appends_on(bigquery_emulators: Emulators, tmp_path: Path, place: str) -> None:
    project = streaming(bigquery_emulators, upsert_enabled=False, delete_enabled=False)
    assert run(LIFE, project, tmp_path, place) == -signal.SIGKILL
    live(project.config, 2)
    assert project.select("SELECT id, name FROM {d}.customers ORDER BY id") == APPENDED
