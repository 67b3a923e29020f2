"""`--quick` finds by itself which tests start no other process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.architecture.packages import ROOT

_TESTS = """
import os, subprocess, threading
import pytest

@pytest.fixture
def rows(postgres_database):
    return 1

@pytest.fixture
def asks_later(request):
    return request.getfixturevalue("postgres_database")

def test_direct(postgres_database): ...
def test_through_another(rows): ...
def test_spark(spark): ...
def test_later(asks_later): ...

def test_process():
    subprocess.run(["true"])

def test_fork():
    if os.fork() == 0:
        os._exit(0)

def test_thread():
    codes = []
    thread = threading.Thread(target=lambda: codes.append(subprocess.call(["true"])))
    thread.start()
    thread.join()
    assert codes == [0]

def test_plain(): ...

def test_fails():
    assert False
"""


def test_only_tests_that_start_no_process_run(tmp_path: Path) -> None:
    (tmp_path / "test_some.py").write_text(_TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    plugins = ("tests.quick", "tests.services.postgres.fixtures", "tests.services.spark.fixtures", "no:cacheprovider")
    options = [part for plugin in plugins for part in ("-p", plugin)]
    command = [sys.executable, "-m", "pytest", *options, "--quick", "-rA", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert "1 failed, 1 passed, 4 skipped, 3 deselected" in done.stdout, done.stdout
    assert "PASSED" in next(line for line in done.stdout.splitlines() if line.endswith("test_plain"))
    assert "FAILED" in next(line for line in done.stdout.splitlines() if "::test_fails" in line)
