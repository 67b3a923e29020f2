"""Real kills show what a source that restarts at the wrong place loses or reads twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.sdk.strangers.test_change_files import TestChangeFilesIsKilled as Kills
from tests.sdk.strangers.test_change_files import Writer
from tests.sdk.testing.planted_faults import IN_CHANGE_FILES, Fault
from tests.sdk.testing.test_planted_faults import assert_explained, stranger

LATE = next(fault for fault in IN_CHANGE_FILES if fault.name == "a restart leaves out a transaction")


def test_a_kill_does_harm_when_a_restart_leaves_out_a_transaction(tmp_path: Path) -> None:
    """Without the fault the same kills do none: `tests/sdk/strangers/test_change_files.py`."""
    fails_with(tmp_path, LATE)


def fails_with(folder: Path, fault: Fault) -> None:
    """The claim about kills fails when the fault is planted."""
    with stranger(folder, "change_files", fault) as package:
        system = Writer(folder)
        system.source = package.ChangeFilesSource(package.ChangeFilesConfig(folder=folder))
        with pytest.raises(AssertionError) as caught:
            Kills().test_a_kill_at_any_failpoint_is_recovered_from(system, folder)
    notes = assert_explained(caught.value)
    assert notes["step"].startswith(("run ", "the run "))
