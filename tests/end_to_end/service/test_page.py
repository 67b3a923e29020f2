"""From an empty page to Delta tables that follow a PostgreSQL database, in a browser."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder
from deltalake.exceptions import TableNotFoundError
from playwright.sync_api import expect

from tests.runtime.ui.browser import Tab, chromium, tab
from tests.runtime.ui.served import service_at
from tests.services.postgres.server import PostgresDatabase
from tests.services.spark.session import INTERPRETER, settings
from tests.waits import until

PASSWORD = "REPLICATOR_VAR_SHOP"
_SECONDS = 240.0


@pytest.fixture
def opened(tmp_path: Path, postgres_database: PostgresDatabase, monkeypatch: pytest.MonkeyPatch) -> Iterator[Tab]:
    """A tab of a service whose runs find Java, Delta and the password."""
    for name, value in {**INTERPRETER, PASSWORD: postgres_database.password}.items():
        monkeypatch.setenv(name, value)
    with service_at(tmp_path / "service") as address, chromium() as browser, tab(browser, address) as found:
        try:
            yield found
        finally:
            _stop(address)


def _stop(address: str) -> None:
    """Have the service stop its pipeline, and wait for it."""
    pipelines = f"{address}/v1/contexts/default/pipelines"
    for item in httpx.get(pipelines, timeout=60).json():
        httpx.post(f"{pipelines}/{item['name']}/stop", timeout=60)
    until(
        lambda: all(item["state"] in {"stopped", "failed"} for item in httpx.get(pipelines, timeout=60).json()),
        seconds=_SECONDS,
    )


def _rows(table: Path) -> int:
    try:
        found = QueryBuilder().register("t", DeltaTable(table)).execute("SELECT count(*) AS n FROM t")
        return int(pa.table(found.read_all())["n"][0].as_py())
    except TableNotFoundError:
        return -1


def test_postgres_is_replicated_from_an_empty_page(
    opened: Tab, postgres_database: PostgresDatabase, tmp_path: Path
) -> None:
    postgres_database.execute("CREATE TABLE orders (id int PRIMARY KEY, item text, price numeric(10, 2))")
    postgres_database.execute("CREATE TABLE notes (id int PRIMARY KEY, body text)")
    postgres_database.execute("INSERT INTO orders SELECT i, 'item ' || i, i FROM generate_series(1, 50) i")
    page, lake = opened.page, tmp_path / "lake"
    opened.open("/ns/default/create")
    page.get_by_label("Name (required)").fill("shop")
    page.get_by_role("button", name="Next").click()
    page.get_by_role("radio", name="PostgreSQL").check()
    page.get_by_label("Host (required)").fill(postgres_database.host)
    page.get_by_label("Port", exact=True).fill(str(postgres_database.port))
    page.get_by_label("Database (required)").fill(postgres_database.name)
    page.get_by_label("User (required)").fill(postgres_database.user)
    page.get_by_label("Password: where it is stored").select_option("env")
    page.get_by_label("Password", exact=True).fill(PASSWORD)
    page.get_by_text("More settings").click()
    page.get_by_label("TLS mode").select_option(label="disable")
    page.get_by_role("button", name="Test connection").click()
    expect(page.get_by_text("none failed")).to_be_visible()
    page.get_by_role("button", name="Next").click()
    page.get_by_role("checkbox", name="Replicate public.notes").uncheck()
    expect(page.get_by_text("1 table of 2 selected")).to_be_visible()
    page.get_by_role("button", name="Next").click()
    page.get_by_role("radio", name="Delta Lake").check()
    page.get_by_label("Path (required)").fill(str(lake))
    field = page.get_by_label("Pipeline JSON", exact=True).last
    expect(field).to_have_value(re.compile(re.escape(str(lake))))
    spark = {"master": "local[2]", "conf": settings()}
    field.fill(json.dumps({**json.loads(field.input_value()), "spark": spark}))
    page.get_by_role("button", name="Skip to assessment").click()
    expect(page.get_by_text("1 table can be replicated.")).to_be_visible()
    page.get_by_role("button", name="View mapping of public.orders").click()
    expect(page.get_by_role("row", name="price numeric(10,2)")).to_contain_text("decimal(10,2)", ignore_case=True)
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Next").click()
    page.get_by_role("button", name="Deploy pipeline").click()
    page.wait_for_url("**/pipelines/shop*")
    until(lambda: _rows(lake / "public" / "orders") == 50, seconds=_SECONDS)
    postgres_database.execute("INSERT INTO orders VALUES (51, 'later', 1)")
    until(lambda: _rows(lake / "public" / "orders") == 51, seconds=_SECONDS)
    assert not (lake / "public" / "notes").exists()
    opened.check()
