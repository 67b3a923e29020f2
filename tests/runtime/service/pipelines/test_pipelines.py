"""Pipelines over HTTP: created from a draft or a config, edited, started, stopped, deleted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from replicator_runtime.service.application import create_application
from replicator_runtime.service.pipelines.files import pipeline_file
from tests.runtime.service.services import ADDRESS, settings_in
from tests.runtime.service.supervision.supervised import FAKE, Pipelines
from tests.waits import until

PATH = "/v1/contexts/default/pipelines"


def config(folder: Path, **more: Any) -> dict[str, Any]:
    """A pipeline that is valid, from a SQLite database into Delta."""
    stages = [
        {
            "name": "from",
            "plugin": {"name": "sqlite", "type": "cdcSource", "properties": {"path": f"{folder}/shop.db"}},
        },
        {"name": "to", "plugin": {"name": "delta", "type": "cdcTarget", "properties": {"path": f"{folder}/lake"}}},
    ]
    return {"stages": stages, "connections": [{"from": "from", "to": "to"}], **more}


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    """A service whose processes are of the fake command line."""
    application = create_application(replace(settings_in(tmp_path), replicator=FAKE))
    with TestClient(application, base_url=ADDRESS, raise_server_exceptions=False) as client:
        yield client
        context = application.state.context
        Pipelines(tmp_path, context.settings, context.database).end_all()


def test_a_pipeline_is_created_started_stopped_and_deleted(client: TestClient, tmp_path: Path) -> None:
    body = {"name": "shop", "config": config(tmp_path), "start": True}
    created = client.post(PATH, json=body)
    assert created.status_code == 201, created.text
    assert created.headers["Location"] == f"{PATH}/shop"
    assert created.headers["ETag"].startswith('"1-')
    assert created.json()["config"]["offsetBasePath"] == str(tmp_path / "state")
    assert client.post(PATH, json=body).json()["code"] == "RPL-1521"
    until(lambda: item(client)["state"] == "starting", "it runs")
    assert client.post(f"{PATH}/shop/stop").json()["wanted"] == "stopped"
    until(lambda: item(client)["state"] == "stopped", "it is stopped")
    assert item(client)["exitCode"] == 143
    gone = client.delete(f"{PATH}/shop", params={"keepSource": True})
    assert (gone.status_code, gone.json()["wanted"]) == (202, "deleting")
    until(lambda: client.get(f"{PATH}/shop").status_code == 404, "it is gone")
    assert client.get(PATH).json() == []
    log = (tmp_path / "state" / "shop.log").read_text()
    assert "delete" in log
    assert "--keep-source" in log
    assert not list((tmp_path / "work" / "instances").iterdir())
    assert not list((tmp_path / "work" / "pipelines").rglob("*.json"))


def test_an_edit_needs_the_version_that_was_read_and_runs_after_a_restart(client: TestClient, tmp_path: Path) -> None:
    client.post(PATH, json={"config": config(tmp_path, name="shop")})
    edited = {"config": config(tmp_path, description="slow 0.1")}
    refused = client.put(f"{PATH}/shop", json=edited, headers={"If-Match": '"7"'})
    assert (refused.status_code, refused.json()["code"]) == (412, "RPL-1527")
    client.post(f"{PATH}/shop/start")
    until(lambda: item(client)["runningVersion"] == 1, "it runs")
    version = client.get(f"{PATH}/shop").headers["ETag"]
    answered = client.put(f"{PATH}/shop", json=edited, headers={"If-Match": version})
    assert answered.status_code == 200
    assert answered.headers["ETag"] == version.replace('"1-', '"2-')
    assert (item(client)["configVersion"], item(client)["runningVersion"]) == (2, 1)
    assert client.post(f"{PATH}/shop/restart").status_code == 202
    until(lambda: item(client)["runningVersion"] == 2, "the next one has the edit")
    file = pipeline_file(client.app.state.context, "default", "shop")  # type: ignore[attr-defined]
    assert "slow 0.1" in file.read_text()
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_config_that_is_not_valid_or_has_a_secret_in_it_is_refused(client: TestClient, tmp_path: Path) -> None:
    wrong = client.post(PATH, json={"name": "shop", "config": config(tmp_path, bach={})})
    assert (wrong.status_code, wrong.json()["errors"][0]["pointer"]) == (422, "/bach"), wrong.text
    both = client.post(PATH, json={"name": "shop", "config": config(tmp_path), "draft": "shop"})
    assert (both.status_code, both.json()["code"]) == (422, "RPL-1500")
    secret = config(tmp_path)
    secret["stages"][0]["plugin"]["properties"]["password"] = "hunter2"
    answered = client.post(PATH, json={"name": "shop", "config": secret})
    assert (answered.status_code, answered.json()["code"]) == (422, "RPL-1504")
    assert "hunter2" not in answered.text
    assert client.get(PATH).json() == []


def test_a_draft_becomes_a_pipeline_and_one_that_has_failed_says_why_and_starts_again(
    client: TestClient, tmp_path: Path
) -> None:
    client.put("/v1/contexts/default/drafts/shop", json={"config": config(tmp_path, description="exit 7")})
    assert client.post(PATH, json={"draft": "shop", "start": True}).json()["name"] == "shop"
    until(lambda: item(client)["state"] == "failed", "it has failed")
    shown = item(client)
    assert (shown["exitCode"], shown["lastError"]["hint"]) == (7, "do what helps")
    assert shown["needsYou"][0]["reason"] == "failed"
    first = shown["started"]
    assert client.post(f"{PATH}/shop/start").status_code == 202
    until(lambda: item(client)["started"] != first and item(client)["state"] == "failed", "it was started again")
    assert client.post(f"{PATH}/other/start").json()["code"] == "RPL-1520"


def test_a_run_that_was_killed_is_shown_with_its_next_start(client: TestClient, tmp_path: Path) -> None:
    client.post(PATH, json={"name": "shop", "config": config(tmp_path, description="exit 4"), "start": True})
    until(lambda: item(client)["state"] == "backoff", "it waits")
    assert item(client)["nextStart"] > item(client)["ended"]
    assert item(client)["lastError"]["code"] == "RPL-4000"


def item(client: TestClient) -> dict[str, Any]:
    """The only pipeline, as the list shows it."""
    found: list[dict[str, Any]] = client.get(PATH).json()
    return found[0]
