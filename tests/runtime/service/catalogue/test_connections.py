"""Connections: stored without secrets, and tested check by check."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from replicator_runtime.service.access.roles import Role
from replicator_runtime.service.settings import Auth
from tests.runtime.service.services import running

CONNECTIONS = "/v1/contexts/default/connections"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a database."""
    folder = tmp_path_factory.mktemp("connections")
    with sqlite3.connect(folder / "shop.db") as database:
        database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY NOT NULL)")
    return folder


@pytest.fixture(scope="module")
def client(folder: Path) -> Iterator[TestClient]:
    """A client of a service."""
    with running(folder) as service:
        yield service.client


def sqlite(folder: Path) -> dict[str, Any]:
    """Settings of a source that works."""
    return {"name": "sqlite", "type": "cdcSource", "properties": {"path": str(folder / "shop.db")}}


def postgres(**settings: Any) -> dict[str, Any]:
    """Settings of a source."""
    properties = {"host": "127.0.0.1", "port": 1, "database": "shop", "user": "u"} | settings
    return {"name": "postgres", "type": "cdcSource", "properties": properties}


def test_a_connection_is_put_listed_read_and_deleted(client: TestClient, folder: Path) -> None:
    path = f"{CONNECTIONS}/shop"
    created = client.put(path, json={"plugin": sqlite(folder)}, headers={"If-None-Match": "*"})
    assert created.status_code == HTTPStatus.CREATED
    assert (
        client.put(path, json={"plugin": sqlite(folder)}, headers={"If-None-Match": "*"}).json()["code"] == "RPL-1505"
    )
    assert [one["plugin"] for one in client.get(CONNECTIONS).json()] == [sqlite(folder)]
    found = client.get(path)
    assert found.json()["plugin"] == sqlite(folder)
    assert found.headers["ETag"] == created.headers["ETag"]
    assert client.delete(path, headers={"If-Match": '"other"'}).status_code == HTTPStatus.PRECONDITION_FAILED
    assert client.delete(path).status_code == HTTPStatus.NO_CONTENT
    assert client.get(path).status_code == HTTPStatus.NOT_FOUND


def test_a_connection_is_tested_and_each_finding_has_its_statement(client: TestClient, folder: Path) -> None:
    client.put(f"{CONNECTIONS}/tested", json={"plugin": sqlite(folder)}).raise_for_status()
    checks = client.post(f"{CONNECTIONS}/tested/test").json()
    assert [(check["name"], check["status"], check["fix"]) for check in checks] == [
        ("settings", "ok", ""),
        ("connection", "ok", ""),
        ("journal_mode", "warn", "PRAGMA journal_mode = WAL;"),
        ("drop_column", "ok", ""),
        ("tables", "ok", ""),
    ]
    assert checks[-1]["message"] == "1 table is seen"


