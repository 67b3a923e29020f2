"""axe finds no violation of WCAG 2.2 AA on the pages; colours are looked at in the dark theme, too."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.runtime.ui.browser import Tab, tab
from tests.runtime.ui.node_packages import node_packages

RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
STEPS = ("basics", "source", "tables", "target", "advanced", "summary")
PAGES = [
    "/ns/default/create",
    *(f"/ns/default/create/seen/{step}" for step in STEPS),
    "/ns/default/drafts",
    "/ns/default/connections",
    "/ns/default/connections/new",
    "/plugins",
    "/plugins/cdcSource/postgres",
    "/ns/nothing",
]
TABLES = [{"database": "db", "schema": "public", "table": f"table_{n}", "numColumns": n} for n in range(200)]


@cache
def axe() -> str:
    """The program of axe."""
    return (node_packages() / "axe-core" / "axe.min.js").read_text("utf-8")


def violations(page: Page, options: dict[str, Any]) -> list[Any]:
    """What axe finds: rule, and the elements."""
    found = page.evaluate(f"axe.run({json.dumps(options)})")
    return [(rule["id"], [node["html"][:200] for node in rule["nodes"]]) for rule in found["violations"]]


@pytest.fixture(scope="module")
def seen(service: str, folder: Path) -> str:
    """The service, with a draft."""

    def stage(name: str, kind: str, plugin: str, **properties: str) -> dict[str, Any]:
        return {"name": name, "plugin": {"name": plugin, "type": kind, "properties": properties}}

    source = stage("source", "cdcSource", "postgres", host="db", database="shop", password="${secure(shop)}")
    config = {
        "name": "seen",
        "description": "Orders of all shops",
        "stages": [source, stage("target", "cdcTarget", "delta", path=str(folder / "lake"))],
        "connections": [{"from": "source", "to": "target"}],
        "tables": [
            {"schema": "public", "table": "table_1*"},
            {"schema": "public", "table": "table_12", "exclude": True},
        ],
    }
    httpx.put(f"{service}/v1/contexts/default/drafts/seen", json={"config": config}, timeout=60).raise_for_status()
    return service


@pytest.fixture(scope="module")
def listed(browser: Browser, seen: str) -> Iterator[Tab]:
    """A tab; tables are listed by this test alone."""
    with tab(browser, seen) as found:
        found.page.route("**/listTables", lambda route: route.fulfill(json={"tables": TABLES}))
        found.page.route("**/validate", lambda route: route.fulfill(json={"valid": True, "errors": []}))
        yield found


@pytest.mark.parametrize("path", PAGES)
def test_page_has_no_violation_in_either_theme(listed: Tab, path: str) -> None:
    listed.open(path)
    expect(listed.page.locator(".loading")).to_have_count(0)
    listed.page.evaluate(axe())
    assert violations(listed.page, {"runOnly": RULES}) == []
    listed.page.emulate_media(color_scheme="dark")
    assert violations(listed.page, {"runOnly": {"type": "rule", "values": ["color-contrast"]}}) == []
    listed.page.emulate_media(color_scheme="light")
    listed.check()


def test_import_has_no_violation_in_either_theme_and_fits_a_narrow_window(listed: Tab) -> None:
    listed.open("/ns/default/drafts")
    listed.page.get_by_role("button", name="Import").click()
    dialog = listed.page.get_by_role("dialog")
    dialog.get_by_label("JSON").fill("{")
    dialog.get_by_label("Name").fill("x")
    dialog.get_by_role("button", name="Import", exact=True).click()
    expect(dialog.get_by_role("alert")).to_be_visible()
    listed.page.evaluate(axe())
    assert violations(listed.page, {"runOnly": RULES}) == []
    listed.page.emulate_media(color_scheme="dark")
    assert violations(listed.page, {"runOnly": {"type": "rule", "values": ["color-contrast"]}}) == []
    listed.page.set_viewport_size({"width": 360, "height": 700})
    assert listed.page.evaluate("document.documentElement.scrollWidth") <= 360
    listed.page.emulate_media(color_scheme="light")
    listed.page.set_viewport_size({"width": 1280, "height": 800})
    listed.check()
