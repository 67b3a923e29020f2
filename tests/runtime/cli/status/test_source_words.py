"""What the status says of the source's log."""

from __future__ import annotations

from typing import Any

import pytest

from replicator_runtime.cli.commands.status import _kept

SOURCE: dict[str, Any] = {
    "waitingChanges": 11,
    "waitingBytes": None,
    "heldBytes": 4096,
    "heldLimitBytes": None,
    "secondsLeft": None,
}


@pytest.mark.parametrize(("phase", "waits"), [("streaming", True), ("failed", True), ("done", False)])
def test_what_waited_before_the_last_offset_was_saved_is_not_said_of_a_run_that_is_done(
    phase: str, waits: bool
) -> None:
    said = _kept({"phase": phase, "source": SOURCE})
    assert ("11 changes after the saved offset" in said) == waits
    assert "keeps 4,096 bytes" in said


def test_a_source_that_does_not_say_is_not_mentioned() -> None:
    assert _kept({"phase": "streaming", "source": None}) == ""
