"""`status` and `list` say what is known of a replicator's process; commands check before they ask for a confirmation."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from replicator_state import ReplicatorDirectory
from tests.runtime.cli.conftest import Replicator
from tests.runtime.cli.test_commands import status_of

_KILLED = """
import os, signal, sys
from replicator_state import ReplicatorDirectory
directory = ReplicatorDirectory(sys.argv[1], "default", "shop")
directory.acquire("killed")
os.kill(os.getpid(), signal.SIGKILL)
"""


def killed(base: Path) -> ReplicatorDirectory:
    """A replicator whose process was killed a moment after it had written its status."""
    ended = subprocess.run([sys.executable, "-c", _KILLED, str(base)], check=False, timeout=60)
    assert ended.returncode == -9
    directory = ReplicatorDirectory(str(base), "default", "shop")
    directory.states().put_status(status_of(datetime.now(UTC), "streaming"))
    return directory


def listed(replicator: Replicator, base: Path) -> dict[str, Any]:
    [found] = json.loads(replicator("list", "--base", base, "--json").stdout)["data"]
    assert isinstance(found, dict)
    return found


def test_a_killed_process_is_noticed_at_once_on_its_host(replicator: Replicator, tmp_path: Path) -> None:
    killed(tmp_path)
    done = replicator("status", "shop", "--base", tmp_path)
    assert done.exit_code == 0
    assert "its process has ended without a last status" in done.stderr
    assert "replicator run" in done.stderr
    assert listed(replicator, tmp_path)["processEnded"] is True
    assert "streaming, its process has ended" in replicator("list", "--base", tmp_path).stdout


def test_a_process_that_works_raises_no_warning(replicator: Replicator, tmp_path: Path) -> None:
    directory = ReplicatorDirectory(str(tmp_path), "default", "shop")
    lease = directory.acquire("works")
    directory.states().put_status(status_of(datetime.now(UTC), "streaming"))
    done = replicator("status", "shop", "--base", tmp_path)
    assert "process" not in done.stderr
    assert listed(replicator, tmp_path)["processEnded"] is False
    directory.states().put_status(status_of(datetime.now(UTC) - timedelta(seconds=90), "streaming"))
    assert "no process has written this for 9" in replicator("status", "shop", "--base", tmp_path).stderr
    directory.states().put_status(status_of(datetime.now(UTC), "done"))
    lease.release()
    assert "process" not in replicator("status", "shop", "--base", tmp_path).stderr


def test_after_a_reset_status_and_list_say_that_a_run_comes_next(replicator: Replicator, sqlite_pipeline: Path) -> None:
    base = Path(json.loads(sqlite_pipeline.read_text())["offsetBasePath"])
    ReplicatorDirectory(str(base), "default", "shop").acquire("before").release()
    assert "no status yet" in replicator("status", sqlite_pipeline).stderr, "of a first run that has just begun"
    assert replicator("reset", sqlite_pipeline, "--yes").exit_code == 0
    done = replicator("status", sqlite_pipeline)
    says = f"generation 2 has not run yet: start it with `replicator run {sqlite_pipeline}`\n"
    assert (done.exit_code, done.stdout) == (0, says)
    found = listed(replicator, base)
    assert (found["phase"], found["generation"]) == ("reset", 2)
    data = json.loads(replicator("status", sqlite_pipeline, "--json").stdout)["data"]
    assert (data["phase"], data["generation"], data["tables"]) == ("reset", 2, [])
    lease = ReplicatorDirectory(str(base), "default", "shop").acquire("begins")
    assert "wait until it has started" in replicator("status", sqlite_pipeline).stderr
    lease.release()


@pytest.mark.parametrize("command", [("reset",), ("table", "resync")])
def test_what_cannot_be_done_is_refused_before_it_asks(
    replicator: Replicator, sqlite_pipeline: Path, command: tuple[str, ...]
) -> None:
    tables = ("orders", "--in-place") if command[0] == "table" else ()
    unknown = replicator(*command, sqlite_pipeline, *tables)
    assert ("RPL-1231" if command == ("reset",) else "RPL-1201") in unknown.stderr
    assert "target" not in unknown.stderr, "it did not ask"
    base = json.loads(sqlite_pipeline.read_text())["offsetBasePath"]
    lease = ReplicatorDirectory(base, "default", "shop").acquire("works")
    beside = replicator(*command, sqlite_pipeline, *tables)
    lease.release()
    assert ("RPL-7130" if command == ("reset",) else "RPL-1228") in beside.stderr
    asked = replicator(*command, sqlite_pipeline, *tables)
    assert "RPL-1228" in asked.stderr, "now it asks"


def test_a_repaired_error_is_shown_without_its_next_step(replicator: Replicator, tmp_path: Path) -> None:
    last = {
        "code": "RPL-3303",
        "message": "not published",
        "hint": "publish it",
        "at": "2026-11-01T10:00:00",
        "times": 2,
    }
    status = status_of(datetime.now(UTC), "done") | {"sourceState": "OK", "sourceError": None, "lastError": last}
    waits, state = "it waits until it is listed", "REPLICATING"
    status["tables"][0] |= {"state": state, "error": None, "lastError": {**last, "times": 1}, "waitsFor": waits}
    ReplicatorDirectory(str(tmp_path), "default", "shop").states().put_status(status)
    shown = replicator("status", "shop", "--base", tmp_path)
    assert "repaired at 2026-11-01T10:00:00, after it came 2 times: RPL-3303: not published" in shown.stdout
    assert "public.orders: repaired at 2026-11-01T10:00:00: RPL-3303" in shown.stdout
    assert "publish it" not in shown.stdout
    assert "public.orders: it waits until it is listed" in shown.stdout
    data = json.loads(replicator("status", "shop", "--base", tmp_path, "--json").stdout)["data"]
    assert data["lastError"]["hint"] == "publish it"


def test_the_error_of_a_table_that_still_fails_is_not_said_to_be_repaired(
    replicator: Replicator, tmp_path: Path
) -> None:
    """As after a run that was refused before it began: it knows the table's state, and what an earlier run said."""
    last = {"code": "RPL-3919", "message": "no operation", "hint": "name it", "at": "2026-11-01T10:00:00", "times": 1}
    status = status_of(datetime.now(UTC), "failed")
    status["tables"][0] |= {"state": "FAILING", "error": None, "lastError": last}
    ReplicatorDirectory(str(tmp_path), "default", "shop").states().put_status(status)
    shown = replicator("status", "shop", "--base", tmp_path)
    assert "public.orders: failed at 2026-11-01T10:00:00: RPL-3919: no operation. Next: name it" in shown.stdout
    assert "repaired" not in shown.stdout
