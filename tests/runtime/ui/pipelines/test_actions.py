"""Every action of a pipeline and of its tables is one request to the service; it says its effect before it is sent."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from fastapi.responses import JSONResponse
from playwright.sync_api import Locator, expect

from tests.runtime.ui.browser import Tab
from tests.runtime.ui.pipelines import examples
from tests.runtime.ui.pipelines.imitation import Imitation

SHOP = "/ns/default/pipelines/shop"
API = "/v1/contexts/default/pipelines/shop"
ORDERS = "shop.public.orders"


@dataclass(frozen=True)
class Case:
    """An action in a menu, what is asked before it, and the request that follows."""

    action: str
    path: str
    body: Any
    effect: str = ""
    typed: str = ""
    choice: str = ""
    filled: str = ""
    method: str = "POST"


OF_TABLE = [
    Case("Pause…", "/tables/pause", {"tables": [ORDERS]}, "in a lane"),
    Case("Retry", "/tables/retry", {"tables": [ORDERS]}),
    Case("Resync…", "/tables/resync", {"tables": [ORDERS], "inPlace": True}, "Copies table", choice="In place"),
    Case("Verify", "/verify", {"tables": [ORDERS]}),
    Case("Verify and repair…", "/verify", {"tables": [ORDERS], "repair": True}, "written again"),
    Case(
        "Explain a row…",
        "/explainRow",
        {"table": ORDERS, "key": {"order": "7", "line": "2"}},
        "Looks at one row",
        filled="order=7, line=2",
    ),
    Case(
        "Drop…",
        "/tables/drop",
        {"tables": [ORDERS], "keepTarget": True},
        "Deletes",
        typed="shop",
        choice="Keep the table",
    ),
]
OF_PIPELINE = [
    Case("Restart…", "/restart", None, "saves its offset"),
    Case("Verify all tables…", "/verify", {}, "row by row"),
    Case("Delete…", "", None, "can not be resumed", typed="shop", method="DELETE"),
    Case("Delete…", "?targetTables=true", None, "slot", typed="shop", choice="Delete its tables", method="DELETE"),
]


def menu_of(tab: Tab, button: Locator, action: str) -> None:
    """Choose an action of a menu."""
    button.click()
    tab.page.get_by_role("menuitem", name=action, exact=True).click()


def menu_by_keyboard(tab: Tab, button: Locator, action: str) -> None:
    """The same with the keyboard alone."""
    button.focus()
    tab.page.keyboard.press("Enter")
    menu = tab.page.get_by_role("menu")
    expect(menu.get_by_role("menuitem").first).to_be_focused()
    item = menu.get_by_role("menuitem", name=action, exact=True)
    item.wait_for()
    while not item.evaluate("element => element === document.activeElement"):
        tab.page.keyboard.press("ArrowDown")
    tab.page.keyboard.press("Enter")
    expect(menu).to_have_count(0)


def confirm(tab: Tab, case: Case) -> None:
    """Answer what is asked before an action, if something is."""
    if not case.effect:
        return
    dialog = tab.page.get_by_role("dialog")
    expect(dialog).to_contain_text(case.effect)
    button = dialog.locator("footer button").last
    if case.choice:
        dialog.get_by_role("checkbox", name=case.choice).check()
    if case.filled:
        dialog.get_by_label("Key").fill(case.filled)
    if case.typed:
        expect(button).to_be_disabled()
        dialog.get_by_label("Type").fill(case.typed)
    button.click()
    expect(dialog).to_have_count(0)


def expect_sent(service: Imitation, tab: Tab, case: Case) -> None:
    """Exactly one request was sent, as the case says, and its outcome is shown."""
    shown = tab.page.get_by_label("What was asked for")
    expect(shown).to_contain_text(" done")
    (sent,) = service.sent
    assert (sent.method, sent.path.removeprefix(API), sent.body) == (case.method, case.path, case.body)
    assert sent.headers["x-csrf-token"] == "csrf-value"
    assert sent.headers["idempotency-key"]
    service.sent.clear()
    shown.get_by_role("button", name="Close").click()
    expect(shown).to_have_count(0)


def test_every_action_of_a_table_is_sent(opened: Tab, service: Imitation) -> None:
    opened.open(SHOP)
    button = opened.page.get_by_role("button", name="Actions for public.orders", exact=True)
    for number, case in enumerate(OF_TABLE):
        (menu_by_keyboard if number == 0 else menu_of)(opened, button, case.action)
        confirm(opened, case)
        expect_sent(service, opened, case)


def test_every_action_of_a_pipeline_is_sent(opened: Tab, service: Imitation) -> None:
    opened.open(SHOP)
    for case in OF_PIPELINE:
        menu_of(opened, opened.page.get_by_role("button", name="More"), case.action)
        confirm(opened, case)
        expect_sent(service, opened, case)


def test_paused_table_is_resumed_and_a_stopped_pipeline_started(opened: Tab, service: Imitation) -> None:
    opened.open(SHOP)
    menu_of(opened, opened.page.get_by_role("button", name="Actions for public.payments"), "Resume")
    expect_sent(service, opened, Case("", "/tables/resume", {"tables": ["shop.public.payments"]}))
    service.put(examples.item("shop", state="stopped", wanted="stopped"))
    opened.page.get_by_role("button", name="Start").click()
    expect(opened.page.get_by_label("What was asked for")).to_contain_text("Start: shop")
    expect_sent(service, opened, Case("", "/start", None))


def test_several_tables_are_chosen_by_keyboard_and_paused_at_once(opened: Tab, service: Imitation) -> None:
    opened.open(f"{SHOP}?search=products")
    first = opened.page.get_by_role("checkbox", name="Choose public.products_0", exact=True)
    first.focus()
    opened.page.keyboard.press("Space")
    for _ in range(3):
        opened.page.keyboard.press("ArrowDown")
    opened.page.keyboard.press("Shift+Space")
    chosen = opened.page.get_by_label("Actions for the chosen tables")
    expect(chosen).to_contain_text("4 tables chosen")
    chosen.get_by_role("button", name="Pause").click()
    dialog = opened.page.get_by_role("dialog")
    expect(dialog).to_contain_text("4 tables")
    dialog.get_by_role("button", name="Pause").click()
    names = [f"shop.public.products_{number}" for number in range(4)]
    expect_sent(service, opened, Case("", "/tables/pause", {"tables": names}))


def test_escape_closes_the_menu_and_the_dialog_and_sends_nothing(opened: Tab, service: Imitation) -> None:
    opened.open(SHOP)
    button = opened.page.get_by_role("button", name="Actions for public.orders", exact=True)
    button.click()
    expect(opened.page.get_by_role("menuitem").first).to_be_focused()
    opened.page.keyboard.press("Escape")
    expect(opened.page.get_by_role("menu")).to_have_count(0)
    expect(button).to_be_focused()
    menu_of(opened, button, "Drop…")
    expect(opened.page.get_by_role("dialog").locator(":focus")).to_have_count(1)
    opened.page.keyboard.press("Escape")
    expect(opened.page.get_by_role("dialog")).to_have_count(0)
    expect(button).to_be_focused()
    assert service.sent == []


def test_refused_action_shows_code_and_next_step(opened: Tab, service: Imitation) -> None:
    problem = {
        "status": 409,
        "code": "RPL-1234",
        "detail": "the file of the run still selects it",
        "hint": "exclude it, then `replicator run`",
    }
    service.outcomes["/tables/retry"] = JSONResponse(problem, 409)
    opened.open(SHOP)
    menu_of(opened, opened.page.get_by_role("button", name="Actions for public.orders", exact=True), "Retry")
    shown = opened.page.get_by_label("What was asked for")
    expect(shown).to_contain_text("RPL-1234: the file of the run still selects it")
    expect(shown).to_contain_text("Next: exclude it")


def test_outcome_of_a_job_is_shown_when_it_comes(opened: Tab, service: Imitation) -> None:
    service.outcomes["/verify"] = {"id": "01J", "command": ["verify"], "state": "running"}
    service.answers["/jobs/01J"] = {"id": "01J", "command": ["verify"], "state": "running", "result": None}
    opened.open(SHOP)
    menu_of(opened, opened.page.get_by_role("button", name="Actions for public.orders", exact=True), "Verify")
    shown = opened.page.get_by_label("What was asked for")
    expect(shown).to_contain_text("runs")
    error = {"code": "RPL-5030", "message": "3 rows differ", "hint": "`replicator verify NAME --repair`"}
    result = {
        "schema": "replicator.verify/v1",
        "data": {"tables": [{"table": examples.INJECTED}]},
        "warnings": [],
        "error": error,
    }
    service.answers["/jobs/01J"] = {"id": "01J", "command": ["verify"], "state": "failed", "result": result}
    expect(shown).to_contain_text("RPL-5030: 3 rows differ")
    shown.get_by_role("button", name="Show the answer").click()
    expect(opened.page.get_by_role("dialog").locator("pre")).to_contain_text(json.dumps(examples.INJECTED))


def test_viewer_reads_which_role_an_action_needs(opened: Tab, service: Imitation) -> None:
    service.role = "viewer"
    opened.open(SHOP)
    expect(opened.page.get_by_role("button", name="Stop")).to_be_disabled()
    opened.page.get_by_role("button", name="Actions for public.orders", exact=True).click()
    item = opened.page.get_by_role("menuitem", name="Drop…")
    expect(item).to_have_attribute("title", "This needs the role admin; you have viewer.")
    item.click(force=True)
    expect(opened.page.get_by_role("dialog")).to_have_count(0)
    opened.page.keyboard.press("Escape")


def test_action_is_copied_as_command_and_as_request(opened: Tab) -> None:
    opened.open(SHOP)
    menu_of(opened, opened.page.get_by_role("button", name=f"Actions for public.{examples.INJECTED}"), "Pause…")
    dialog = opened.page.get_by_role("dialog")
    dialog.get_by_role("button", name="Copy as CLI").click()
    expect(dialog.get_by_role("button", name="Copied")).to_be_visible()
    table = f'shop.public."{examples.INJECTED}"'
    assert opened.page.evaluate("navigator.clipboard.readText()") == f"replicator table pause shop.json '{table}'"
    dialog.get_by_role("button", name="Copy as curl").click()
    opened.page.wait_for_function("navigator.clipboard.readText().then((text) => text.startsWith('curl'))")
    text = opened.page.evaluate("navigator.clipboard.readText()")
    assert f"{API}/tables/pause" in text
    assert json.dumps({"tables": [table]}, separators=(",", ":")) in text


def test_action_without_a_dialog_is_copied_from_its_outcome(opened: Tab) -> None:
    opened.open(SHOP)
    menu_of(opened, opened.page.get_by_role("button", name="Actions for public.orders", exact=True), "Retry")
    shown = opened.page.get_by_label("What was asked for")
    shown.get_by_role("button", name="Copy as CLI").click()
    opened.page.wait_for_function("navigator.clipboard.readText().then((text) => text.startsWith('replicator'))")
    assert opened.page.evaluate("navigator.clipboard.readText()") == f"replicator table retry shop.json {ORDERS}"
    shown.get_by_role("button", name="Copy as curl").click()
    opened.page.wait_for_function("navigator.clipboard.readText().then((text) => text.startsWith('curl'))")
    assert f"{API}/tables/retry" in opened.page.evaluate("navigator.clipboard.readText()")
