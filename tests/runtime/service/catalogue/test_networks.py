"""A service connects to addresses in allowed networks only, whatever name its users give them."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from tests.runtime.service.services import running
from tests.services.postgres.server import PostgresDatabase

TEST = "/v1/contexts/default/connections/test"
HERE = "127.1"
"""An address of this machine to whoever connects, and a name to whoever reads it."""


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[TestClient]:
    """A service that connects to addresses of other networks than this machine's."""
    with running(tmp_path, allowed_networks=(ip_network("10.0.0.0/8"),)) as service:
        yield service.client


def source(name: str, **properties: Any) -> dict[str, Any]:
    return {"name": name, "type": "cdcSource", "properties": properties}


@pytest.mark.parametrize("name", ["postgres", "mysql", "kafka"])
def test_no_connection_is_made_to_a_name_that_leads_to_another_network(name: str, elsewhere: TestClient) -> None:
    with socket.create_server(("127.0.0.1", 0)) as never:
        port = never.getsockname()[1]
        properties: dict[str, Any] = {"host": HERE, "port": port, "user": "u"}
        if name == "postgres":
            properties["database"] = "shop"
        if name == "kafka":
            properties = {"bootstrapServers": f"{HERE}:{port}", "topics": ["orders"]}
        found = elsewhere.post(TEST, json=source(name, **properties))
        assert found.status_code == 200, found.text
        [failed] = [check for check in found.json() if check["status"] == "fail"]
        assert failed["code"] == ("RPL-3965" if name == "kafka" else "RPL-1902"), failed
        assert "addresses of some networks only are connected to" in failed["message"]
        assert "127.0.0.1" not in found.text
        never.settimeout(0)
        with pytest.raises(BlockingIOError):
            never.accept()


def test_a_host_that_a_macro_has_is_looked_at_and_so_is_one_that_is_written_out(
    elsewhere: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REPLICATOR_VAR_HOST", "localhost")
    settings = {"port": 1, "database": "shop", "user": "u"}
    [check] = [
        check
        for check in elsewhere.post(
            TEST, json=source("postgres", host="${env(REPLICATOR_VAR_HOST)}", **settings)
        ).json()
        if check["status"] == "fail"
    ]
    assert (check["name"], check["code"]) == ("settings", "RPL-1556")
    refused = elsewhere.post(TEST, json=source("postgres", host="localhost", **settings))
    assert (refused.status_code, refused.json()["code"]) == (422, "RPL-1556")
    assert refused.json()["errors"][0]["pointer"] == "/properties/host"


def test_a_database_in_an_allowed_network_is_reached_by_its_name(
    postgres_database: PostgresDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REPLICATOR_SECRET_DEFAULT__DB", postgres_database.password)
    postgres_database.execute("CREATE TABLE orders (id int PRIMARY KEY)")
    own = (ip_network("127.0.0.0/8"), ip_network("::1/128"))
    with running(tmp_path, allowed_networks=own) as service:
        settings = {"port": postgres_database.port, "database": postgres_database.name, "user": postgres_database.user}
        found = service.client.post(
            TEST,
            json=source("postgres", host="localhost", password="${secure(db)}", sslMode="disable", **settings),
        ).json()
    status = {check["name"]: check["status"] for check in found}
    assert (status["connection"], status["tables"]) == ("ok", "ok"), found
