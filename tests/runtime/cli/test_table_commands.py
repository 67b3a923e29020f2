"""`replicator table` says what follows, what is refused and why; without a run it does it by itself, `requests` lists it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from replicator_state import Lease, ReplicatorDirectory, RequestFolder
from tests.runtime.cli.conftest import Replicator
from tests.runtime.plugin_packages import VOID_TARGET, install

Command = Callable[..., dict[str, Any]]


@pytest.fixture
def pipeline(replicator: Replicator, sqlite_pipeline: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A pipeline that has run once."""
    site = sqlite_pipeline.parent / "site"
    site.mkdir()
    monkeypatch.syspath_prepend(str(site))
    install(site, "void", VOID_TARGET)
    document = json.loads(sqlite_pipeline.read_text())
    document["stages"][1]["plugin"] = {"name": "void", "type": "cdcTarget"}
    document["tables"] = [{"table": "orders"}, {"table": "old_orders"}]
    sqlite_pipeline.write_text(json.dumps(document))
    done = replicator("run", sqlite_pipeline, "--until-current")
    assert done.exit_code == 0, done.stderr
    return sqlite_pipeline


@pytest.fixture
def directory(pipeline: Path) -> ReplicatorDirectory:
    return ReplicatorDirectory(json.loads(pipeline.read_text())["offsetBasePath"], "default", "shop")


def test_without_a_run_the_command_does_it_and_the_history_says_who_and_when(
    replicator: Replicator, pipeline: Path
) -> None:
    done = replicator("table", "resync", pipeline, "orders", "main.old_orders", "--in-place", "--yes")
    assert (done.exit_code, done.stdout) == (
        0,
        "main.orders will be copied again by the next run that finds it at the source\nmain.old_orders will be copied again by the next run that finds it at the source\n",
    )
    [entry] = json.loads(replicator("requests", pipeline, "--json").stdout)["data"]
    assert entry["command"] == "table.resync"
    assert entry["tables"] == ["orders", "main.old_orders"]
    assert entry["state"] == "done"
    assert "@" in entry["by"]
    assert entry["endedBy"].startswith("run ")
    shown = replicator("requests", pipeline).stdout
    assert "REQUEST" in shown
    assert (
        "main.orders will be copied again by the next run that finds it at the source; main.old_orders will be copied again by the next run that finds it at the source"
        in shown
    )


def test_the_json_has_request_state_and_lines(replicator: Replicator, pipeline: Path) -> None:
    done = replicator("table", "resync", pipeline, "orders", "--in-place", "--yes", "--json")
    document = json.loads(done.stdout)
    assert document["schema"] == "replicator.table.resync/v1"
    assert document["error"] is None
    assert document["data"]["state"] == "done"
    assert document["data"]["lines"] == ["main.orders will be copied again by the next run that finds it at the source"]
    assert len(document["data"]["request"]) == 26


@pytest.mark.parametrize(
    ("arguments", "code", "hint"),
    [
        (("retry", "orders"), "RPL-1221", "replicator status"),
        (("retry", "ordrs"), "RPL-1220", "did you mean"),
        (("resync", "orders", "--yes"), "RPL-1223", "--in-place"),
        (("resync", "orders", "--in-place"), "RPL-1228", "--yes"),
        (("resync", "ordrs", "--in-place"), "RPL-1220", "did you mean"),
        (("drop", "ordrs"), "RPL-1220", "did you mean"),
        (("drop", "orders"), "RPL-1228", "--yes"),
        (("drop", "orders", "--yes"), "RPL-1234", "`exclude`"),
        (("resync", "shop.nothing", "--in-place", "--yes"), "RPL-1220", "replicator status"),
    ],
)
def test_what_is_refused_is_one_line_with_the_next_step_and_ends_with_3(
    replicator: Replicator, pipeline: Path, arguments: tuple[str, ...], code: str, hint: str
) -> None:
    command, table, *options = arguments
    done = replicator("table", command, pipeline, table, *options)
    assert done.exit_code == 3
    assert f"error {code}: " in done.stderr
    assert hint in done.stderr.partition("Next: ")[2]
    assert "will be copied again" not in done.stdout


