"""`replicator list` shows every replicator below a folder; one that cannot be read hides no other."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from replicator_state import ReplicatorDirectory, replicators
from tests.runtime.cli.conftest import Replicator
from tests.runtime.cli.test_commands import status_of


def make(base: Path, namespace: str, name: str, phase: str = "streaming", age: float = 0) -> ReplicatorDirectory:
    directory = ReplicatorDirectory(str(base), namespace, name)
    directory.states().put_status(status_of(datetime.now(UTC) - timedelta(seconds=age), phase))
    return directory


def listed(replicator: Replicator, base: Path, *more: str) -> list[dict[str, Any]]:
    done = replicator("list", "--base", base, *more, "--json")
    assert done.exit_code == 0, done.stdout
    found: list[dict[str, Any]] = json.loads(done.stdout)["data"]
    return found


def test_all_are_listed_with_their_tables_and_what_waits(replicator: Replicator, tmp_path: Path) -> None:
    make(tmp_path, "default", "shop")
    make(tmp_path, "eu", "shop", "done").requests().submit("table.retry", {"tables": ["a"]})
    make(tmp_path, "eu", "stock", age=3600)
    (tmp_path / "eu" / "not one" / "1").mkdir(parents=True)
    (tmp_path / "eu" / "empty").mkdir()
    (tmp_path / "file").write_text("")
    found = {(one["namespace"], one["name"]): one for one in listed(replicator, tmp_path)}
    assert list(found) == [("default", "shop"), ("eu", "shop"), ("eu", "stock")]
    assert found["eu", "shop"]["requestsWaiting"] == 1
    assert found["eu", "shop"]["phase"] == "done"
    assert found["eu", "stock"]["silentSeconds"] >= 3600
    assert found["default", "shop"]["silentSeconds"] is None
    assert sum(found["default", "shop"]["tables"].values()) > 0
    assert [one["name"] for one in listed(replicator, tmp_path, "--namespace", "eu")] == ["shop", "stock"]
    shown = replicator("list", "--base", tmp_path).stdout
    assert "silent for" in shown


def test_one_that_cannot_be_read_is_listed_with_the_reason(replicator: Replicator, tmp_path: Path) -> None:
    make(tmp_path, "default", "good")
    make(tmp_path, "default", "bad")
    (tmp_path / "default/bad/1/state.json").write_text("{", "utf-8")
    bad, good = listed(replicator, tmp_path)
    assert bad["error"].startswith("RPL-7122")
    assert good["phase"] == "streaming"


def test_one_that_has_no_status_yet_is_listed(replicator: Replicator, tmp_path: Path) -> None:
    ReplicatorDirectory(str(tmp_path), "default", "new").acquire("r").release()
    [found] = listed(replicator, tmp_path)
    assert (found["name"], found["phase"]) == ("new", None)


def test_an_empty_folder_is_said(replicator: Replicator, tmp_path: Path) -> None:
    done = replicator("list", "--base", tmp_path / "nothing")
    assert done.exit_code == 0
    assert "no replicator keeps its state at" in done.stdout + done.stderr
    assert not (tmp_path / "nothing").exists()


def test_status_says_how_many_requests_wait(replicator: Replicator, tmp_path: Path) -> None:
    directory = make(tmp_path, "default", "shop")
    assert "requests that wait" not in replicator("status", "shop", "--base", tmp_path).stdout
    directory.requests().submit("table.retry", {"tables": ["a"]})
    assert "requests that wait: 1" in replicator("status", "shop", "--base", tmp_path).stdout


def test_replicators_are_found_on_any_store(tmp_path: Path) -> None:
    base = f"memory://{tmp_path.name}"
    ReplicatorDirectory(base, "default", "shop").states().put_status({"name": "shop"})
    ReplicatorDirectory(base, "default", "asked").requests().submit("table.retry", {})
    assert replicators(base) == [("default", "shop")]
