"""A proxy that gathers events: the page asks instead, says so, and follows the stream again once it can."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, expect

from tests.runtime.ui.browser import Tab, tab
from tests.runtime.ui.streams.buffering_proxy import BufferingProxy, buffering_proxy

HELD_BACK = "Events do not arrive"


@pytest.fixture(scope="module")
def proxy(service: str) -> Iterator[BufferingProxy]:
    with buffering_proxy(service) as found:
        yield found


@pytest.fixture
def gathered(browser: Browser, proxy: BufferingProxy) -> Iterator[Tab]:
    """A tab whose requests all pass the proxy, which gathers."""
    proxy.buffers = True
    with tab(browser, proxy.address) as found:
        yield found
        found.check()


def deploy(service: str, folder: Path, name: str) -> None:
    """A pipeline of another person, which is not started."""

    def stage(stage: str, kind: str, plugin: str) -> dict[str, Any]:
        properties = {"path": str(folder / f"{name}-{stage}")}
        return {"name": stage, "plugin": {"name": plugin, "type": kind, "properties": properties}}

    config = {
        "stages": [stage("source", "cdcSource", "sqlite"), stage("target", "cdcTarget", "delta")],
        "connections": [{"from": "source", "to": "target"}],
    }
    pipelines = f"{service}/v1/contexts/default"
    httpx.put(f"{pipelines}/drafts/{name}", json={"config": config}, timeout=300).raise_for_status()
    body = {"draft": name, "start": False}
    httpx.post(f"{pipelines}/pipelines", json=body, timeout=300).raise_for_status()


def test_fleet_is_asked_for_while_events_are_held_back(
    gathered: Tab, proxy: BufferingProxy, service: str, folder: Path
) -> None:
    page = gathered.page
    gathered.open("/ns/default/pipelines")
    expect(page.get_by_text("No pipelines yet")).to_be_visible()
    expect(page.get_by_text(HELD_BACK)).to_be_visible()
    expect(page.get_by_text("proxy_buffering off")).to_be_visible()
    deploy(service, folder, "later")
    expect(page.get_by_role("link", name="later")).to_be_visible()
    httpx.delete(f"{service}/v1/contexts/default/pipelines/later", timeout=300).raise_for_status()
    expect(page.get_by_text("No pipelines yet")).to_be_visible()
    proxy.buffers = False
    page.get_by_role("button", name="Try the stream").click()
    expect(page.get_by_text(HELD_BACK)).to_have_count(0)
    before = len(gathered.requests)
    deploy(service, folder, "streamed")
    expect(page.get_by_role("link", name="streamed")).to_be_visible()
    page.wait_for_timeout(7000)  # longer than from one question to the next
    assert gathered.requests[before:] == []


def test_pipeline_is_asked_for_while_events_are_held_back(gathered: Tab, service: str, folder: Path) -> None:
    deploy(service, folder, "held")
    gathered.open("/ns/default/pipelines/held")
    expect(gathered.page.get_by_text(HELD_BACK)).to_be_visible()
    httpx.delete(f"{service}/v1/contexts/default/pipelines/held", timeout=300).raise_for_status()
    expect(gathered.page.get_by_role("heading", name="This pipeline is deleted")).to_be_visible()
