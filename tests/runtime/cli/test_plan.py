"""`replicator plan` and `approve`: text, JSON, exit codes, and bad input."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from replicator_state import ReplicatorDirectory
from tests.follows import follows
from tests.runtime.cli.conftest import Replicator
from tests.runtime.cli.test_table_commands import directory, pipeline

__all__ = ["directory", "pipeline"]

Edit = Callable[..., None]
_NEVER = "0" * 12


@pytest.fixture
def edit(pipeline: Path) -> Edit:
    """Writes keys of the pipeline's file."""

    def write(**keys: Any) -> None:
        pipeline.write_text(json.dumps({**json.loads(pipeline.read_text()), **keys}))

    return write


def envelope(replicator: Replicator, *arguments: object, status: int = 0) -> dict[str, Any]:
    done = replicator(*arguments, "--json")
    assert done.exit_code == status, done.stdout
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def files(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_nothing_is_edited_after_a_run_and_everything_is_new_before_it(
    replicator: Replicator, pipeline: Path, edit: Edit
) -> None:
    assert envelope(replicator, "plan", pipeline)["data"]["steps"] == []
    assert "nothing was edited" in replicator("plan", pipeline).stderr
    edit(name="other")
    found = envelope(replicator, "plan", pipeline)["data"]
    assert found["isFirst"]
    assert not found["needsApproval"]
    assert [(s["kind"], s["subject"]) for s in found["steps"]] == [
        ("tableIn", "main.old_orders"),
        ("tableIn", "main.orders"),
    ]
    assert found["steps"][1]["table"] == {"database": "main", "schema": "", "table": "orders"}


@follows("RPL-1260")
def test_plan_run_approve_run(replicator: Replicator, pipeline: Path, edit: Edit) -> None:
    edit(tables=[{"table": "orders"}])
    found = envelope(replicator, "plan", pipeline, status=6)
    assert found["schema"] == "replicator.plan/v1"
    assert found["error"]["code"] == "RPL-1260"
    [step] = found["data"]["steps"]
    assert (step["kind"], step["subject"], step["needsApproval"], step["refused"]) == (
        "tableOut",
        "main.old_orders",
        True,
        False,
    )
    assert step["cost"] == {"copies": False, "rows": None, "seconds": None, "text": "no rows are copied"}
    shown = replicator("plan", pipeline)
    assert shown.exit_code == 6
    assert f"plan {found['data']['plan']}: 1 step, 1 to approve" in shown.stdout
    assert shown.stdout.startswith("APPROVE  main.old_orders: not selected any more\n")
    refused = envelope(replicator, "run", pipeline, "--until-current", status=6)
    assert refused["error"]["code"] == "RPL-1260"
    assert json.loads(replicator("status", pipeline, "--json").stdout)["data"]["sourceError"]["code"] == "RPL-1260"
    approved = envelope(replicator, "approve", pipeline, found["data"]["plan"])
    assert approved["data"]["plan"] == found["data"]["plan"]
    assert not envelope(replicator, "plan", pipeline)["data"]["needsApproval"]
    assert replicator("plan", pipeline).stdout.startswith("APPROVED main.old_orders")
    envelope(replicator, "run", pipeline, "--until-current")
    assert envelope(replicator, "plan", pipeline)["data"]["steps"] == []
    [entry] = envelope(replicator, "requests", pipeline)["data"]
    assert (entry["command"], entry["state"], entry["text"]) == (
        "plan.approve",
        "done",
        f"plan {found['data']['plan']} is approved",
    )


def test_a_name_is_enough_to_approve_and_the_error_of_a_run_says_how(
    replicator: Replicator, pipeline: Path, edit: Edit, directory: ReplicatorDirectory
) -> None:
    edit(tables=[{"table": "orders"}])
    hint = envelope(replicator, "run", pipeline, "--until-current", status=6)["error"]["hint"]
    command = hint.partition("then `replicator ")[2].partition("`")[0]
    assert command.startswith("approve shop ")
    assert replicator(*command.split()).exit_code == 0
    assert directory.requests().waiting() == []
    envelope(replicator, "run", pipeline, "--until-current")


def test_a_plan_that_is_out_of_date_is_refused_and_nothing_is_changed(
    replicator: Replicator, pipeline: Path, edit: Edit, directory: ReplicatorDirectory
) -> None:
    edit(tables=[{"table": "orders"}])
    old = envelope(replicator, "plan", pipeline, status=6)["data"]["plan"]
    edit(tables=[{"table": "old_orders"}])
    new = envelope(replicator, "plan", pipeline, status=6)["data"]["plan"]
    refused = replicator("approve", pipeline, old)
    assert (refused.exit_code, refused.stdout) == (3, "")
    [line] = refused.stderr.splitlines()
    assert line.startswith(f"error RPL-1263: plan {old} is out of date: it is {new} now")
    assert directory.requests().history() == []
    edit(tables=[])
    assert "nothing needs an approval now" in replicator("approve", pipeline, old).stderr
    assert directory.requests().history() == []


@pytest.mark.parametrize("plan_id", ["", "x", _NEVER + "0", _NEVER.replace("0", "G"), "../" + _NEVER])
def test_what_is_no_id_is_refused(
    plan_id: str, replicator: Replicator, pipeline: Path, directory: ReplicatorDirectory
) -> None:
    refused = replicator("approve", pipeline, plan_id)
    assert (refused.exit_code, len(refused.stderr.splitlines())) == (3, 1)
    assert "RPL-1262" in refused.stderr
    assert directory.requests().history() == []


def test_an_approval_of_what_never_ran_is_refused(replicator: Replicator, tmp_path: Path) -> None:
    refused = replicator("approve", "nothing", _NEVER, "--base", tmp_path)
    assert (refused.exit_code, "RPL-1201" in refused.stderr) == (3, True)
    assert list(tmp_path.iterdir()) == []


def test_an_edit_that_no_approval_helps_ends_the_plan_with_its_own_code(
    replicator: Replicator, pipeline: Path, edit: Edit
) -> None:
    edit(tables=[{"table": "orders", "columns": ["totl"]}, {"table": "old_orders"}])
    found = envelope(replicator, "plan", pipeline, status=3)
    assert (found["error"]["code"], found["error"]["hint"]) == ("RPL-2003", "did you mean 'total'?")
    assert [(s["refused"], s["code"]) for s in found["data"]["steps"]] == [(True, "RPL-2003")]
    assert replicator("plan", pipeline).stdout.startswith("REFUSED  main.orders")


def test_a_pipeline_that_applies_at_once_needs_no_approval(replicator: Replicator, pipeline: Path, edit: Edit) -> None:
    edit(tables=[{"table": "orders"}], edits="apply")
    found = envelope(replicator, "plan", pipeline)["data"]
    assert (found["edits"], found["needsApproval"], found["steps"][0]["needsApproval"]) == ("apply", False, True)


def test_a_plan_neither_takes_the_lease_nor_writes(
    replicator: Replicator, pipeline: Path, edit: Edit, directory: ReplicatorDirectory
) -> None:
    edit(tables=[{"table": "orders"}])
    state = Path(json.loads(pipeline.read_text())["offsetBasePath"])
    lease = directory.acquire("another run")
    try:
        held = files(state)
        envelope(replicator, "plan", pipeline, status=6)
        assert files(state) == held
        lease.check()
    finally:
        lease.release()
