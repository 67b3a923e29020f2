"""The frame of the page: addresses, navigation, theme."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, expect

from tests.runtime.ui.browser import Tab, tab


def test_first_address_shows_pipelines(opened: Tab) -> None:
    opened.open("/")
    opened.page.wait_for_url("**/ns/default/pipelines")
    expect(opened.page.locator("nav [aria-current=page]")).to_have_text("Pipelines")


def test_back_and_forward_follow_the_addresses(opened: Tab) -> None:
    opened.open("/ns/default/pipelines")
    opened.page.get_by_role("link", name="Connections").click()
    opened.page.wait_for_url("**/ns/default/connections")
    opened.page.get_by_role("link", name="Plugins").click()
    opened.page.wait_for_url("**/plugins")
    opened.page.go_back()
    expect(opened.page.locator("#main h1")).to_have_text("Connections")
    opened.page.reload()
    expect(opened.page.locator("#main h1")).to_have_text("Connections")


def test_unknown_address_says_so_and_leads_back(opened: Tab) -> None:
    opened.open("/ns/default/<img src=x onerror=alert(1)>")
    expect(opened.page.locator("#main h1")).to_have_text("Not found")
    expect(opened.page.get_by_role("link", name="Show pipelines")).to_be_visible()


def test_theme_is_chosen_and_kept(opened: Tab) -> None:
    opened.open("/ns/default/pipelines")
    opened.page.get_by_role("button", name="Theme: system").click()
    opened.page.get_by_role("button", name="Theme: light").click()
    assert opened.page.evaluate("document.documentElement.dataset.theme") == "dark"
    opened.page.reload()
    opened.page.locator("#main h1").first.wait_for()
    assert opened.page.evaluate("document.documentElement.dataset.theme") == "dark"


@pytest.mark.parametrize("width", [360, 768])
def test_nothing_is_wider_than_the_window(browser: Browser, service: str, width: int) -> None:
    with tab(browser, service, width) as found:
        found.open("/ns/default/pipelines")
        assert found.page.evaluate("document.documentElement.scrollWidth") <= width
        found.check()


def test_skip_link_leads_to_the_content(opened: Tab) -> None:
    opened.open("/ns/default/pipelines")
    opened.page.keyboard.press("Tab")
    expect(opened.page.get_by_role("link", name="Skip to content")).to_be_focused()
    opened.page.keyboard.press("Enter")
    expect(opened.page.locator("#main")).to_be_focused()


def test_first_load_is_small(opened: Tab) -> None:
    """Bytes over the wire, to the list of pipelines."""
    opened.open("/ns/default/pipelines")
    opened.page.wait_for_load_state("load")
    sizes = opened.page.evaluate("performance.getEntriesByType('resource').map(one => one.encodedBodySize)")
    assert 0 < sum(sizes) < 150_000
