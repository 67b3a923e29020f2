"""SIGTERM, then SIGKILL: a service manager that waits too little. What was not drained is applied by the next run, once."""

from __future__ import annotations

import signal
import time

import pytest

from tests.crash.kills import kills
from tests.crash.sqlite.conftest import MakePair
from tests.crash.sqlite.pair import Pair

_BUSY = 3.0


@pytest.mark.parametrize("seconds", [0, 1, 5])
@pytest.mark.parametrize("point", ["engine.table.before_apply", "engine.table.after_apply"])
def test_a_run_that_is_killed_while_it_stops_leaves_what_the_next_three_runs_bring_to_the_end(
    point: str, seconds: float, make_pair: MakePair, changed_pair: Pair
) -> None:
    """A table's apply takes 3 seconds. The exit code says which: 143 when all was drained, else that of the signal."""
    pair = make_pair(like=changed_pair)
    running = pair.replicator.start(REPLICATOR_FAILPOINTS=f"{point}=delay:{_BUSY:g}")
    running.said("streaming")
    time.sleep(0.5)
    running.process.send_signal(signal.SIGTERM)
    deadline = time.monotonic() + seconds
    while running.process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    if running.process.poll() is None:
        running.kill()
        kills.append(point)
    ended = running.wait()
    if ended.status != -signal.SIGKILL:
        assert (ended.status, ended.envelope["error"]) == (143, None), ended.messages[-3000:]
    pair.assert_recovered()
