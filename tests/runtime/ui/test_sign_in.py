"""A service with tokens asks for one, and shows what its role may do."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from replicator_runtime.service.access.roles import Role
from replicator_runtime.service.access.tokens import create_token
from replicator_runtime.service.settings import Auth
from replicator_runtime.service.store.database import Database
from tests.runtime.ui.browser import Tab, tab
from tests.runtime.ui.served import service_at


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, dict[Role, str]]]:
    """The address of a service with tokens, and a token of each role."""
    folder = tmp_path_factory.mktemp("guarded")
    with service_at(folder, Auth.TOKENS) as address:
        database = Database(f"sqlite:///{folder / 'service.db'}")
        try:
            yield address, {role: create_token(database, role, label=role.value).text for role in Role}
        finally:
            database.close()


@pytest.fixture
def opened(browser: Browser, guarded: tuple[str, dict[Role, str]]) -> Iterator[Tab]:
    """A tab of that service."""
    with tab(browser, guarded[0]) as found:
        yield found
        found.check()


def sign_in(opened: Tab, token: str) -> None:
    """Enter a token."""
    opened.page.get_by_label("Token").fill(token)
    opened.page.get_by_role("button", name="Sign in").click()


def test_token_is_asked_for_where_the_reader_wanted_to_be(opened: Tab, guarded: tuple[str, dict[Role, str]]) -> None:
    opened.open("/ns/default/drafts")
    sign_in(opened, "no-token")
    expect(opened.page.get_by_role("alert")).to_contain_text("RPL-")
    sign_in(opened, guarded[1][Role.OPERATOR])
    expect(opened.page.get_by_role("heading", name="Drafts", exact=True)).to_be_visible()
    opened.page.reload()
    expect(opened.page.locator(".account-role")).to_have_text("operator")
    assert (
        opened.page.evaluate("document.cookie + JSON.stringify({...localStorage, ...sessionStorage})").find("rpl") < 0
    )
    opened.page.get_by_role("button", name="Sign out").click()
    expect(opened.page.get_by_label("Token")).to_be_visible()
    opened.page.reload()
    expect(opened.page.get_by_label("Token")).to_be_visible()


def test_viewer_is_offered_no_change(opened: Tab, guarded: tuple[str, dict[Role, str]]) -> None:
    opened.open("/ns/default/drafts")
    sign_in(opened, guarded[1][Role.VIEWER])
    expect(opened.page.get_by_role("heading", name="No drafts")).to_be_visible()
    assert opened.page.locator("#main").get_by_role("link", name="Create a pipeline").count() == 0
    opened.page.get_by_role("navigation").get_by_role("link", name="Create").click()
    expect(opened.page.get_by_text("This needs the role operator.")).to_be_visible()


def test_operator_writes_a_draft_with_the_session(opened: Tab, guarded: tuple[str, dict[Role, str]]) -> None:
    opened.open("/ns/default/create")
    sign_in(opened, guarded[1][Role.OPERATOR])
    opened.page.get_by_label("Name (required)").fill("written")
    opened.page.get_by_role("button", name="Next").click()
    opened.page.wait_for_url("**/written/source")
    expect(opened.page.locator(".save-state")).to_have_text("Saved")
