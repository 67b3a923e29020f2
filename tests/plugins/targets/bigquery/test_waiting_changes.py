"""What waits for `loadInterval` when a run is killed is read again, since it did not count as durable."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest

from tests.crash.kills import harms, kills
from tests.plugins.targets.bigquery.support.project import Project
from tests.plugins.targets.bigquery.support.waiting_run import LAST, count_what_waits, live
from tests.services.bigquery.emulators import Emulators
from tests.services.forks import fork
from tests.services.spark.session import INTERPRETER

LIFE = Path(__file__).parent / "support" / "waiting_run.py"
PLACE = "bigquery.changes.held"


@pytest.fixture
def pacing(bigquery_emulators: Emulators) -> Project:
    """A project whose tables are loaded once an hour."""
    bigquery_emulators.gate.clear()
    return Project(bigquery_emulators, load_interval=3600)


def _killed(pacing: Project, folder: Path, *removed: str) -> Path:
    """What a run had saved that died when changes waited for the second time."""
    saved = folder / "saved"
    command: list[str | Path] = [sys.executable, LIFE, pacing.config.model_dump_json(), "1", saved, *removed]
    environment = {"REPLICATOR_FAILPOINTS": f"{PLACE}=kill@2", **INTERPRETER}
    assert fork(command, log=folder / "log", environment=environment).wait(240) == -signal.SIGKILL
    kills.append(PLACE)
    return saved


def _numbers(pacing: Project) -> list[int]:
    return sorted(int(row[0]) for row in pacing.select("SELECT number FROM {d}.log"))


def test_the_run_after_a_kill_applies_what_waited(pacing: Project, tmp_path: Path) -> None:
    live(pacing.config, 2, _killed(pacing, tmp_path))
    assert _numbers(pacing) == [*range(1, LAST + 1)]


def test_changes_that_wait_and_count_as_durable_are_lost_by_a_kill(pacing: Project, tmp_path: Path) -> None:
    live(pacing.config, 2, _killed(pacing, tmp_path, "waiting"))
    assert set(_numbers(pacing)) < {*range(1, LAST + 1)}
    harms.append(f"bigquery {PLACE}")


def test_where_nothing_is_killed_it_does_no_harm_that_they_count(
    pacing: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count_what_waits(monkeypatch)
    live(pacing.config, 1, tmp_path / "saved")
    assert _numbers(pacing) == [*range(1, LAST + 1)]
