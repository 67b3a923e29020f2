"""Which commands a service can be asked to do, and when it is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import typer.main

from replicator_runtime.cli.app import app
from replicator_runtime.cli.remote.forms import REMOTE
from tests.runtime.cli.conftest import Replicator
from tests.runtime.cli.service.scripted import Answer, Scripted

HERE_ONLY = {
    "assess",
    "demo",
    "export alerts",
    "export grafana",
    "notifications test",
    "plugins",
    "run",
    "serve",
    "tables",
    "token create",
    "token list",
    "token revoke",
    "validate",
    "warm-up",
}
PAUSE = "POST /v1/contexts/default/pipelines/shop/pause"
ASKED = Answer({"requestId": "R"}, 202)


def commands(group: Any, words: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, command in group.commands.items():
        inner = f"{words} {name}".strip()
        found |= commands(command, inner) if hasattr(command, "commands") else {inner: command}
    return found


def test_every_command_has_a_remote_form_or_refuses_a_server() -> None:
    known = commands(typer.main.get_command(app))
    assert set(REMOTE) | HERE_ONLY == set(known)
    assert not set(REMOTE) & HERE_ONLY
    for name, command in known.items():
        option = next(one for one in command.params if one.name == "server")
        assert option.hidden == (name in HERE_ONLY), name


@pytest.mark.parametrize("command", [["run", "shop.json"], ["plugins"], ["token", "list"]])
def test_a_command_that_works_here_only_says_so(replicator: Replicator, command: list[str]) -> None:
    done = replicator(*command, "--server", "http://127.0.0.1:1", "--debug")
    assert done.exit_code == 3
    assert "RPL-1590" in done.stderr


def test_a_command_that_works_here_only_does_so_where_the_environment_names_a_service(
    replicator: Replicator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REPLICATOR_SERVER", "http://127.0.0.1:1")
    assert replicator("plugins").exit_code == 0


def test_the_environment_names_the_service(
    replicator: Replicator, service: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REPLICATOR_SERVER", service.url)
    service.answer(PAUSE, ASKED)
    assert "asked for: R" in replicator("pause", "shop", "--no-wait").stdout


def test_a_place_of_the_state_is_here_whatever_the_environment_names(
    replicator: Replicator, service: Scripted, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("REPLICATOR_SERVER", service.url)
    assert "RPL-1201" in replicator("pause", "shop", "--base", tmp_path).stderr
    assert service.sent == []


def test_a_place_of_the_state_cannot_be_given_to_a_service(
    replicator: Replicator, service: Scripted, tmp_path: Path
) -> None:
    done = replicator("pause", "shop", "--base", tmp_path, "--server", service.url)
    assert done.exit_code == 2
    assert service.sent == []


def test_a_pipeline_is_named_by_its_file_too_of_which_nothing_else_is_sent(
    replicator: Replicator, service: Scripted, tmp_path: Path
) -> None:
    file = tmp_path / "pipeline.json"
    file.write_text(json.dumps({"name": "shop", "namespace": "team", "stages": ["${secure(missing)}"]}))
    service.answer("POST /v1/contexts/team/pipelines/shop/pause", ASKED)
    assert replicator("pause", file, "--no-wait", "--server", service.url).exit_code == 0
    assert service.sent[0].body == {}


@pytest.mark.parametrize("name", ["../x", "a/b", "", "a?b", "-x%"])
def test_a_name_that_is_none_is_not_sent(replicator: Replicator, service: Scripted, name: str) -> None:
    done = replicator("start", "--server", service.url, "--", name)
    assert done.exit_code == 3
    assert "RPL-7101" in done.stderr
    assert service.sent == []


def test_a_command_that_takes_a_file_here_takes_a_name_and_its_namespace_there(
    replicator: Replicator, service: Scripted
) -> None:
    job = {
        "id": "J",
        "state": "done",
        "exitCode": 0,
        "result": {"data": {}, "warnings": [], "error": None, "lines": []},
    }
    service.answer("POST /v1/contexts/team/pipelines/shop/reset", Answer(job, 202))
    done = replicator("reset", "shop", "--namespace", "team", "--yes", "--server", service.url)
    assert done.exit_code == 0, done.output


def test_the_namespace_of_a_file_is_not_given_beside_it(replicator: Replicator, sqlite_pipeline: Path) -> None:
    assert replicator("reset", sqlite_pipeline, "--namespace", "team", "--yes").exit_code == 2


def test_only_a_service_starts_and_stops(replicator: Replicator) -> None:
    done = replicator("start", "shop")
    assert done.exit_code == 3
    assert "RPL-1589" in done.stderr
