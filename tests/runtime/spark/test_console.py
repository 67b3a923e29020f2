"""Of what Java says a user sees what may matter, and their own configuration of its log wins."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from replicator_runtime.spark.console import forwarded_standard_error, log_options

_NOISE = "WARNING: Using incubator modules: jdk.incubator.vector"


@pytest.fixture(autouse=True)
def _plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_HOME", raising=False)
    monkeypatch.delenv("SPARK_CONF_DIR", raising=False)


def _say_and_fail(text: str, times: int = 1) -> None:
    """A start that says this and then fails."""
    with forwarded_standard_error() as descriptor:
        program = "import sys; sys.stderr.write(sys.argv[1] * int(sys.argv[2]))"
        subprocess.run([sys.executable, "-c", program, text, str(times)], stderr=descriptor, check=True)
        raise RuntimeError


def test_every_line_but_the_noise_is_on_standard_error_before_a_failed_start_ends(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(RuntimeError):
        _say_and_fail(f"{_NOISE}\nWARN one\nWARN without an end")
    assert capfd.readouterr().err == "WARN one\nWARN without an end"


def test_a_process_that_says_much_is_not_stopped_by_a_full_pipe(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(RuntimeError):
        _say_and_fail("x" * 99 + "\n", times=10_000)
    assert len(capfd.readouterr().err) == 1_000_000


def test_without_a_standard_error_of_ours_the_process_goes_on() -> None:
    program = (
        "import os, subprocess, sys\n"
        "from replicator_runtime.spark.console import forwarded_standard_error\n"
        "os.close(2)\n"
        "with forwarded_standard_error() as descriptor:\n"
        "    said = 'import sys; sys.stderr.write(\"x\" * 1_000_000)'\n"
        "    subprocess.run([sys.executable, '-c', said], stderr=descriptor, check=True)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_our_configuration_is_taken_where_the_user_has_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert log_options("-Xss1m").startswith("-Xss1m -Dlog4j2.configurationFile=file:///")
    for own in ("-Dlog4j2.configurationFile=mine", "-Dlog4j.configurationFile=mine"):
        assert log_options(own) == own
    (tmp_path / "conf").mkdir()
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    assert "log4j2" in log_options("")
    (tmp_path / "conf" / "log4j2.properties").touch()
    assert log_options("") == ""
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    assert "log4j2" in log_options("")
