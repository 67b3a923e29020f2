"""The start page: every pipeline, those first that need someone."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.runtime.ui.browser import Tab
from tests.runtime.ui.pipelines import examples
from tests.runtime.ui.pipelines.imitation import Imitation

FLEET = "/ns/default/pipelines"


def names(tab: Tab) -> list[str]:
    """The pipelines in the order in which they are shown."""
    return tab.page.locator(".fleet-table tbody th a").all_inner_texts()


def test_pipelines_that_need_someone_come_first(opened: Tab, service: Imitation) -> None:
    opened.open(FLEET)
    expect(opened.page.locator(".fleet-table tbody tr")).to_have_count(len(service.items))
    assert names(opened)[0] == "shop"
    assert names(opened).index("decisions") < names(opened).index("billing")
    assert names(opened)[-1].startswith("archive-2019")


def test_row_shows_state_lag_held_log_and_the_next_step(opened: Tab) -> None:
    opened.open(FLEET)
    row = opened.page.locator(".fleet-table tr", has=opened.page.get_by_role("link", name="shop", exact=True))
    for text in (
        "Running",
        "12 tables: 1 failing",
        "1.4 s",
        "fresh 99.9 %",
        "1,234.5",
        "45.8 MiB",
        "67 min ago",
        "RPL-5010",
        "Next: widen the column",
    ):
        expect(row).to_contain_text(text)


def test_counters_count_and_filter(opened: Tab) -> None:
    opened.open(FLEET)
    opened.page.get_by_role("button", name="Failing").click()
    expect(opened.page.locator(".fleet-table tbody tr")).to_have_count(3)
    assert set(names(opened)) == {"shop", "events", "inventory"}
    assert "show=failing" in opened.page.url
    opened.page.get_by_role("searchbox").fill("RPL-3204")
    expect(opened.page.locator(".fleet-table tbody tr")).to_have_count(1)
    opened.page.get_by_role("searchbox").fill("nothing like it")
    opened.page.get_by_role("button", name="Show all").click()
    expect(opened.page.locator(".fleet-table tbody tr")).to_have_count(8)


def test_changes_are_shown_without_a_further_request(opened: Tab, service: Imitation) -> None:
    opened.open(FLEET)
    expect(opened.page.locator(".fleet-table tbody tr")).to_have_count(8)
    before = len(opened.requests)
    service.put(examples.item("billing", phase="paused", paused=True))
    service.put(examples.item("brand-new"))
    service.delete("crm")
    row = opened.page.locator(".fleet-table tr", has=opened.page.get_by_role("link", name="billing"))
    expect(row).to_contain_text("Paused")
    expect(opened.page.get_by_role("link", name="brand-new")).to_be_visible()
    expect(opened.page.get_by_role("link", name="crm")).to_have_count(0)
    assert opened.requests[before:] == []


def test_empty_namespace_says_the_next_step(opened: Tab, service: Imitation) -> None:
    service.items.clear()
    opened.open(FLEET)
    expect(opened.page.get_by_role("heading", name="No pipelines yet")).to_be_visible()
    expect(opened.page.get_by_role("link", name="Create a pipeline")).to_have_attribute("href", "/ns/default/create")
