"""What a service shows of a replicator is what this machine shows of it, by text and by JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from replicator_runtime.cli.remote.client import Service
from replicator_state import ReplicatorDirectory
from tests.runtime.cli.conftest import Replicator
from tests.runtime.cli.service.served import Served, served

TABLE = {"database": "main", "schema": "", "table": "orders"}


def config(folder: Path) -> dict[str, Any]:
    source = {"name": "sqlite", "type": "cdcSource", "properties": {"path": str(folder / "shop.db")}}
    target = {"name": "delta", "type": "cdcTarget", "properties": {"path": str(folder / "lake")}}
    return {
        "name": "shop",
        "offsetBasePath": str(folder / "kept"),
        "stages": [{"name": "in", "plugin": source}, {"name": "out", "plugin": target}],
        "connections": [{"from": "in", "to": "out"}],
    }


def status() -> dict[str, Any]:
    table = {**TABLE, "state": "FAILING", "rows": 7, "snapshotPercent": None, "lagSeconds": 3.5, "rowsPerSecond": 0.0}
    error = {
        "code": "RPL-4001",
        "message": "it does not fit",
        "hint": "`replicator table retry NAME TABLE`",
        "times": 1,
    }
    return {
        "name": "shop",
        "namespace": "default",
        "generation": 1,
        "runId": "r",
        "phase": "done",
        "updated": "2026-01-01T00:00:00.000+00:00",
        "offset": "12",
        "sequenceNumber": 12,
        "lagSeconds": 3.5,
        "sourceState": "OK",
        "tables": [{**table, "error": error, "maintenance": {}}],
    }


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Served]]:
    """A pipeline that a service has, with the state of a run that has ended."""
    folder = tmp_path_factory.mktemp("service")
    file = folder / "pipeline.json"
    file.write_text(json.dumps(config(folder)))
    directory = ReplicatorDirectory(str(folder / "kept"), "default", "shop")
    directory.states().put_status(status())
    with served(folder, "--auth", "none") as service:
        Service(service.url).post("/v1/contexts/default/pipelines", {"config": config(folder)})
        yield file, service


@pytest.mark.parametrize("form", [[], ["--json"]])
@pytest.mark.parametrize("command", [["status"], ["slo"], ["requests"], ["ddl", "list"], ["logs"]])
def test_a_command_shows_the_same(
    replicator: Replicator, pipeline: tuple[Path, Served], command: list[str], form: list[str]
) -> None:
    file, service = pipeline
    here = replicator(*command, file, *form)
    there = replicator(*command, file, *form, "--server", service.url)
    named = f" --server {service.url}"  # in next steps
    assert (there.exit_code, there.stdout.replace(named, "")) == (here.exit_code, here.stdout), there.stderr
    assert there.exit_code == 0


def test_a_next_step_names_the_service_to_which_it_is_given(
    replicator: Replicator, pipeline: tuple[Path, Served]
) -> None:
    _, service = pipeline
    shown = replicator("status", "shop", "--server", service.url).stdout
    assert f"`replicator table retry shop --server {service.url} main.orders`" in shown


def test_pipelines_are_listed_with_what_they_need(replicator: Replicator, pipeline: tuple[Path, Served]) -> None:
    _, service = pipeline
    shown = replicator("list", "--server", service.url)
    assert shown.exit_code == 0
    assert "shop" in shown.stdout
    assert "1 FAILING" in shown.stdout


def test_a_job_of_the_service_ends_as_the_command_does_here(
    replicator: Replicator, pipeline: tuple[Path, Served]
) -> None:
    file, service = pipeline
    here = json.loads(replicator("rewind", file, "--yes", "--json").stdout)["error"]
    there = json.loads(replicator("rewind", "shop", "--yes", "--json", "--server", service.url).stdout)["error"]
    assert (there["code"], there["class"], there["message"]) == (here["code"], here["class"], here["message"])
