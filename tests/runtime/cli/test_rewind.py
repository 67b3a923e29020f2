"""`replicator rewind` says what is wrong with its options before it looks at anything."""

from __future__ import annotations

import pytest

from tests.runtime.cli.conftest import Replicator


@pytest.mark.parametrize("time", ["yesterday", "2026-01-31T08:00:00", "2026-13-01T00:00:00Z"])
def test_a_time_without_a_zone_or_that_is_none_is_refused(replicator: Replicator, time: str) -> None:
    done = replicator("rewind", "no-such.json", "--time", time)
    assert done.exit_code == 3
    assert "RPL-1272" in done.output
    assert "+01:00" in done.output


def test_offset_and_time_exclude_each_other(replicator: Replicator) -> None:
    done = replicator("rewind", "no-such.json", "--time", "2026-01-31T08:00:00Z", "--offset", "1")
    assert done.exit_code == 3
    assert "RPL-1279" in done.output
