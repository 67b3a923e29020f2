"""A run's lines are kept beside its state: all of them at its end, without secrets, and without holding up whoever logs."""

from __future__ import annotations

import io
import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from replicator_runtime.config.sections.logs import LogsConfig
from replicator_runtime.observability import kept_lines, redaction
from replicator_runtime.observability.kept_lines import KeptLines
from replicator_runtime.observability.kept_log import keeping_log
from replicator_runtime.observability.log_reading import LogReader, Wanted, parsed
from replicator_runtime.observability.logs import configure_logging, get_kept_logger, get_logger, set_run
from replicator_runtime.spark import console
from replicator_sdk.errors import FencedError, RetryableError
from replicator_state import LogFolder, ReplicatorDirectory
from replicator_state.log_folder import FILE_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SECRET = "hunter2-and-more"
log = get_logger("replicator.test")


@pytest.fixture
def folder(tmp_path: Path) -> LogFolder:
    return ReplicatorDirectory(str(tmp_path), "default", "shop").logs()


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    yield
    set_run()


def _all(folder: LogFolder, wanted: Wanted | None = None) -> list[dict[str, Any]]:
    lines = map(json.loads, LogReader(folder, "run").newest(None, lambda _: True))
    return [line for line in lines if wanted is None or wanted.accepts(line)]


def _until(holds: Any, seconds: float = 60.0) -> None:
    until = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.02)


