"""A stop signal to the whole process group, as systemd and `timeout` send it, ends the run as one to its process does."""

from __future__ import annotations

import os
import signal
import time

import pytest

from replicator_runtime.cli.stop_signals import SAME_REQUEST_SECONDS
from tests.crash.sqlite.conftest import MakePair
from tests.crash.sqlite.pair import Pair
from tests.end_to_end.replicator import Ended, Running

SECONDS = 600.0


def _wait_equal(pair: Pair, running: Running) -> None:
    until = time.monotonic() + SECONDS
    while pair.differences() != {}:
        assert running.process.poll() is None, running.log.read_text(errors="replace")[-6000:]
        assert time.monotonic() < until, running.log.read_text(errors="replace")[-6000:]
        time.sleep(0.2)


def _ended_by_signals(pair: Pair) -> Ended:
    """How a run ends that is signalled as by `timeout`: its process, and then the group; again when the machine held the two apart."""
    while True:
        running = pair.replicator.start()
        _wait_equal(pair, running)
        pair.change_rows()
        began = time.monotonic()
        os.kill(running.process.pid, signal.SIGTERM)
        os.killpg(running.process.pid, signal.SIGTERM)
        are_one_request = time.monotonic() - began < SAME_REQUEST_SECONDS / 2
        ended = running.wait(SECONDS)
        if are_one_request:
            return ended


@pytest.mark.timeout(1500)
def test_sigterm_to_the_whole_group_applies_what_is_gathered_and_prints_no_traceback(make_pair: MakePair) -> None:
    pair = make_pair(delta=True)
    pair.replicator.settings = {**pair.replicator.settings, "batch": {"maxIntervalSeconds": 0.2}}
    ended = _ended_by_signals(pair)
    assert ended.status == 143, ended.messages[-6000:]
    assert ended.envelope["error"] is None, ended.messages[-6000:]
    for unwanted in ("Traceback", "Py4J", "RPL-", "py4j"):
        assert unwanted not in ended.messages, ended.messages[-6000:]
    pair.run_until_current()
    assert pair.differences() == {}
