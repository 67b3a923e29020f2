"""State, application and offsets, as seed 001 and CDAP read them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from replicator_runtime.service.access.roles import Role
from replicator_runtime.service.settings import Auth
from replicator_runtime.service.store.tables import Pipeline
from replicator_state import ReplicatorDirectory, SavedOffset
from tests.runtime.service.services import Service, running

CONTEXT = "/v1/contexts/default"
ERROR = {"code": "RPL-3107", "message": "the server is away", "hint": "start it"}
STATUS = {
    "sourceState": "FAILING",
    "sourceError": ERROR,
    "tables": [
        {"database": "shop", "schema": "public", "table": "a", "state": "PENDING", "error": None},
        {"database": "shop", "schema": "public", "table": "b", "state": "REPLICATING", "error": None},
        {"database": "shop", "schema": "public", "table": "c", "state": "FAILING", "error": ERROR},
        {"database": "shop", "schema": "public", "table": "d", "state": "PAUSED", "error": None},
    ],
}
CONFIG = {
    "name": "shop",
    "description": "All of it",
    "stages": [{"name": "s", "plugin": {"name": "postgres", "type": "cdcSource", "properties": {}}}],
}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service with a pipeline that has run, and one that has not."""
    with running(tmp_path_factory.mktemp("states")) as service:
        for name in ("shop", "new"):
            add_pipeline(service, name)
        directory = ReplicatorDirectory(service.context.settings.base_path, "default", "shop", generation=2)
        lease = directory.acquire("01J")
        directory.states(lease).put_status(STATUS)
        directory.states(lease).put("history", b"\x00\x01")
        directory.offsets(lease).save(SavedOffset(17, {"lsn": b"0/16", "raw": b"\xff"}, datetime.now(UTC)))
        lease.release()
        yield service


def add_pipeline(service: Service, name: str) -> None:
    """Store a pipeline without starting it."""
    now = datetime.now(UTC)
    with service.context.database.session() as session:
        session.add(Pipeline(namespace="default", name=name, created=now, updated=now, config=json.dumps(CONFIG)))


@pytest.fixture
def client(service: Service) -> TestClient:
    """Its client."""
    return service.client


def test_the_state_has_the_seeds_shape(client: TestClient) -> None:
    found = client.post(f"{CONTEXT}/getState", json={"name": "shop"}).json()
    assert found["sourceState"] == "FAILING"
    assert found["sourceError"] == {
        "message": "the server is away",
        "stackTrace": [],
        "code": "RPL-3107",
        "hint": "start it",
    }
    tables = [{key: table[key] for key in ("database", "table", "state", "error")} for table in found["tables"]]
    assert tables == [
        {"database": "shop", "table": "a", "state": "SNAPSHOTTING", "error": None},
        {"database": "shop", "table": "b", "state": "REPLICATING", "error": None},
        {"database": "shop", "table": "c", "state": "FAILING", "error": found["sourceError"]},
        {"database": "shop", "table": "d", "state": "REPLICATING", "error": None},
    ]
    assert [table["tableState"] for table in found["tables"]] == ["PENDING", "REPLICATING", "FAILING", "PAUSED"]


def test_a_replicator_that_never_ran_is_ok_and_has_no_tables(client: TestClient) -> None:
    for name in ("new", "unknown"):
        found = client.post(f"{CONTEXT}/getState", json={"name": name})
        assert found.json() == {"sourceState": "OK", "sourceError": None, "tables": []}


def test_no_request_has_the_service_read_another_place(service: Service, client: TestClient) -> None:
    base = service.context.settings.base_path
    assert client.post(f"{CONTEXT}/getState", json={"name": "shop", "offsetBasePath": base + "/"}).is_success
    for path in ("/etc", f"{base}/..", "s3://elsewhere", "file:///etc"):
        answer = client.post(f"{CONTEXT}/getState", json={"name": "shop", "offsetBasePath": path})
        assert answer.json()["code"] == "RPL-1513"
    assert client.post(f"{CONTEXT}/getState", json={"name": "../shop"}).status_code == HTTPStatus.UNPROCESSABLE_ENTITY


def test_an_application_has_cdaps_specification(client: TestClient) -> None:
    found = client.get("/v3/apps/shop").json()
    assert (found["name"], found["version"], found["appVersion"], found["namespace"]) == ("shop", "1", "1", "default")
    assert found["config"] == CONFIG
    assert json.loads(found["configuration"]) == CONFIG
    assert [(program["type"], program["name"]) for program in found["programs"]] == [("Worker", "DeltaWorker")]
    assert found["plugins"] == [{"id": "s", "name": "postgres", "type": "cdcSource"}]
    assert client.get("/v3/namespaces/default/apps/shop").json() == found
    assert client.get("/v3/apps/unknown").status_code == HTTPStatus.NOT_FOUND
    assert client.get("/v3/namespaces/other/apps/shop").status_code == HTTPStatus.NOT_FOUND


def test_offsets_and_states_of_instances_are_read(client: TestClient) -> None:
    app = f"{CONTEXT}/apps/shop"
    assert client.get(f"{app}/maxgeneration").text == "2"
    instance = f"{app}/generations/2/instances/0"
    assert client.get(f"{instance}/offset").json() == {
        "offset": {"state": {"lsn": "0/16", "raw": "/w=="}},
        "sequenceNumber": 17,
    }
    kept = client.get(f"{instance}/states/history")
    assert (kept.content, kept.headers["Content-Type"]) == (b"\x00\x01", "application/octet-stream")
    for missing in (
        f"{instance}/states/other",
        f"{app}/generations/1/instances/0/offset",
        f"{CONTEXT}/apps/new/maxgeneration",
        f"{CONTEXT}/apps/unknown/maxgeneration",
    ):
        assert client.get(missing).status_code == HTTPStatus.NOT_FOUND
    for wrong in (
        f"{app}/generations/2/instances/1/offset",
        f"{app}/generations/0/instances/0/offset",
        f"{instance}/states/..%2Fx",
    ):
        assert client.get(wrong).status_code in {HTTPStatus.UNPROCESSABLE_ENTITY, HTTPStatus.NOT_FOUND}


def test_a_token_of_another_namespace_reads_none_of_it(tmp_path: Path) -> None:
    with running(tmp_path, Auth.TOKENS) as service:
        add_pipeline(service, "shop")
        own = service.client_of(Role.VIEWER, namespace="default")
        other = service.client_of(Role.VIEWER, namespace="other")
        assert own.get("/v3/apps/shop").status_code == HTTPStatus.OK
        for path in ("/v3/apps/shop", "/v3/namespaces/default/apps/shop", f"{CONTEXT}/apps/shop/maxgeneration"):
            assert other.get(path).json()["code"] == "RPL-1541"
