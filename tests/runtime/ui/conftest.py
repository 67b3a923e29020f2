"""One browser and one service for the tests of a module."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.runtime.ui.browser import Tab, chromium, tab
from tests.runtime.ui.served import service_at


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """The browser; its event loop ends with these tests, so that others of the process have none."""
    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the module's service keeps its things."""
    return tmp_path_factory.mktemp("service")


@pytest.fixture(scope="module")
def service(folder: Path) -> Iterator[str]:
    """The address of a service without tokens."""
    with service_at(folder) as address:
        yield address


@pytest.fixture
def opened(browser: Browser, service: str) -> Iterator[Tab]:
    """A tab, which is checked at its end."""
    with tab(browser, service) as found:
        yield found
        found.check()
