"""Rows, size and time of tables in the wizard, against a real PostgreSQL."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, expect

from tests.runtime.ui.browser import Tab, tab
from tests.runtime.ui.served import service_at
from tests.runtime.ui.test_accessibility import RULES, axe, violations
from tests.services.postgres.server import PostgresDatabase

ATTACK = "<img src=x onerror=alert(1)>"
RESULTS = Path(__file__).parents[4] / "bench" / "RESULTS.md"
ESTIMATE = Path(__file__).parents[4] / "runtime/replicator_runtime/ui/static/pages/create/estimate.js"


@pytest.fixture
def shop(postgres_database: PostgresDatabase) -> PostgresDatabase:
    """Tables with rows; one has no statistics."""
    postgres_database.execute("CREATE TABLE orders (id int PRIMARY KEY, note text, inner_note text)")
    postgres_database.execute(f"INSERT INTO orders SELECT i, '{ATTACK}', NULL FROM generate_series(1, 2000) i")
    postgres_database.execute("ANALYZE orders")
    postgres_database.execute("CREATE TABLE later (id int PRIMARY KEY)")
    return postgres_database


@pytest.fixture
def opened(browser: Browser, shop: PostgresDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Tab]:
    """A tab of a service that may show rows, with the draft `shop`."""
    monkeypatch.setenv("REPLICATOR_VAR_SHOP", shop.password)
    source: dict[str, Any] = {
        "host": shop.host,
        "port": shop.port,
        "database": shop.name,
        "user": shop.user,
        "password": "${env(REPLICATOR_VAR_SHOP)}",
        "sslMode": "disable",
    }
    stage = {"name": "source", "plugin": {"name": "postgres", "type": "cdcSource", "properties": source}}
    with service_at(tmp_path / "service", data_samples=True) as address, tab(browser, address) as found:
        body = {"config": {"stages": [stage]}}
        httpx.put(f"{address}/v1/contexts/default/drafts/shop", json=body, timeout=300).raise_for_status()
        yield found
        found.check()


def test_rows_are_shown_when_they_are_asked_for_and_the_first_copy_is_estimated(opened: Tab) -> None:
    page = opened.page
    opened.open("/ns/default/create/shop/tables")
    estimate = page.locator(".first-copy summary")
    expect(estimate).to_contain_text("at least about 2,000 rows")
    expect(estimate).to_contain_text("likely about a minute")
    estimate.press("Enter")
    expect(page.get_by_text("1 table has none and is not counted")).to_be_visible()
    page.get_by_role("button", name="All 3 columns of public.orders").press("Enter")
    dialog = page.get_by_role("dialog")
    show = dialog.get_by_role("button", name="Show 10 rows")
    expect(show).to_be_visible()
    assert not any("sampleTable" in one for one in opened.requests)
    expect(dialog.get_by_text(ATTACK)).to_have_count(0)
    show.press("Enter")
    expect(dialog.get_by_role("region", name="Rows", exact=True).get_by_role("row")).to_have_count(11)
    expect(dialog.get_by_text(ATTACK).first).to_be_visible()
    expect(dialog.get_by_text("NULL").first).to_be_visible()
    assert page.locator("img").count() == 0
    columns = dialog.locator(".scroll-x").first.bounding_box()
    assert columns is not None
    assert columns["height"] > 100  # the rows do not take the place of the columns
    page.evaluate(axe())
    assert violations(page, {"runOnly": RULES}) == []
    page.set_viewport_size({"width": 360, "height": 700})
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    page.keyboard.press("Escape")
    expect(page.get_by_text(ATTACK)).to_have_count(0)
    assert [one for one in opened.requests if "sample" in one] == ["POST /v1/contexts/default/drafts/shop/sampleTable"]
    assert ATTACK not in page.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}, location.href])")


def test_rates_of_the_estimate_are_those_that_were_measured() -> None:
    text = ESTIMATE.read_text("utf-8")
    rows, size = (
        int(re.findall(rf"{name} = ([\d_]+)", text)[0].replace("_", "")) for name in ("ROWS_A_SECOND", "BYTES_A_SECOND")
    )
    measured = re.findall(
        r"^\| snapshot \| ours \| rows/s, marginal \| ([\d,]+) ", RESULTS.read_text("utf-8"), re.MULTILINE
    )
    assert rows == pytest.approx(int(measured[0].replace(",", "")), rel=0.5)
    assert size == pytest.approx(rows * 245, rel=0.1)
