"""Pages stay true while one looks at them, at little cost, also when the service ends and comes back."""

from __future__ import annotations

import re
import time
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from tests.runtime.ui.browser import Tab, tab
from tests.runtime.ui.pipelines import examples
from tests.runtime.ui.pipelines.imitation import Imitation

FLEET = "/ns/default/pipelines"
SHOP = "/ns/default/pipelines/shop"
NARROW = 360
ROWS_THAT_EXIST = 60
"""Those in view, and some before and after them."""


class Scripting:
    """How long scripts of a page have run, in seconds of the processor: what else runs on the machine does not count."""

    def __init__(self, opened: Tab) -> None:
        self._session = opened.page.context.new_cdp_session(opened.page)
        self._session.send("Performance.enable", {"timeDomain": "threadTicks"})

    def seconds(self) -> float:
        """Since the page was opened."""
        metrics: list[dict[str, Any]] = self._session.send("Performance.getMetrics")["metrics"]
        return float(next(metric["value"] for metric in metrics if metric["name"] == "ScriptDuration"))


def test_service_ends_and_comes_back_while_the_page_is_open(opened: Tab, service: Imitation) -> None:
    opened.open(FLEET)
    rows = opened.page.locator(".fleet-table tbody tr")
    expect(rows).to_have_count(8)
    service.kill()
    expect(opened.page.get_by_text("The service does not answer.")).to_be_visible()
    expect(rows).to_have_count(8)
    service.put({**examples.item("shop", phase="paused", paused=True), "config": examples.CONFIG})
    service.items.pop("crm")
    service.run()
    expect(opened.page.get_by_text("The service does not answer.")).to_have_count(0)
    expect(rows.filter(has_text="shop")).to_contain_text("Paused")
    expect(opened.page.get_by_role("link", name="crm")).to_have_count(0)


def test_stream_that_breaks_goes_on_after_the_last_event(opened: Tab, service: Imitation) -> None:
    sent: list[str] = []
    opened.page.on(
        "request",
        lambda request: sent.append(request.headers.get("last-event-id", "")) if "/events" in request.url else None,
    )
    opened.open(FLEET)
    expect(opened.page.locator(".fleet-table tbody tr")).to_have_count(8)
    opened.page.context.set_offline(True)
    service.kill()
    opened.page.context.set_offline(False)
    service.run()
    service.put(examples.item("brand-new"))
    expect(opened.page.get_by_role("link", name="brand-new")).to_be_visible()
    assert sent[0] == ""
    assert re.fullmatch(r"\d+-\d+", sent[-1])


def test_an_event_that_breaks_off_is_sent_again(opened: Tab, service: Imitation) -> None:
    opened.open(FLEET)
    expect(opened.page.locator(".fleet-table tbody tr")).to_have_count(8)
    service.cuts = True
    service.put(examples.item("cut-off"))
    expect(opened.page.get_by_role("link", name="cut-off")).to_be_visible()
    assert not service.cuts


def test_an_open_page_asks_for_nothing_but_its_stream(opened: Tab, service: Imitation) -> None:
    for path in (FLEET, f"{SHOP}/monitoring"):
        opened.open(path)
        expect(opened.page.get_by_text("shop", exact=True).first).to_be_visible()
        opened.page.wait_for_load_state("domcontentloaded")
        expect(opened.page.locator(".loading")).to_have_count(0)
        opened.page.wait_for_timeout(500)
        before = len(opened.requests)
        service.put_status("shop", examples.status(5))
        opened.page.wait_for_timeout(1000)
        assert opened.requests[before:] == []


