"""A stop signal to the whole process group, as systemd and `timeout` send it, ends the run as one to its process does."""

from __future__ import annotations

import os
import signal
import time

import pytest

from tests.crash.sqlite.conftest import MakePair
from tests.crash.sqlite.pair import Pair
from tests.end_to_end.replicator import Running

SECONDS = 600.0


def _wait_equal(pair: Pair, running: Running) -> None:
    until = time.monotonic() + SECONDS
    while pair.differences() != {}:
        assert running.process.poll() is None, running.log.read_text(errors="replace")[-6000:]
        assert time.monotonic() < until, running.log.read_text(errors="replace")[-6000:]
        time.sleep(0.2)


@pytest.mark.timeout(1500)
def test_sigterm_to_the_whole_group_applies_what_is_gathered_and_prints_no_traceback(make_pair: MakePair) -> None:
    pair = make_pair(delta=True)
    pair.replicator.settings = {**pair.replicator.settings, "batch": {"maxIntervalSeconds": 0.2}}
    running = pair.replicator.start()
    _wait_equal(pair, running)
    pair.change_rows()
    os.kill(running.process.pid, signal.SIGTERM)  # `timeout` signals its child, and then the group
    os.killpg(running.process.pid, signal.SIGTERM)
    ended = running.wait(SECONDS)
    assert ended.status == 143, ended.messages[-6000:]
    assert ended.envelope["error"] is None, ended.messages[-6000:]
    for unwanted in ("Traceback", "Py4J", "RPL-", "py4j"):
        assert unwanted not in ended.messages, ended.messages[-6000:]
    pair.run_until_current()
    assert pair.differences() == {}
