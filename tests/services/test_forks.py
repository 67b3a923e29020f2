"""A forked program is as one that Python started: arguments, environment, output, exit code, and the ways it may end."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.services.forks import Forked, fork

_EXIT = "import os, sys; print(sys.argv, os.environ['A'], os.getpgid(0) == os.getpid()); sys.stderr.write('!'); sys.exit({})"


def started(folder: Path, program: str, *arguments: str) -> Forked:
    return fork([sys.executable, "-c", program, *arguments], log=folder / "log", environment={"A": "b"})


@pytest.mark.parametrize(("given", "status"), [("None", 0), ("3", 3), ("'no'", 1)])
def test_it_has_its_own_arguments_environment_output_and_end(tmp_path: Path, given: str, status: int) -> None:
    assert started(tmp_path, _EXIT.format(given), "x", "y").wait(120) == status
    said = (tmp_path / "log").read_text()
    assert "['-c', 'x', 'y'] b True\n" in said
    assert "!" in said
    assert ("no" in said) == (given == "'no'")


def test_an_exception_is_logged_and_ends_it(tmp_path: Path) -> None:
    assert started(tmp_path, "1 / 0").wait(120) == 1
    assert "ZeroDivisionError" in (tmp_path / "log").read_text()


def test_a_script_runs_as_main_beside_its_own_modules(tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("WORD = 'found'")
    script = tmp_path / "script.py"
    script.write_text("import beside\nif __name__ == '__main__':\n    print(beside.WORD)")
    assert fork([sys.executable, script], log=tmp_path / "log", environment={}).wait(120) == 0
    assert (tmp_path / "log").read_text() == "found\n"


def test_it_runs_until_it_is_killed(tmp_path: Path) -> None:
    forked = started(tmp_path, "import time; time.sleep(60)")
    with pytest.raises(subprocess.TimeoutExpired):
        forked.wait(0.1)
    assert forked.poll() is None
    forked.send_signal(signal.SIGKILL)
    assert forked.wait(120) == -signal.SIGKILL
    forked.send_signal(signal.SIGKILL)  # the process has ended: no other process gets the signal


def test_a_waiting_process_handles_signals_as_python_does(tmp_path: Path) -> None:
    program = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(9))
print("handles signals", flush=True)
while True:  # a signal just before a sleep does not end it
    time.sleep(0.05)
"""
    forked = started(tmp_path, program)
    log = tmp_path / "log"
    while "handles signals" not in log.read_text():
        assert forked.poll() is None, log.read_text()
    forked.send_signal(signal.SIGTERM)
    assert forked.wait(120) == 9, log.read_text()
