"""The seed's API against a real Postgres: tables with schemas and odd names, and the statement that fixes what is found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.runtime.service.services import running
from tests.services.postgres.server import PostgresDatabase

DRAFT = "/v1/contexts/default/drafts/shop"


def config(database: PostgresDatabase, folder: Path) -> dict[str, Any]:
    """A pipeline whose password is a reference."""
    source = {
        "host": database.host,
        "port": database.port,
        "database": database.name,
        "user": database.user,
        "password": "${secure(seed-password)}",
        "sslMode": "disable",
    }
    return {
        "stages": [
            {"name": "source", "plugin": {"name": "postgres", "type": "cdcSource", "properties": source}},
            {
                "name": "target",
                "plugin": {"name": "delta", "type": "cdcTarget", "properties": {"path": str(folder / "lake")}},
            },
        ]
    }


def test_a_real_postgres_is_listed_and_assessed(
    postgres_database: PostgresDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REPLICATOR_SECRET_DEFAULT__SEED_PASSWORD", postgres_database.password)
    postgres_database.execute('CREATE TABLE "<img onerror=x>" (id int PRIMARY KEY, price numeric(12,2), at point)')
    postgres_database.execute("CREATE SCHEMA audit")
    postgres_database.execute("CREATE TABLE audit.log (line text)")
    with running(tmp_path) as service:
        service.client.put(DRAFT, json={"config": config(postgres_database, tmp_path)}).raise_for_status()
        listed = service.client.post(f"{DRAFT}/listTables").json()["tables"]
        table = {"database": postgres_database.name, "schema": "audit", "table": "log"}
        assessed = service.client.post(f"{DRAFT}/assessTable", json=table).json()
        stored = (tmp_path / "service.db").read_bytes()
    assert {(one["schema"], one["name"], one["numColumns"]) for one in listed} == {
        ("public", "<img onerror=x>", 3),
        ("audit", "log", 1),
    }
    assert [(column["sourceName"], column["support"]) for column in assessed["columns"]] == [("line", "YES")]
    found = {problem["name"]: problem for problem in assessed["featureProblems"]}
    assert found["replica_identity"]["fix"] == 'ALTER TABLE "audit"."log" REPLICA IDENTITY FULL;'
    assert found["replica_identity"]["table"] == "log"
    assert postgres_database.password.encode() not in stored
