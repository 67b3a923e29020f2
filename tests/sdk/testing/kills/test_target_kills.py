"""Real kills show what a target without atomic commits loses or doubles."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.sdk.strangers.test_sqlite_files import Folder
from tests.sdk.strangers.test_sqlite_files import TestSqliteFilesIsKilled as Kills
from tests.sdk.testing.planted_faults import IN_SQLITE_FILES, Fault
from tests.sdk.testing.test_planted_faults import assert_explained, stranger

BY_NAME = {fault.name: fault for fault in IN_SQLITE_FILES}


@pytest.mark.parametrize(
    "fault",
    [
        BY_NAME["progress is committed after the rows, apart from them"],
        BY_NAME["progress is committed before the rows"],
        BY_NAME["a batch that comes again is applied again"],
    ],
    ids=str,
)
def test_a_kill_does_harm_without_a_part_of_the_recovery(tmp_path: Path, fault: Fault) -> None:
    """Without the fault the same kills do none: `tests/sdk/strangers/test_sqlite_files.py`."""
    with stranger(tmp_path, "sqlite_files", fault) as package:
        system = Folder(tmp_path)
        system.target = package.SqliteFilesTarget(package.SqliteFilesConfig(folder=tmp_path))
        with pytest.raises(AssertionError) as caught:
            Kills().test_a_kill_at_any_failpoint_is_recovered_from(system, tmp_path)
    notes = assert_explained(caught.value)
    assert "the kill at sqlite_files.commit." in notes["step"]
    assert notes["comparison"].startswith("the rows of ")
