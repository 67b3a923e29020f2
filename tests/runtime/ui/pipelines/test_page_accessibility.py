"""axe finds no violation on the pages of pipelines, in both themes, also in what opens above them."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.runtime.ui.browser import tab
from tests.runtime.ui.node_packages import node_packages
from tests.runtime.ui.pipelines import examples
from tests.runtime.ui.pipelines.imitation import Imitation
from tests.runtime.ui.test_accessibility import RULES, violations

SHOP = "/ns/default/pipelines/shop"
PARTS = ("monitoring", "activity", "schema-changes", "errors", "offsets", "logs", "configuration", "lineage")
PATHS = ["/ns/default/pipelines", *(f"{SHOP}/{part}" for part in PARTS), "/settings/tokens", "/settings/audit", SHOP]

DARK = ["/ns/default/pipelines", f"{SHOP}/errors", SHOP]
"""The colours are the same everywhere."""


def found_by_axe(page: Page) -> list[Any]:
    """What axe finds on the page as it is now."""
    page.evaluate((node_packages() / "axe-core" / "axe.min.js").read_text("utf-8"))
    return violations(page, {"runOnly": RULES, "resultTypes": ["violations"]})


@pytest.mark.parametrize(("theme", "width"), [("light", 1280), ("dark", 360)])
def test_pages_have_no_violation(
    browser: Browser, service: Imitation, theme: Literal["light", "dark"], width: int
) -> None:
    service.tables["shop"] = {row["id"]: row for row in examples.tables()[:6]}
    service.answers["/logs"] = service.answers["/logs"][:8]
    with tab(browser, service.address, width, theme) as found:
        for path in PATHS if theme == "light" else DARK:
            found.open(path)
            expect(found.page.locator(".loading")).to_have_count(0)
            assert found_by_axe(found.page) == [], path
        button = found.page.get_by_role("button", name="Actions for public.orders", exact=True)
        button.click()
        expect(found.page.get_by_role("menuitem").first).to_be_focused()
        assert found_by_axe(found.page) == []
        found.page.get_by_role("menuitem", name="Drop…").click()
        found.page.get_by_role("dialog").wait_for()
        assert found_by_axe(found.page) == []
        found.check()
