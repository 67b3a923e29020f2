"""A process killed while a renamed table is archived, or renamed at the target, leaves an archive that others replay."""

from __future__ import annotations

import pytest

from tests.crash import kill_points
from tests.crash.sqlite.archive.test_archive_kills import archived, assert_archived
from tests.crash.sqlite.archive.test_replay_kills import replay
from tests.crash.sqlite.conftest import MakePair
from tests.crash.sqlite.renames.test_kills import killed_beside_a_rename


@pytest.mark.parametrize("point", sorted(kill_points.OF_ARCHIVED_RENAMES))
def test_three_runs_after_a_kill_beside_a_rename_are_archived_and_replayed(point: str, make_pair: MakePair) -> None:
    pair = make_pair()
    archive = archived(pair)
    pair.run_until_current()
    again = replay(pair, archive, "again")
    again.run_until_current()
    killed_beside_a_rename(pair, point)
    pair.database.run("ALTER TABLE client RENAME TO customer")
    for _ in range(3):
        pair.change_rows()
        pair.change_structure()
        pair.run_until_current()
        assert_archived(pair, archive)
        assert "table.copied_again" not in again.run_until_current().messages
        assert again.differences() == {}
