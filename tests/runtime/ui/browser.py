"""A tab of a browser that notes what a page must never do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

from playwright.sync_api import (
    Browser,
    BrowserContext,
    Page,
    Playwright,
    Request,
    ViewportSize,
    expect,
    sync_playwright,
)

CHROMIUM = "/usr/bin/chromium"
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
WAIT = 90_000
expect.set_options(timeout=WAIT)
_NOTE_VIOLATIONS = """
window.violations = [];
document.addEventListener("securitypolicyviolation", (event) => {
  window.violations.push(`${event.violatedDirective} ${event.blockedURI} ${event.sample}`);
});
"""


@dataclass
class Tab:
    """A page in the browser.

    Attributes:
        page: Playwright's page.
        address: Of the service.
        errors: Uncaught errors of scripts.
        outside: Requests to other hosts.
        requests: Method and path of each request to the service's API.
    """

    page: Page
    address: str
    errors: list[str] = field(default_factory=list)
    outside: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def open(self, path: str) -> None:
        """Go to an address of the page, as a reader does who types it."""
        self.page.goto(self.address + path)
        self.page.locator("#main h1").first.wait_for()

    def check(self) -> None:
        """Fail if the page did what it must never do: an error, a violation of its policy, a request elsewhere."""
        assert not self.errors
        assert not self.outside
        assert self.page.evaluate("window.violations") == []

    def note(self, request: Request) -> None:
        """Remember a request."""
        if request.url.startswith(self.address):
            path = request.url.removeprefix(self.address)
            if path.startswith("/v"):
                self.requests.append(f"{request.method} {path}")
        elif not request.url.startswith(("data:", "blob:")):
            self.outside.append(request.url)


_running: list[Playwright] = []


@contextmanager
def chromium() -> Iterator[Browser]:
    """Debian's Chromium without a window; a process has one Playwright at a time, which a second browser shares."""
    if _running:
        with _launched(_running[0]) as browser:
            yield browser
        return
    with sync_playwright() as playwright:
        _running.append(playwright)
        try:
            with _launched(playwright) as browser:
                yield browser
        finally:
            _running.clear()


@contextmanager
def _launched(playwright: Playwright) -> Iterator[Browser]:
    browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
    try:
        yield browser
    finally:
        browser.close()


@contextmanager
def tab(
    browser: Browser, address: str, width: int = 1280, theme: Literal["light", "dark"] = "light", height: int = 800
) -> Iterator[Tab]:
    """A tab with nothing kept from any other."""
    context: BrowserContext = browser.new_context(
        viewport=ViewportSize(width=width, height=height), color_scheme=theme, reduced_motion="reduce", locale="en-GB"
    )
    try:
        context.set_default_timeout(WAIT)
        context.grant_permissions(["clipboard-read", "clipboard-write"], origin=address)
        page = context.new_page()
        page.add_init_script(_NOTE_VIOLATIONS)
        opened = Tab(page, address)
        page.on("pageerror", lambda error: opened.errors.append(str(error)))
        page.on("request", opened.note)
        yield opened
    finally:
        context.close()
