"""Without a part of the recovery the run after a kill does harm: the twins of the kills."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from replicator_target_bigquery.commit_log.commit import TableState
from replicator_target_bigquery.load.snapshot_load import TableSnapshotLoad
from tests.crash.kills import harms
from tests.plugins.targets.bigquery.support.keyless_run import LAST, live
from tests.plugins.targets.bigquery.support.killed_run import run
from tests.plugins.targets.bigquery.support.project import Project

LIFE = Path(__file__).parent / "support" / "keyless_run.py"


def no_settling(patch: pytest.MonkeyPatch) -> None:
    """Loads that a killed run announced are not looked for."""
    patch.setattr(TableSnapshotLoad, "_settle", lambda self: None)


def no_position(patch: pytest.MonkeyPatch) -> None:
    """Whether a table has a batch or a change of structure already is not checked."""
    patch.setattr(TableState, "has_reached", lambda self, position: False)


@dataclass(frozen=True)
class BigQueryTwin:
    """A kill and the part of the recovery without which it does harm.

    Attributes:
        place: Where the run is killed.
        remove: Removes the part.
    """

    place: str
    remove: Callable[[pytest.MonkeyPatch], None]


TWINS = {
    "settling": BigQueryTwin("bigquery.snapshot.loaded", no_settling),
    "position": BigQueryTwin("bigquery.commit.after@7", no_position),
}
"""The seventh commit is the first batch: the snapshot begins by one, has two for each of two chunks, and ends by one."""


def _rows(project: Project) -> list[list[object]]:
    return sorted(project.select("SELECT name, number, extra FROM {d}.log"))


each = pytest.mark.parametrize("twin", TWINS.values(), ids=TWINS)


@each
def test_without_a_part_of_the_recovery_rows_are_there_twice(
    project: Project, tmp_path: Path, twin: BigQueryTwin, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(LIFE, project, tmp_path, twin.place) == -signal.SIGKILL
    twin.remove(monkeypatch)
    live(project.config, 2)
    doubled = Counter(map(tuple, _rows(project))) - Counter(map(tuple, LAST))
    assert doubled.total() > 0
    harms.append(f"bigquery {twin.place}")


@each
def test_where_nothing_is_killed_the_removed_part_does_no_harm(
    project: Project, twin: BigQueryTwin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the twins see comes from the kills."""
    twin.remove(monkeypatch)
    live(project.config, 1)
    assert _rows(project) == LAST