def test_a_next_step_has_the_pipeline_as_it_was_given_and_the_table(replicator: Replicator, pipeline: Path) -> None:
    refused = replicator("table", "retry", pipeline, "orders", "--json")
    assert f"`replicator status {pipeline}`" in json.loads(refused.stdout)["error"]["hint"]
    shown = replicator("table", "retry", pipeline, "ordrs").stderr
    assert shown.endswith(
        f"did you mean main.orders? `replicator status {pipeline}` lists the tables of the pipeline\n"
    )
    base = json.loads(pipeline.read_text())["offsetBasePath"]
    refused = replicator("dead-letters", "list", "shop", "orders", "--base", base)
    assert f"`replicator dead-letters list shop --base {base}` lists all" in refused.stderr


def test_a_target_that_cannot_delete_a_table_keeps_it_and_the_replicator_forgets_it_only_when_asked(
    replicator: Replicator, pipeline: Path
) -> None:
    document = json.loads(pipeline.read_text())
    document["tables"] = [{"table": "old_orders"}]
    pipeline.write_text(json.dumps(document))
    refused = replicator("table", "drop", pipeline, "orders", "--yes")
    assert refused.exit_code == 3
    assert "error RPL-1235: " in refused.stderr
    assert "cannot delete tables" in refused.stderr
    assert "--keep-target" in refused.stderr.partition("Next: ")[2]
    done = replicator("table", "drop", pipeline, "orders", "--keep-target")
    assert done.stdout == "main.orders is no table of the replicator any more; its copy at the target stays as it is\n"


def test_what_is_not_confirmed_leaves_no_request(
    replicator: Replicator, pipeline: Path, directory: ReplicatorDirectory
) -> None:
    replicator("table", "resync", pipeline, "orders", "--in-place")
    assert directory.requests().history() == []


def test_a_name_alone_waits_for_a_run_and_withdraws(
    replicator: Replicator, pipeline: Path, directory: ReplicatorDirectory
) -> None:
    base = json.loads(pipeline.read_text())["offsetBasePath"]
    done = replicator("table", "retry", "shop", "orders", "--base", base, "--timeout", "0.3")
    assert done.exit_code == 4
    assert "error RPL-1226: " in done.stderr
    assert "give the pipeline's file" in done.stderr
    assert directory.requests().waiting() == []
    assert "withdrawn" in replicator("requests", pipeline).stdout


def test_beside_a_run_that_does_not_look_it_is_withdrawn_or_said_to_be_under_way(
    replicator: Replicator, pipeline: Path, directory: ReplicatorDirectory
) -> None:
    lease = directory.acquire("another")
    try:
        done = replicator("table", "retry", pipeline, "orders", "--timeout", "0.3")
        assert "error RPL-1233: " in done.stderr
        with pytest.MonkeyPatch.context() as begun:
            begun.setattr(type(directory.requests()), "withdraw", lambda self, one: not self.begin(one, "run another"))
            done = replicator("table", "retry", pipeline, "orders", "--timeout", "0.3")
        assert done.exit_code == 4
        assert "error RPL-1227: " in done.stderr
        assert len(directory.requests().waiting()) == 1
    finally:
        lease.release()


