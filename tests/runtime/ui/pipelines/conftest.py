"""An imitation of the service with one pipeline of each state."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.runtime.ui.browser import Tab, tab
from tests.runtime.ui.pipelines import examples
from tests.runtime.ui.pipelines.imitation import Imitation, imitation


@pytest.fixture(scope="module")
def running() -> Iterator[Imitation]:
    """The module's imitation."""
    with imitation() as found:
        yield found


@pytest.fixture
def service(running: Imitation) -> Imitation:
    """The same, with what every test begins from."""
    running.items.clear()
    running.tables.clear()
    running.statuses.clear()
    running.sent.clear()
    running.outcomes.clear()
    running.answers = dict(examples.ANSWERS)
    running.role = "admin"
    for one in examples.fleet():
        running.put({**one, "config": examples.CONFIG})
    for one in examples.tables():
        running.put_table("shop", one)
    running.put_status("shop", examples.status())
    return running


@pytest.fixture(scope="module")
def shared(browser: Browser, running: Imitation) -> Iterator[Tab]:
    """The module's tab: its browser has the page's files already."""
    with tab(browser, running.address) as found:
        yield found


@pytest.fixture
def opened(shared: Tab, service: Imitation) -> Iterator[Tab]:
    """The tab, with nothing of the test before, which is checked at its end."""
    shared.page.goto("about:blank")
    shared.errors.clear()
    shared.outside.clear()
    shared.requests.clear()
    yield shared
    shared.check()
