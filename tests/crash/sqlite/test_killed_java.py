"""A replicator whose Java virtual machine is killed starts another one by itself and loses and doubles nothing.

Three runs follow each kill once its own run has ended. In two tests more than one virtual machine of a run is killed before
that: the second half of the first test, and the test in which none lives.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.crash.kills import harms, kill, kills
from tests.crash.one_process import OneProcess
from tests.crash.sqlite.conftest import MakePair
from tests.crash.sqlite.pair import Pair
from tests.end_to_end.replicator import Ended, Running

SECONDS = 180.0


def _start(pair: Pair, **settings: Any) -> Running:
    """An endless run whose temporary files, and those of its virtual machines, are in a folder of the test's own."""
    temporary = pair.replicator.folder / "tmp"
    temporary.mkdir(exist_ok=True)
    pair.replicator.settings = {
        **pair.replicator.settings,
        "retries": {"maxDurationSeconds": 300, "delaySeconds": 0.5},
        "batch": {"maxIntervalSeconds": 0.2},
        **settings,
    }
    return pair.replicator.start(TMPDIR=str(temporary))


def _until(condition: Callable[[], Any], what: str, running: Running) -> Any:
    until = time.monotonic() + SECONDS
    while not (found := condition()):
        assert time.monotonic() < until, f"{what}: not in time\n{running.log.read_text(errors='replace')[-6000:]}"
        assert running.process.poll() is None, running.log.read_text(errors="replace")[-6000:]
        time.sleep(0.1)
    return found


def _java(running: Running) -> psutil.Process | None:
    """The run's virtual machine, once it is one (it begins as a shell script)."""
    try:
        children = psutil.Process(running.process.pid).children(recursive=True)
        return next((p for p in children if p.name() == "java" and p.status() != psutil.STATUS_ZOMBIE), None)
    except psutil.NoSuchProcess:  # one of them ended meanwhile
        return None


def _kill_java(running: Running, but: psutil.Process | None = None) -> psutil.Process:
    def other() -> psutil.Process | None:
        java = _java(running)
        return None if java == but else java

    java: psutil.Process = _until(other, "a virtual machine", running)
    java.send_signal(signal.SIGKILL)
    _until(lambda: not java.is_running() or java.status() == psutil.STATUS_ZOMBIE, "its end", running)
    kills.append("java")
    return java


def _equal(pair: Pair, running: Running) -> None:
    _until(lambda: pair.differences() == {}, "equal", running)


def _status(pair: Pair) -> dict[str, Any]:
    files = list(pair.replicator.state.glob("default/shop/1/state.json"))
    return json.loads(files[0].read_text()) if files else {}


def _left(pair: Pair) -> list[str]:
    """What virtual machines left in the temporary folder; a killed copy of the SQLite file is the source's."""
    folder = pair.replicator.folder / "tmp"
    return [str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file() and p.name != "copy.sqlite"]


def _stop(running: Running) -> Ended:
    ended = running.stop()
    assert ended.status == 143, ended.messages[-3000:]
    return ended


@pytest.mark.timeout(900)
def test_killed_once_and_then_twice_in_a_stream_rows_are_equal_and_nothing_is_left(
    make_pair: MakePair, tmp_path: Path
) -> None:
    """One run recovers from one kill, another run from two of them; three runs follow each of the two."""
    pair, shown = make_pair(delta=True), 0
    with OneProcess(tmp_path / "process", shares_java=True) as process:
        for times in (1, 2):
            pair.change_rows()  # so that the run has something to ask Java for before a kill
            running = _start(pair)
            _equal(pair, running)
            java = None
            for _ in range(times):
                java = _kill_java(running, java)
                shown += _recovers(pair, running)
            ended = _stop(running)
            assert "RPL-7207" in ended.messages
            assert "RPL-9000" not in ended.messages
            assert _left(pair) == []
            pair.assert_recovered(process)
    assert shown, "the status says that it tries again"