def test_an_outcome_that_cannot_be_read_is_said(
    replicator: Replicator, pipeline: Path, directory: ReplicatorDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def damaged(self: RequestFolder, request_id: str, _: object) -> None:
        self._folder.create(f"{request_id}.outcome", b"{")

    monkeypatch.setattr(RequestFolder, "finish", damaged)
    done = replicator("table", "resync", pipeline, "orders", "--in-place", "--yes")
    assert done.exit_code == 3
    assert "error RPL-1229: " in done.stderr
    assert directory.requests().waiting() == []
    assert replicator("requests", pipeline).exit_code == 0


def test_without_waiting_the_next_run_does_it(
    replicator: Replicator, pipeline: Path, directory: ReplicatorDirectory
) -> None:
    done = replicator("table", "resync", pipeline, "orders", "--in-place", "--yes", "--no-wait")
    assert done.exit_code == 0
    assert "replicator requests" in done.stdout
    assert len(directory.requests().waiting()) == 1
    assert replicator("run", pipeline, "--until-current").exit_code == 0
    assert directory.requests().waiting() == []
    assert "will be copied again" in replicator("requests", pipeline).stdout


def test_a_replicator_that_never_ran_has_no_requests_and_takes_none(
    replicator: Replicator, sqlite_pipeline: Path
) -> None:
    for arguments in (("requests", sqlite_pipeline), ("table", "retry", sqlite_pipeline, "orders")):
        done = replicator(*arguments)
        assert done.exit_code == 3
        assert "error RPL-1201: " in done.stderr
    assert not (sqlite_pipeline.parent / "state").exists()


def test_no_requests_are_said(replicator: Replicator, pipeline: Path) -> None:
    done = replicator("requests", pipeline)
    assert done.exit_code == 0
    assert "no requests" in done.stdout + done.stderr


def test_what_ends_the_wait_withdraws_the_request(
    replicator: Replicator, pipeline: Path, directory: ReplicatorDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the next run, perhaps days later, would do what was said to have failed."""
    pipeline.write_text(json.dumps(json.loads(pipeline.read_text()) | {"retries": {"maxDurationSeconds": 2}}))
    for error in (OSError(5, "away"), KeyboardInterrupt()):

        def fails(self: Lease, error: BaseException = error) -> None:
            raise error

        with monkeypatch.context() as broken:
            broken.setattr(Lease, "check", fails)
            assert replicator("table", "resync", pipeline, "orders", "--in-place", "--yes").exit_code != 0
    assert directory.requests().waiting() == []
    assert {entry.outcome.state.value for entry in directory.requests().history() if entry.outcome} == {"withdrawn"}


def test_a_pipeline_that_cannot_be_loaded_leaves_no_request(
    replicator: Replicator, pipeline: Path, directory: ReplicatorDirectory
) -> None:
    document = json.loads(pipeline.read_text())
    document["stages"][1]["plugin"]["name"] = "gone"
    pipeline.write_text(json.dumps(document))
    assert replicator("table", "retry", pipeline, "orders").exit_code == 3
    assert directory.requests().history() == []


def test_root_does_not_write_into_the_state_of_another_user(
    replicator: Replicator, pipeline: Path, directory: ReplicatorDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(Path, "owner", lambda _: "replicator")
    for command in (("table", "retry", pipeline, "orders"), ("reset", pipeline, "--yes"), ("maintain", pipeline)):
        done = replicator(*command)
        assert done.exit_code == 3
        assert "error RPL-7106: " in done.stderr
        assert "sudo -u replicator" in done.stderr
    assert directory.requests().history() == []


def test_a_request_that_was_withdrawn_by_another_is_no_success(
    replicator: Replicator, pipeline: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RequestFolder, "read", lambda *_: None)  # another process has deleted the file
    done = replicator("table", "resync", pipeline, "orders", "--in-place", "--yes")
    assert done.exit_code == 3
    assert "error RPL-1230: " in done.stderr


def test_another_generation_copies_everything_again(
    replicator: Replicator, pipeline: Path, directory: ReplicatorDirectory
) -> None:
    refused = replicator("reset", pipeline)
    assert refused.exit_code == 3
    assert "error RPL-1228: " in refused.stderr
    assert directory.generations() == [1]
    done = replicator("reset", pipeline, "--yes", "--json")
    assert done.exit_code == 0
    assert json.loads(done.stdout)["data"] == {"generation": 2}
    assert directory.generations() == [1, 2]
    assert replicator("run", pipeline, "--until-current").exit_code == 0
    status = json.loads(replicator("status", pipeline, "--json").stdout)["data"]
    assert status["generation"] == 2
    assert {table["state"] for table in status["tables"]} == {"REPLICATING"}
    epochs = {
        number: ReplicatorDirectory(directory.base_path, "default", "shop", generation=number).states().read_status()
        for number in (1, 2)
    }
    assert epochs[1] is not None
    assert epochs[2] is not None
    assert epochs[1]["epoch"] < epochs[2]["epoch"]


def test_beside_a_run_and_before_the_first_one_nothing_is_begun_again(
    replicator: Replicator, pipeline: Path, directory: ReplicatorDirectory
) -> None:
    lease = directory.acquire("another")
    assert "error RPL-7130: " in replicator("reset", pipeline, "--yes").stderr
    lease.release()
    document = json.loads(pipeline.read_text())
    pipeline.write_text(json.dumps({**document, "name": "never"}))
    assert "error RPL-1231: " in replicator("reset", pipeline, "--yes").stderr
    assert directory.generations() == [1]


def test_on_standard_output_is_the_document_alone(pipeline: Path) -> None:
    commands = (
        ("table", "resync", str(pipeline), "orders", "--in-place", "--yes"),
        ("reset", str(pipeline), "--yes"),
        ("list", "--base", json.loads(pipeline.read_text())["offsetBasePath"]),
    )
    for command in commands:
        done = subprocess.run(
            [sys.executable, "-c", "from replicator_runtime.cli import main; main()", *command, "--json"],
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": str(pipeline.parent / "site")},
            check=True,
        )
        assert json.loads(done.stdout)["error"] is None
        assert "warning" not in done.stderr
