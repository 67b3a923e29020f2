"""Named places where a test may kill, delay or fail the process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from replicator_sdk import failpoint
from replicator_sdk.errors import RetryableError


@pytest.fixture(autouse=True)
def disarmed() -> Iterator[None]:
    yield
    failpoint.arm("")


def test_a_place_fails_at_the_requested_pass_and_only_then() -> None:
    failpoint.arm("here=raise@2, elsewhere=raise")
    failpoint.failpoint("here")
    with pytest.raises(RetryableError):
        failpoint.failpoint("here")
    failpoint.failpoint("here")
    failpoint.failpoint("unknown")


def test_a_place_can_take_its_time() -> None:
    failpoint.arm("here=delay:0.05")
    start = time.monotonic()
    failpoint.failpoint("here")
    assert time.monotonic() - start >= 0.05


def test_a_place_kills_the_process_as_a_crash_would() -> None:
    code = "from replicator_sdk.failpoint import failpoint; print('before', flush=True); failpoint('x'); print('after')"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"REPLICATOR_FAILPOINTS": "x=kill"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (-signal.SIGKILL, "before\n")


def test_a_place_stops_the_process_until_it_is_continued() -> None:
    code = "from replicator_sdk.failpoint import failpoint; failpoint('x'); print('after')"
    environment = {"REPLICATOR_FAILPOINTS": "x=stop"}
    with subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE) as process:
        _, status = os.waitpid(process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        process.send_signal(signal.SIGCONT)
        assert process.communicate(timeout=120)[0] == b"after\n"


def test_places_are_listed() -> None:
    failpoint.register("test.one", "test.two")
    assert {"test.one", "test.two"} <= failpoint.registered()
