"""Verify, heal, rewind, resync and drop through the service's REST API, from PostgreSQL into Delta, end as they do on the command line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from tests.end_to_end.comparison import copies_differ
from tests.end_to_end.replicator import COMMAND, SPARK, postgres_source
from tests.end_to_end.service.test_adopted_run import PATH, end_all, item, service
from tests.services.postgres.server import PostgresDatabase
from tests.services.spark.session import INTERPRETER
from tests.waits import until

SHOP = f"{PATH}/shop"
SECRET = "REPLICATOR_SECRET_DEFAULT__SHOP"
_SECONDS = 400.0
ORDERS, NOTES = ("public", "orders"), ("public", "notes")


@pytest.fixture
def shop(postgres_database: PostgresDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    monkeypatch.setenv(SECRET, postgres_database.password)
    for table in ("orders", "notes"):
        postgres_database.execute(f"CREATE TABLE {table} (id int PRIMARY KEY, name text)")
        postgres_database.execute(f"INSERT INTO {table} SELECT i, 'row ' || i FROM generate_series(1, 50) i")
    try:
        with service(tmp_path, signal.SIGTERM) as client:
            yield Shop(client, postgres_database, tmp_path)
            client.post(f"{SHOP}/stop")
            until(lambda: item(client)["state"] in {"stopped", "failed"}, seconds=_SECONDS)
    finally:
        end_all(tmp_path)


class Shop:
    """A database, and a service with a pipeline of it."""

    def __init__(self, client: httpx.Client, database: PostgresDatabase, folder: Path) -> None:
        self.client, self.database, self.folder, self.lake = client, database, folder, folder / "lake"

    def config(self, *tables: str) -> dict[str, Any]:
        name, properties = postgres_source(self.database)
        source = {**properties, "password": "${secure(shop)}"}
        return {
            "stages": [
                {"name": "in", "plugin": {"name": name, "type": "cdcSource", "properties": source}},
                {
                    "name": "out",
                    "plugin": {"name": "delta", "type": "cdcTarget", "properties": {"path": str(self.lake)}},
                },
            ],
            "tables": [{"schema": "public", "table": table} for table in tables],
            "edits": "apply",
            "spark": {**SPARK},
        }

    def run(self) -> None:
        """Have it run until the copies are whole."""
        self.client.post(f"{SHOP}/start").raise_for_status()
        self.await_copies(ORDERS)
        until(lambda: item(self.client)["state"] == "running", "it runs", seconds=_SECONDS)

    def await_copies(self, *tables: tuple[str, str]) -> None:
        def equal() -> bool:
            if any(not DeltaTable.is_deltatable(str(self.lake / schema / table)) for schema, table in tables):
                return False
            with self.database.connect() as connection:
                return not copies_differ(connection, self.lake, tables)

        until(equal, "the copies are whole", seconds=_SECONDS)

    def stop(self) -> None:
        self.client.post(f"{SHOP}/stop").raise_for_status()
        until(lambda: item(self.client)["state"] == "stopped", "it is stopped", seconds=_SECONDS)

    def job(self, action: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """The job that an action makes, once it has ended."""
        answer = self.client.post(f"{SHOP}/{action}", json=body)
        assert answer.status_code == 202, answer.text
        place = f"/v1/contexts/default/jobs/{answer.json()['id']}"
        until(lambda: self.client.get(place).json()["state"] not in {"waiting", "running"}, "it ends", seconds=_SECONDS)
        found: dict[str, Any] = self.client.get(place).json()
        return found

    def command(self, *words: str) -> tuple[int, dict[str, Any]]:
        """The exit code and the envelope of the same on the command line."""
        file = self.folder / "here.json"
        found = self.client.get(SHOP).json()["config"]
        file.write_text(json.dumps(found).replace("${secure(shop)}", f"${{env({SECRET})}}"))
        done = subprocess.run(
            [*COMMAND, words[0], str(file), *words[1:], "--json"],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, **INTERPRETER},
        )
        envelope: dict[str, Any] = json.loads(done.stdout)
        return done.returncode, envelope

    def request(self, action: str, *tables: str) -> dict[str, Any]:
        """The outcome of a request."""
        answer = self.client.post(f"{SHOP}/tables/{action}", json={"tables": list(tables)})
        assert answer.status_code == 202, answer.text
        place = f"{SHOP}/requests/{answer.json()['requestId']}"
        until(lambda: self.client.get(place).json()["state"] != "waiting", f"{action} has ended", seconds=_SECONDS)
        found: dict[str, Any] = self.client.get(place).json()
        return found


@pytest.mark.timeout(2400)
def test_each_operation_ends_as_on_the_command_line(shop: Shop, spark: SparkSession) -> None:
    created = shop.client.post(PATH, json={"name": "shop", "config": shop.config("orders", "notes")})
    assert created.status_code == 201, created.text
    shop.run()
    shop.await_copies(ORDERS, NOTES)

    spark.sql(f"DELETE FROM delta.`{shop.lake / 'public' / 'orders'}` WHERE id = 7")
    by_rest = shop.job("verify", {})
    assert by_rest["state"] == "failed", by_rest
    exit_code, here = shop.command("verify")
    assert (by_rest["exitCode"], _found(by_rest["result"])) == (exit_code, _found(here))
    repaired = shop.job("verify", {"repair": True})
    assert (repaired["state"], repaired["exitCode"]) == ("done", 0), repaired
    shop.await_copies(ORDERS, NOTES)
    shop.stop()

    exit_code, here = shop.command("rewind", f"--offset={_first_offset(shop)}", "--yes")
    by_rest = shop.job("offsets/rewind", {"offset": _first_offset(shop)})
    assert (by_rest["exitCode"], _of_error(by_rest["result"])) == (exit_code, _of_error(here))
    assert here["error"]["code"] == "RPL-1275", "PostgreSQL has given the log up"

    shop.database.execute(
        "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = current_database()"
    )
    shop.database.execute("UPDATE orders SET name = 'in the gap' WHERE id < 5")
    shop.database.execute("DELETE FROM notes WHERE id > 40")
    healed = shop.job("heal")
    assert (healed["state"], healed["exitCode"]) == ("done", 0), healed
    shop.await_copies(ORDERS, NOTES)

    tag = shop.client.get(SHOP).headers["ETag"]
    shop.client.put(SHOP, json={"config": shop.config("orders")}, headers={"If-Match": tag}).raise_for_status()
    shop.run()
    shop.database.execute("INSERT INTO orders VALUES (51, 'later')")
    copied_again = shop.request("resync", "public.orders")
    assert copied_again["state"] == "done", copied_again
    selected = shop.request("drop", "public.orders")
    assert (selected["state"], bool(selected["code"])) == ("refused", True), selected
    dropped = shop.request("drop", "public.notes")
    assert dropped["state"] == "done", dropped
    until(lambda: not (shop.lake / "public" / "notes").exists(), "its copy is gone", seconds=_SECONDS)
    shop.await_copies(ORDERS)


def _first_offset(shop: Shop) -> str:
    return str(shop.client.get(f"{SHOP}/offsets").json()[-1]["name"])


def _found(envelope: dict[str, Any]) -> Any:
    """What a comparison found, of each table; each compares at a position of its own."""
    names = ("schema", "table", "result", "rowsSource", "rowsTarget", "missing", "surplus", "different")
    return (
        envelope["schema"],
        [[one[name] for name in names] for one in envelope["data"]["tables"]],
        _of_error(envelope),
    )


def _of_error(envelope: dict[str, Any]) -> tuple[Any, ...]:
    return tuple((envelope["error"] or {}).get(key) for key in ("code", "class", "message"))
