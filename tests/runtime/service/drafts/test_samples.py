"""Rows of a source are shown to an admin who asks, where the service was started for it, and are kept nowhere."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from replicator_runtime.service.access.roles import Role
from replicator_runtime.service.settings import Auth
from tests.runtime.service.drafts.test_postgres_source import config
from tests.runtime.service.services import Service, running
from tests.services.postgres.server import PostgresDatabase

DRAFT = "/v1/contexts/default/drafts/shop"
SECRET = "value-of-a-row"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A database with two tables."""
    path = tmp_path / "shop.db"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, note TEXT)")
        database.executemany("INSERT INTO orders VALUES (?, ?)", [(n, SECRET) for n in range(100)])
    database.close()
    return path


def written(source: Path, **more: Any) -> dict[str, Any]:
    """A draft's body with this source."""
    plugin = {"name": "sqlite", "type": "cdcSource", "properties": {"path": str(source)}}
    return {"config": {"stages": [{"name": "source", "plugin": plugin}], **more}}


def allow(service: Service) -> None:
    """As `replicator serve --data-samples` does."""
    service.context.settings = replace(service.context.settings, data_samples=True)


@pytest.fixture
def guarded(tmp_path: Path, source: Path) -> Iterator[Service]:
    """A service with tokens that may show rows."""
    with running(tmp_path, Auth.TOKENS) as service:
        allow(service)
        service.client_of(Role.OPERATOR).put(DRAFT, json=written(source)).raise_for_status()
        yield service


def test_rows_are_shown_to_an_admin_alone(guarded: Service) -> None:
    answer = guarded.client_of(Role.ADMIN).post(f"{DRAFT}/sampleTable", json={"table": "orders", "rows": 3})
    assert answer.json()["columns"] == ["id", "note"]
    assert [row[1] for row in answer.json()["rows"]] == [SECRET] * 3
    assert answer.headers["cache-control"] == "no-store"
    for role in (Role.VIEWER, Role.OPERATOR):
        refused = guarded.client_of(role).post(f"{DRAFT}/sampleTable", json={"table": "orders"})
        assert (refused.status_code, refused.json()["code"]) == (403, "RPL-1541")


def test_rows_are_in_no_file_of_the_service(
    guarded: Service, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    admin = guarded.client_of(Role.ADMIN)
    key = {"Idempotency-Key": "1"}
    refused = admin.post(f"{DRAFT}/sampleTable", json={"table": "orders"}, headers=key)
    assert (refused.status_code, refused.json()["code"]) == (400, "RPL-1500")
    assert SECRET in admin.post(f"{DRAFT}/sampleTable", json={"table": "orders"}).text
    entries = admin.get("/v1/audit").json()
    assert any(entry["operation"] == "sampleDraftTable" for entry in entries)
    kept = {path for path in tmp_path.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()}
    assert {path.name for path in kept} <= {"shop.db"}
    assert SECRET not in "".join(capfd.readouterr())


def test_a_service_that_was_not_started_for_it_shows_no_rows(service: Service, source: Path) -> None:
    service.client.put(DRAFT, json=written(source)).raise_for_status()
    refused = service.client.post(f"{DRAFT}/sampleTable", json={"table": "orders"})
    assert (refused.status_code, refused.json()["code"]) == (409, "RPL-1515")
    assert "--data-samples" in refused.json()["hint"]


def test_no_more_rows_than_the_bound_are_asked_for(guarded: Service) -> None:
    refused = guarded.client_of(Role.ADMIN).post(f"{DRAFT}/sampleTable", json={"table": "orders", "rows": 51})
    assert refused.status_code == 422
    assert refused.json()["errors"][0]["pointer"] == "/body/rows"


def test_a_name_that_is_a_pattern_is_that_of_one_table(guarded: Service, source: Path) -> None:
    with sqlite3.connect(source) as database:
        database.execute('CREATE TABLE "order?" (id INTEGER PRIMARY KEY)')
        database.execute("INSERT INTO orders VALUES (1000, x'ff')")
        database.execute("DELETE FROM orders WHERE id < 1000")
    database.close()
    admin = guarded.client_of(Role.ADMIN)
    assert admin.post(f"{DRAFT}/sampleTable", json={"table": "orders"}).status_code == 409, "a value is refused"
    found = admin.post(f"{DRAFT}/sampleTable", json={"table": "order?"})
    assert (found.status_code, found.json()) == (200, {"columns": ["id"], "rows": [], "cut": []})
    missing = admin.post(f"{DRAFT}/sampleTable", json={"table": "*"})
    assert (missing.status_code, missing.json()["code"]) == (404, "RPL-1510")


def test_selected_columns_and_rows_of_a_real_postgres_are_shown(
    postgres_database: PostgresDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REPLICATOR_SECRET_DEFAULT__SEED_PASSWORD", postgres_database.password)
    postgres_database.execute("CREATE SCHEMA audit")
    for schema in ("public", "audit"):
        postgres_database.execute(f"CREATE TABLE {schema}.orders (id int PRIMARY KEY, note text, secret text)")
        postgres_database.execute(
            f"INSERT INTO {schema}.orders SELECT i, '{schema}', 'x' FROM generate_series(1, 20) i"
        )
    table = {"schema": "audit", "table": "orders", "columns": [{"name": "note"}], "where": "id > 18"}
    with running(tmp_path) as service:
        allow(service)
        document = {**config(postgres_database, tmp_path), "tables": [table]}
        service.client.put(DRAFT, json={"config": document}).raise_for_status()
        found = service.client.post(f"{DRAFT}/sampleTable", json={"schema": "audit", "table": "orders"}).json()
        missing = service.client.post(f"{DRAFT}/sampleTable", json={"schema": "audit", "table": "none"})
    assert found == {"columns": ["id", "note"], "rows": [["19", "audit"], ["20", "audit"]], "cut": []}
    assert (missing.status_code, missing.json()["code"]) == (404, "RPL-1510")
