"""A run that is killed at any named place: three runs, with changes of rows and structure between them, lose and double nothing."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

import replicator_target_bigquery.merge_flush.consumer  # noqa: F401 - registers the places
from replicator_sdk import failpoint
from replicator_target_bigquery.merge_flush.intermediate.tables import IntermediateTables
from tests.crash.kills import harms
from tests.plugins.targets.bigquery.merge_flush.support.killed_run import APPENDED, MERGED, WIDER, live
from tests.plugins.targets.bigquery.merge_flush.support.projects import KEY, intermediates, streaming
from tests.plugins.targets.bigquery.support.changes import KEYED
from tests.plugins.targets.bigquery.support.killed_run import run
from tests.plugins.targets.bigquery.support.later_runs import LaterRuns, named
from tests.plugins.targets.bigquery.support.project import Project
from tests.services.bigquery.emulators import Emulators
from tests.services.bigquery.write_gate import Loss

LIFE = Path(__file__).parent / "support" / "killed_run.py"
PLACES = sorted(name for name in failpoint.registered() if name.startswith("merge_flush."))
MERGING = [place for place in PLACES if not place.startswith("merge_flush.append")]
APPENDING = [place for place in PLACES if place.startswith("merge_flush.append")]


@pytest.mark.parametrize("place", [*MERGING, "merge_flush.streamed@2"])
def test_three_runs_after_a_kill_merge_on(project: Project, tmp_path: Path, place: str) -> None:
    assert run(LIFE, project, tmp_path, place) == -signal.SIGKILL
    _merging_runs(project).check()


def test_three_runs_after_a_kill_merge_on_by_default_streams(project: Project, tmp_path: Path) -> None:
    """Answers are lost before the kill and after it, and rows of the dead run arrive when the next two have ended."""
    gate, lossy = project.emulators.write_gate, streaming(project.emulators, use_default_stream=True)
    gate.plan("AppendRows", Loss.ANSWER, Loss.NOTHING, Loss.LATE)
    assert run(LIFE, lossy, tmp_path, "merge_flush.streamed@2") == -signal.SIGKILL
    gate.plan("AppendRows", Loss.ANSWER, Loss.NOTHING, Loss.ANSWER)
    later = _merging_runs(lossy)
    later.check()
    assert (gate.pending, gate.arrive()) == (0, 1)
    assert later.differences() == ""
    assert "CreateWriteStream" not in gate.calls


def test_without_the_removal_of_orphans_a_kill_leaves_an_intermediate_table(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The twin of the kills above."""
    assert run(LIFE, project, tmp_path, "merge_flush.streamed") == -signal.SIGKILL
    monkeypatch.setattr(IntermediateTables, "remove_orphans", lambda self, table: None)
    with pytest.raises(AssertionError, match="run 1 after kill 1: not removed"):
        _merging_runs(project).check()
    harms.append("bigquery orphans")


@pytest.mark.parametrize("place", APPENDING)
def test_three_runs_after_a_kill_append_on(bigquery_emulators: Emulators, tmp_path: Path, place: str) -> None:
    project = streaming(bigquery_emulators, upsert_enabled=False, delete_enabled=False)
    assert run(LIFE, project, tmp_path, place) == -signal.SIGKILL
    rows = named(("id", "name"), APPENDED)
    LaterRuns(project, live, KEYED, rows, structures=("truncate",), appends=True).check()


def _merging_runs(project: Project) -> LaterRuns:
    """Three runs, after which no intermediate table may be left, and each row has the key of its own columns."""

    def left() -> list[object]:
        return [*intermediates(project), *project.select(f"SELECT id FROM {{d}}.customers WHERE {KEY}.id != id")]

    rows = named(("id", "name", "extra"), MERGED)
    return LaterRuns(project, live, WIDER, rows, left=left)