@pytest.mark.parametrize("base", ["local", "memory"])
def test_every_line_of_a_run_that_has_ended_is_kept_whatever_the_terminal_shows(
    base: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = str(tmp_path) if base == "local" else f"memory://{tmp_path.name}-kept"
    folder = ReplicatorDirectory(place, "default", "shop").logs()
    redaction.register_secret(SECRET)
    configure_logging("error", "console")
    set_run("shop", "run1")
    with keeping_log(folder, LogsConfig(), "run1"):
        for number in range(500):
            log.info("applied", table="main.orders", number=number, url=f"x://{SECRET}")
        log.debug("not kept")
        get_kept_logger().error("run.failed")
        logging.getLogger("some.library").warning("of a library, with %s", SECRET)
        log.error("shown too")
    log.error("after the end")
    lines = _all(folder)
    assert [line["number"] for line in lines if line["event"] == "applied"] == list(range(500))
    assert [line["event"] for line in lines[500:]] == ["run.failed", "of a library, with ***", "shown too"]
    assert {(line["pipeline"], line["run_id"]) for line in lines} == {("shop", "run1")}
    shown = capsys.readouterr().err
    assert "shown too" in shown
    assert "run.failed" not in shown
    assert "applied" not in shown
    assert SECRET not in json.dumps(lines)


def test_what_an_unknown_exception_quotes_is_not_stored(folder: LogFolder) -> None:
    configure_logging("error", "console", stream=io.StringIO())
    with keeping_log(folder, LogsConfig(), "run1"):
        try:
            raise ValueError("Key (name)=(Smith) exists\nDETAIL: (Smith, 42)\n  Smith again")
        except ValueError as error:
            log.exception("a thread failed", exc_info=error)
    [line] = _all(folder)
    assert "Smith" not in json.dumps(line)
    assert "ValueError" in line["exception"]
    assert "test_kept_log.py" in line["exception"]


def test_nothing_is_kept_when_the_pipeline_says_so_or_no_log_is_set_up(folder: LogFolder) -> None:
    with keeping_log(folder, LogsConfig(), "run1"):
        log.error("lost")
    configure_logging("error", "console")
    with keeping_log(folder, LogsConfig(keep=False), "run1"):
        log.error("lost")
    assert folder.files("run") == []


def test_a_long_log_goes_into_files_of_bounded_size_and_the_oldest_are_deleted(folder: LogFolder) -> None:
    lines = KeptLines(folder, "run", "run1", max_bytes=4 * FILE_BYTES, max_days=1, lost=lambda n: b"%d\n" % n)
    for number in range(60):
        lines.add(b'{"number": %d, "text": "%s"}\n' % (number, b"x" * 100_000))
        _until(lambda: lines._waiting_bytes < kept_lines._WAITING_BYTES // 2)
    assert lines.close(60)
    files = folder.files("run")
    assert max(file.size for file in files) < FILE_BYTES + 200_000
    assert sum(file.size for file in files) <= 4 * FILE_BYTES
    numbers = [line["number"] for line in _all(folder)]
    assert numbers == list(range(numbers[0], 60)), "in order, without a hole"


@pytest.mark.parametrize(
    "fault", [RetryableError("away", code="RPL-7105", hint=""), FileNotFoundError("the bucket is gone")]
)
def test_a_store_that_fails_holds_up_no_one_and_gets_every_line_when_it_works_again(
    folder: LogFolder, monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    works, failed, append = threading.Event(), threading.Event(), LogFolder.append

    def failing(self: LogFolder, name: str, added: bytes, whole: bytes) -> None:
        if not works.is_set():
            failed.set()
            raise fault
        append(self, name, added, whole)

    monkeypatch.setattr(LogFolder, "append", failing)
    monkeypatch.setattr(kept_lines, "_LONGEST_WAIT", 0.1)
    lines = KeptLines(folder, "run", "run1", max_bytes=4 * FILE_BYTES, max_days=1, lost=lambda n: b'{"lost": %d}\n' % n)
    began = time.monotonic()
    for number in range(1000):
        lines.add(b'{"number": %d}\n' % number)
    assert time.monotonic() - began < 5
    assert failed.wait(60)
    lines.add(b'{"number": 1000}\n')
    works.set()
    assert lines.close(60)
    assert [line["number"] for line in _all(folder)] == list(range(1001))


def test_what_does_not_fit_into_memory_while_the_store_fails_is_counted(
    folder: LogFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    goes_on = threading.Event()
    begin = LogFolder.begin
    monkeypatch.setattr(LogFolder, "begin", lambda *given: (goes_on.wait(60), begin(*given))[1])
    lines = KeptLines(folder, "run", "run1", max_bytes=8 * FILE_BYTES, max_days=1, lost=lambda n: b'{"lost": %d}\n' % n)
    for number in range(60):
        lines.add(b'{"number": %d, "text": "%s"}\n' % (number, b"x" * 100_000))
    goes_on.set()
    assert lines.close(60)
    found = _all(folder)
    numbers = [line["number"] for line in found if "number" in line]
    assert found[0] == {"lost": 60 - len(numbers)}
    assert numbers == list(range(60 - len(numbers), 60))


def test_a_killed_process_leaves_what_it_logged_a_moment_before(folder: LogFolder, tmp_path: Path) -> None:
    program = (
        "import time\n"
        "from replicator_runtime.config.sections.logs import LogsConfig\n"
        "from replicator_runtime.observability.kept_log import keeping_log\n"
        "from replicator_runtime.observability.logs import configure_logging, get_logger\n"
        "from replicator_state import ReplicatorDirectory\n"
        "configure_logging('error', 'console')\n"
        f"with keeping_log(ReplicatorDirectory({str(tmp_path)!r}, 'default', 'shop').logs(), LogsConfig(), 'run1'):\n"
        "    get_logger('x').info('last')\n"
        "    time.sleep(600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program]) as process:
        try:
            _until(lambda: [line["event"] for line in _all(folder)] == ["last"], 300)
        finally:
            os.kill(process.pid, signal.SIGKILL)


def test_a_run_that_was_superseded_or_deleted_writes_no_line_more(folder: LogFolder, tmp_path: Path) -> None:
    superseded = threading.Event()

    def fence() -> None:
        if superseded.is_set():
            raise FencedError("superseded", code="RPL-7131", hint="")

    mine = LogFolder(folder._folder, folder._retry, fence)
    lines = KeptLines(mine, "run", "run1", max_bytes=4 * FILE_BYTES, max_days=1, lost=lambda n: b"%d\n" % n)
    lines.add(b'{"number": 1}\n')
    _until(lambda: [line["number"] for line in _all(folder)] == [1])
    superseded.set()
    shutil.rmtree(tmp_path / "default")
    lines.add(b'{"number": 2}\n')
    assert lines.close(60)
    assert not (tmp_path / "default").exists()


def test_warnings_of_spark_are_kept_and_do_not_reach_the_terminal(
    folder: LogFolder, capfd: pytest.CaptureFixture[str]
) -> None:
    redaction.register_secret(SECRET)
    said = (
        "Error: the virtual machine\n"
        f"2026-11-26 14:35:41 WARN Executor: slow {SECRET}\n\tat org.apache.Slow\n"
        "2026-11-26 14:35:41 ERROR Inbox: broken\n\tat org.apache.Broken\n"
    )
    configure_logging("error", "console")
    with keeping_log(folder, LogsConfig(), "run1"), console.forwarded_standard_error() as out:
        subprocess.run(
            [sys.executable, "-c", "import sys; sys.stderr.write(sys.argv[1])", said], stderr=out, check=True
        )
    shown = capfd.readouterr().err
    assert shown == "Error: the virtual machine\n2026-11-26 14:35:41 ERROR Inbox: broken\n\tat org.apache.Broken\n"
    kept = b"\n".join(LogReader(folder, "spark").newest(None, lambda _: True)).decode() + "\n"
    assert kept == said.replace(SECRET, "***")


def test_a_line_that_is_half_written_is_read_when_it_is_whole(folder: LogFolder) -> None:
    reader, name = LogReader(folder, "run"), folder.begin("run", "run1", datetime.now(UTC))
    folder.append(name, b'{"n": 1}\n{"n"', b'{"n": 1}\n{"n"')
    assert reader.newest(None, lambda _: True) == [b'{"n": 1}']
    folder.append(name, b": 2}\n", b'{"n": 1}\n{"n": 2}\n')
    assert list(reader.more()) == [b'{"n": 2}']
    assert list(reader.more()) == []
    assert parsed(b'{"n"') is None