def _recovers(pair: Pair, running: Running) -> bool:
    """Changes of rows and structure follow a kill; the run says that it tries again, and then that all is well.

    Returns:
        Whether the status was read while it said the first.
    """
    for _ in range(3):
        pair.change_rows()
    pair.change_structure()
    pair.change_rows()

    def met() -> dict[str, Any]:
        status = _status(pair)
        return status if status.get("phase") == "retrying" or pair.differences() == {} else {}

    status = _until(met, "a status that says so", running)
    is_shown = bool(status["phase"] == "retrying")  # or it was over before it was looked for
    if is_shown:
        assert status["sourceError"]["code"] == "RPL-7207", status
        assert status["lagSeconds"] is None or status["lagSeconds"] > 0
    _equal(pair, running)
    _until(lambda: _status(pair)["phase"] == "streaming", "a status that says so", running)
    assert _status(pair)["sourceError"] is None
    assert _status(pair)["lastError"]["code"] == "RPL-7207"
    return is_shown


@pytest.mark.timeout(900)
def test_killed_inside_a_wave_of_a_snapshot_the_copy_goes_on(make_pair: MakePair) -> None:
    pair = make_pair(delta=True)
    pair.database.run(
        "WITH RECURSIVE numbers(n) AS (SELECT 1000 UNION ALL SELECT n + 1 FROM numbers WHERE n < 200000) "
        "INSERT INTO customer SELECT n, 'name ' || n, 0 FROM numbers"
    )
    pair.replicator.source = ("sqlite", {**pair.replicator.source[1], "chunkRows": 5000})
    running = _start(pair)
    log = pair.replicator.lake / "main" / "customer" / "_delta_log"
    _until(lambda: len(list(log.glob("*.json"))) > 1, "a wave", running)
    _kill_java(running)
    pair.change_rows()
    pair.change_structure()
    pair.change_rows()
    _equal(pair, running)
    _stop(running)
    assert _left(pair) == []
    pair.assert_recovered()


@pytest.mark.timeout(900)
def test_a_virtual_machine_that_never_lives_ends_the_run_after_its_budget(make_pair: MakePair) -> None:
    """Kills without a recovery between them, until the run gives up; three runs follow the last one."""
    pair = make_pair(delta=True)
    running = _start(pair, retries={"maxDurationSeconds": 15, "delaySeconds": 0.5})
    _equal(pair, running)
    java = None
    until = time.monotonic() + 3 * SECONDS
    while running.process.poll() is None and time.monotonic() < until:
        found = _java(running)
        if found is not None and found != java:
            java = found
            os.kill(java.pid, signal.SIGKILL)
            kills.append("java")
            pair.change_rows(1)  # an idle run has nothing to ask Java for
        time.sleep(0.05)
    ended = running.wait(SECONDS)
    assert ended.status == 4, ended.messages[-3000:]
    assert ended.error["code"] in {"RPL-7204", "RPL-7207"}, ended.error
    assert _left(pair) == []
    pair.assert_recovered()


@pytest.mark.parametrize("removed", ["", "files"])
def test_what_a_killed_replicators_virtual_machine_left_is_deleted_by_the_next_start(
    make_pair: MakePair, removed: str
) -> None:
    """Unless it lacks the part of the recovery that deletes it."""
    pair = make_pair(delta=True, removed=removed)
    running = _start(pair)
    _equal(pair, running)
    kill(running)
    assert _left(pair)
    running = _start(pair)
    _until(lambda: _status(pair).get("phase") == "streaming", "streaming", running)
    _stop(running)
    assert (_left(pair) == []) == (not removed)
    if removed:
        harms.append(removed)
    else:
        pair.assert_recovered()


def test_where_a_dead_session_is_kept_a_killed_virtual_machine_ends_the_run(make_pair: MakePair) -> None:
    """The twin of the kills above."""
    pair = make_pair(delta=True, removed="session")
    running = _start(pair, retries={"maxDurationSeconds": 10, "delaySeconds": 0.5})
    _equal(pair, running)
    _kill_java(running)
    pair.change_rows()
    ended = running.wait(SECONDS)
    assert ended.status not in {0, -signal.SIGKILL}, ended.messages[-3000:]
    assert pair.differences() != {}
    harms.append("session")


def test_no_file_of_another_process_is_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from replicator_runtime.spark.scratch_folders import Scratch

    monkeypatch.setenv("TMPDIR", str(tmp_path))
    import tempfile

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    other = tmp_path / "replicator-spark-notours"
    other.mkdir()
    held, mine = Scratch(), Scratch()
    (Path(held.paths[0]) / "file").touch()
    mine.remove()
    again = Scratch()
    assert (Path(held.paths[0]) / "file").exists(), "another process holds it"
    assert other.exists(), "it has no mark of ours"
    held.remove()
    again.remove()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["replicator-spark-notours"]