@pytest.mark.parametrize("path", ["${env(REPLICATOR_VAR_FILE)}", "../service.db"])
def test_the_services_own_database_is_not_opened(
    client: TestClient, folder: Path, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REPLICATOR_VAR_FILE", str(folder / "service.db"))
    checks = client.post(f"{CONNECTIONS}/test", json=sqlite(folder) | {"properties": {"path": path}}).json()
    assert [(check["status"], check["message"]) for check in checks if check["status"] == "fail"] == [
        ("fail", "path: this is a file of the service itself")
    ]
    assert checks[0]["hint"].startswith("name a file outside of the service's folder")


def test_a_server_that_is_away_fails_the_connection_and_skips_what_follows(client: TestClient) -> None:
    checks = client.post(f"{CONNECTIONS}/test", json=postgres(sslMode="disable")).json()
    assert [(check["name"], check["status"]) for check in checks] == [
        ("settings", "ok"),
        ("connection", "fail"),
        ("assessment", "skipped"),
    ]
    assert checks[1]["code"] == "RPL-3107"
    assert checks[1]["hint"]


def test_settings_that_are_wrong_are_named_one_by_one(client: TestClient) -> None:
    plugin = postgres(password="${secure(no-such-secret)}", colour=1)
    checks = client.post(f"{CONNECTIONS}/test", json=plugin).json()
    assert {(check["name"], check["status"]) for check in checks} == {
        ("references", "fail"),
        ("settings", "fail"),
        ("connection", "skipped"),
        ("assessment", "skipped"),
    }
    assert next(check for check in checks if check["name"] == "settings")["message"] == 'colour: unknown key "colour"'


@pytest.mark.parametrize(
    "secret",
    ["hunter2", "${secure(a)}b", "${ecure(a)}", "$${secure(a)}", 1234],
    ids=["text", "part", "unknown", "escaped", "number"],
)
def test_a_password_that_is_no_reference_is_refused_and_never_repeated(client: TestClient, secret: object) -> None:
    plugin = postgres(password=secret)
    stage = {"name": "s", "plugin": plugin}
    for answer, pointer in (
        (client.put(f"{CONNECTIONS}/secret", json={"plugin": plugin}), "/properties/password"),
        (client.post(f"{CONNECTIONS}/test", json=plugin), "/properties/password"),
        (
            client.put("/v1/contexts/default/drafts/secret", json={"config": {"stages": [stage]}}),
            "/stages/0/plugin/properties/password",
        ),
        (
            client.post("/v1/contexts/default/assessPipeline", json={"stages": [stage]}),
            "/stages/0/plugin/properties/password",
        ),
    ):
        assert answer.status_code == HTTPStatus.UNPROCESSABLE_ENTITY
        assert answer.json()["code"] == "RPL-1504"
        assert [error["pointer"] for error in answer.json()["errors"]] == [pointer]
        assert "hunter2" not in answer.text


def test_settings_that_the_plugin_marks_as_secret_are_secret_whatever_their_name(client: TestClient) -> None:
    """BigQuery's key is one: nothing in its name says so."""
    plugins = client.get("/v1/plugins").json()
    assert {"name": "sqlite", "type": "cdcSource"} in [{k: one[k] for k in ("name", "type")} for one in plugins]
    marked = {
        (one["type"], one["name"], key)
        for one in plugins
        for key, place in client.get(f"/v1/plugins/{one['type']}/{one['name']}").json()["schema"]["properties"].items()
        if place.get("writeOnly")
    }
    assert ("cdcSource", "postgres", "password") in marked
    for kind, name, key in sorted(marked):
        plugin = {"name": name, "type": kind, "properties": {key: "plain"}}
        assert client.put(f"{CONNECTIONS}/x", json={"plugin": plugin}).json()["code"] == "RPL-1504"


def test_a_plugin_has_its_settings_described_and_its_documentation(client: TestClient) -> None:
    found = client.get("/v1/plugins/cdcSource/postgres").json()
    host = found["schema"]["properties"]["host"]
    assert host["type"] == "string"
    assert host["description"]
    assert "host" in found["schema"]["required"]
    assert "ostgre" in found["documentation"]
    assert client.get("/v1/plugins/cdcTarget/postgres").status_code == HTTPStatus.NOT_FOUND


def test_plugins_are_read_with_a_token_of_any_namespace(folder: Path, tmp_path: Path) -> None:
    with running(tmp_path, Auth.TOKENS) as service:
        viewer = service.client_of(Role.VIEWER, namespace="sales")
        assert viewer.get("/v1/plugins").status_code == HTTPStatus.OK
        assert viewer.get("/v1/contexts/sales/connections").status_code == HTTPStatus.OK
        assert (
            viewer.put("/v1/contexts/sales/connections/x", json={"plugin": sqlite(folder)}).json()["code"] == "RPL-1541"
        )
        assert viewer.get(CONNECTIONS).json()["code"] == "RPL-1541"
        assert service.client.get("/v1/plugins").json()["code"] == "RPL-1540"
