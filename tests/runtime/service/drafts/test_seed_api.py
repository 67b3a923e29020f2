"""A client that has read seed 001 and nothing else: its paths, its bodies, its answers, against a SQLite source."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from tests.runtime.service.services import running

DRAFTS = "/v1/contexts/default/drafts"
SOURCE_ONLY, WHOLE = "seed-source", "seed-whole"


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a database of one table that is replicated whole, and one that is not."""
    folder = tmp_path_factory.mktemp("seed")
    with sqlite3.connect(folder / "shop.db") as database:
        database.executescript(
            "CREATE TABLE orders (id INTEGER PRIMARY KEY NOT NULL, customer VARCHAR(20) NOT NULL, price DECIMAL(10,2));"
            "CREATE TABLE readings (at NOT NULL PRIMARY KEY, value NUMERIC);"
        )
    return folder


@pytest.fixture(scope="module")
def client(shop: Path) -> Iterator[TestClient]:
    """A client of a service with one draft of a source, and one of source and target."""
    with running(shop) as service:
        for name, config in ((SOURCE_ONLY, source_only(shop)), (WHOLE, whole(shop))):
            service.client.put(f"{DRAFTS}/{name}", json={"config": config}).raise_for_status()
        yield service.client


def source_only(shop: Path) -> dict[str, Any]:
    """As the seed writes a draft's config."""
    properties = {"path": str(shop / "shop.db")}
    return {"stages": [{"name": "source", "plugin": {"name": "sqlite", "type": "cdcSource", "properties": properties}}]}


def whole(shop: Path) -> dict[str, Any]:
    """The same with a target."""
    plugin = {"name": "delta", "type": "cdcTarget", "properties": {"path": str(shop / "lake")}}
    return {"stages": [*source_only(shop)["stages"], {"name": "target", "plugin": plugin}]}


def test_a_draft_is_put_listed_read_and_deleted(client: TestClient, shop: Path) -> None:
    path = f"{DRAFTS}/xyz"
    config = source_only(shop)
    assert client.put(path, json={"config": config}).is_success
    listed = {draft["name"]: draft for draft in client.get(DRAFTS).json()}
    assert listed["xyz"]["config"] == config
    assert "T" in listed["xyz"]["created"]
    assert client.get(path).json()["config"] == config
    assert client.put(path, json={"config": whole(shop)}).is_success
    assert client.get(path).json()["config"] == whole(shop)
    assert client.delete(path).is_success
    assert client.get(path).status_code == 404
    assert "xyz" not in {draft["name"] for draft in client.get(DRAFTS).json()}


def test_tables_are_listed_of_a_draft_without_a_target(client: TestClient) -> None:
    answer = client.post(f"{DRAFTS}/{SOURCE_ONLY}/listTables").json()
    tables = [{key: table[key] for key in ("database", "name", "numColumns")} for table in answer["tables"]]
    assert tables == [
        {"database": "main", "name": "orders", "numColumns": 3},
        {"database": "main", "name": "readings", "numColumns": 2},
    ]
    assert [table["table"] for table in answer["tables"]] == ["orders", "readings"]  # CDAP's name for it


def test_a_table_is_described(client: TestClient) -> None:
    answer = client.post(f"{DRAFTS}/{SOURCE_ONLY}/describeTable", json={"database": "main", "table": "orders"}).json()
    assert answer["primaryKey"] == ["id"]
    columns = [{key: column[key] for key in ("name", "type", "nullable")} for column in answer["columns"]]
    assert columns == [
        {"name": "id", "type": "INTEGER", "nullable": False},
        {"name": "customer", "type": "VARCHAR(20)", "nullable": False},
        {"name": "price", "type": "DECIMAL(10,2)", "nullable": True},
    ]


def test_a_pipeline_is_assessed(client: TestClient) -> None:
    answer = client.post(f"{DRAFTS}/{WHOLE}/assessPipeline").json()
    numbers = ("database", "name", "numColumns", "columnsNotSupported", "columnsPartiallySupported")
    assert [{key: table[key] for key in numbers} for table in answer["tables"]] == [
        {
            "database": "main",
            "name": "orders",
            "numColumns": 3,
            "columnsNotSupported": 0,
            "columnsPartiallySupported": 0,
        },
        {
            "database": "main",
            "name": "readings",
            "numColumns": 2,
            "columnsNotSupported": 0,
            "columnsPartiallySupported": 2,
        },
    ]
    assert answer["connectivityProblems"] == []
    (problem,) = answer["featureProblems"]
    assert {key: problem[key] for key in ("name", "suggestion", "impact")} == {
        "name": "journal_mode",
        "suggestion": "switch to the write-ahead log once; the setting stays in the file",
        "impact": "the application's commits wait while a table is copied for its snapshot",
    }
    assert problem["description"]
    assert problem["fix"] == "PRAGMA journal_mode = WAL;"


def test_a_table_is_assessed(client: TestClient) -> None:
    answer = client.post(f"{DRAFTS}/{WHOLE}/assessTable", json={"database": "main", "table": "readings"}).json()
    assert {"columns", "featureProblems", "connectivityProblems"} <= answer.keys()
    (at, _) = answer["columns"]
    assert at == {
        "sourceName": "at",
        "targetName": "at",
        "sourceType": "",
        "targetType": "string",
        "support": "PARTIAL",
        "transforms": [],
        "suggestion": {
            "details": {"message": "numbers arrive as their text"},
            "message": "numbers arrive as their text",
            "transforms": [],
        },
    }


def test_a_table_that_the_source_lacks_is_a_problem_of_connectivity(client: TestClient, shop: Path) -> None:
    """Also of a config that is no draft (CDAP's `assessTable`)."""
    body = {"dBTable": {"database": "main", "table": "nowhere"}, "deltaConfig": whole(shop)}
    answer = client.post("/v1/contexts/default/assessTable", json=body).json()
    assert answer["columns"] == []
    assert "missing_table" in {problem["name"] for problem in answer["connectivityProblems"]}


def test_a_config_is_validated_with_a_pointer_to_each_problem(client: TestClient, shop: Path) -> None:
    config = whole(shop) | {"batch": {"maxRows": 0}, "colour.s": 1}
    config["stages"][0]["plugin"]["properties"]["pollIntervalSeconds"] = 0
    answer = client.post("/v1/contexts/default/validate", json=config).json()
    assert answer["valid"] is False
    assert {error["pointer"] for error in answer["errors"]} == {
        "/batch/maxRows",
        "/colour.s",
        "/stages/0/plugin/properties/pollIntervalSeconds",
    }
