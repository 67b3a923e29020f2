"""What the service says of a pipeline is what its state says, as the command line prints it."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from replicator_runtime.service.observation.fleet import summary_of
from replicator_runtime.service.observation.state_reader import StateReader
from replicator_runtime.service.observation.stored import directory_of
from replicator_runtime.service.store.tables import Pipeline
from replicator_state import ReplicatorDirectory
from tests.runtime.cli.conftest import Replicator, replicator
from tests.runtime.cli.test_commands import status_of

__all__ = ["replicator"]


def made(base: Path, phase: str = "streaming") -> ReplicatorDirectory:
    directory = ReplicatorDirectory(str(base), "default", "shop")
    directory.states().put_status(status_of(datetime.now(UTC), phase))
    return directory


def test_the_status_is_that_of_the_command(tmp_path: Path, replicator: Replicator) -> None:
    directory = made(tmp_path)
    printed = json.loads(replicator("status", "shop", "--base", tmp_path, "--json").stdout)["data"]
    assert StateReader(directory).status() == printed


def test_a_change_is_seen_and_an_unchanged_state_is_not_read_again(tmp_path: Path) -> None:
    directory = made(tmp_path)
    reader = StateReader(directory)
    first = reader.look()
    assert (first.phase, first.tables) == ("streaming", {"FAILING": 1})
    assert reader.look() is first
    directory.states().put_status(status_of(datetime.now(UTC), "done"))
    reader.forget()
    assert reader.look().phase == "done"


def test_a_state_that_cannot_be_read_is_a_reason_to_look(tmp_path: Path) -> None:
    made(tmp_path)
    (tmp_path / "default/shop/1/state.json").write_text("{", "utf-8")
    found = summary_of(StateReader(ReplicatorDirectory(str(tmp_path), "default", "shop")).look())
    assert [reason.reason for reason in found.needs_you] == ["unreadable"]
    assert found.last_error is not None
    assert found.last_error.code == "RPL-7122"


def test_a_table_has_the_changes_that_the_target_got_beside_the_rows_of_copies(tmp_path: Path) -> None:
    status = status_of(datetime.now(UTC), "streaming")
    table = status["tables"][0]
    name = f"{table['schema'] or table['database']}.{table['table']}"
    counters = {"my.target.dml.insert": 7, "my.target.dml.update": 2, "my.target.dml.unmatched": 1, "snapshot.rows": 5}
    status["metrics"] = {"counters": {}, "gauges": {}, "tables": {name: {"counters": counters, "gauges": {}}}}
    directory = ReplicatorDirectory(str(tmp_path), "default", "shop")
    directory.states().put_status(status)
    (row,) = StateReader(directory).look().rows.values()
    assert (row["copied"], row["inserts"], row["updates"]) == (5, 2, 2)
    assert "deletes" not in row


def test_a_base_path_is_read_from_no_variable_but_those_for_pipelines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_OF_THE_SERVICE", "/secret")
    monkeypatch.setenv("REPLICATOR_VAR_STATE", "/state")
    now = datetime.now(UTC)
    for path, expected in (
        ("${env(SECRET_OF_THE_SERVICE)}/x", "/base/default/shop"),
        ("${env(REPLICATOR_VAR_STATE)}/x", "/state/x/default/shop"),
        ("/own", "/own/default/shop"),
    ):
        row = Pipeline(
            namespace="default", name="shop", created=now, updated=now, config=json.dumps({"offsetBasePath": path})
        )
        assert directory_of(row, "/base").home == expected