def test_a_thousand_tables_that_change_cost_little(opened: Tab, service: Imitation) -> None:
    for number in range(1000):
        service.put_table("shop", examples.row(f"many_{number:04}"))
    opened.open(f"{SHOP}?search=many&order=table")
    rows = opened.page.locator(".vtable-body .vrow")
    expect(opened.page.get_by_text("1,000 of 1,046 tables")).to_be_visible()
    assert rows.count() < ROWS_THAT_EXIST
    scripting = Scripting(opened)
    before, began, seconds = scripting.seconds(), time.monotonic(), 3
    for second in range(seconds):
        for number in range(1000):
            service.put_table(
                "shop", examples.row(f"many_{number:04}", rows=second * 1000 + number, lagSeconds=second + 2.0)
            )
        expect(rows.first).to_contain_text(f"{second + 2} s")
        opened.page.wait_for_timeout(max(0.0, (began + second + 1 - time.monotonic()) * 1000))
    assert scripting.seconds() - before < seconds * 0.05


def test_ten_thousand_tables_are_found_and_scrolled(opened: Tab, service: Imitation) -> None:
    service.tables["shop"] = {row["id"]: row for row in (examples.row(f"wide_{number:05}") for number in range(10_000))}
    opened.open(f"{SHOP}?order=table")
    expect(opened.page.get_by_text("10,000 tables")).to_be_visible()
    rows = opened.page.locator(".vtable-body .vrow")
    opened.page.locator(".vtable").evaluate("element => { element.scrollTop = element.scrollHeight; }")
    expect(rows.last).to_contain_text("wide_09999")
    assert rows.count() < ROWS_THAT_EXIST
    opened.page.get_by_role("searchbox", name="Search tables").fill("_0777")
    expect(opened.page.get_by_text("10 of 10,000 tables")).to_be_visible()
    expect(rows.first).to_contain_text("wide_07770")


def test_a_name_of_a_table_is_never_markup(opened: Tab, service: Imitation) -> None:
    fault = {
        **examples.FAULT,
        "message": f"{examples.INJECTED} does not fit",
        "hint": f"`replicator table retry NAME '{examples.INJECTED}'`",
    }
    service.put_table(
        "shop", examples.row(examples.INJECTED, state="FAILING", error=fault, failingSince=examples.ago(5))
    )
    service.put({**examples.item("shop", lastError={**fault, "table": examples.INJECTED}), "config": examples.CONFIG})
    opened.page.on("dialog", lambda dialog: opened.errors.append(f"a script ran: {dialog.message}"))
    opened.open(SHOP)
    opened.page.get_by_role("button", name=f"public.{examples.INJECTED}", exact=True).click()
    expect(opened.page.get_by_role("dialog").get_by_role("heading")).to_have_text(f"public.{examples.INJECTED}")
    opened.page.keyboard.press("Escape")
    opened.page.get_by_role("link", name="Errors").click()
    expect(opened.page.locator(".error-group").first).to_contain_text(examples.INJECTED)
    assert opened.page.locator("img").count() == 0


def test_deleted_pipeline_says_so(opened: Tab, service: Imitation) -> None:
    opened.open(SHOP)
    expect(opened.page.locator(".picture")).to_be_visible()
    service.delete("shop")
    expect(opened.page.get_by_role("heading", name="This pipeline is deleted")).to_be_visible()


def test_unknown_pipeline_leads_back(opened: Tab) -> None:
    opened.open("/ns/default/pipelines/none")
    expect(opened.page.get_by_role("heading", name="There is no such pipeline")).to_be_visible()
    opened.page.get_by_role("link", name="Show pipelines").click()
    opened.page.wait_for_url("**/pipelines")


@pytest.mark.parametrize("width", [NARROW, 768])
def test_pages_fit_into_the_window(browser: Browser, service: Imitation, width: int) -> None:
    with tab(browser, service.address, width) as opened:
        for path in (FLEET, SHOP, f"{SHOP}/offsets", f"{SHOP}/logs", "/settings/tokens")[: 5 if width == NARROW else 2]:
            opened.open(path)
            expect(opened.page.locator(".loading")).to_have_count(0)
            assert opened.page.evaluate("document.documentElement.scrollWidth") <= width, path
        opened.check()
