"""The wizard that creates a pipeline, against a service with a real SQLite source."""

from __future__ import annotations

import json
import re
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Page, Route, expect

from tests.runtime.ui.browser import WAIT, Tab

ATTACK = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def source(folder: Path) -> Path:
    """A database with a few tables, one of which has a name that a careless page would run."""
    path = folder / "shop.db"
    with sqlite3.connect(path) as connection:
        for name in ("customers", "orders", ATTACK):
            connection.execute(f'CREATE TABLE "{name}" (id INTEGER PRIMARY KEY, name TEXT, price NUMERIC(10, 2))')
    connection.close()
    return path


def config(source: Path, folder: Path, name: str) -> dict[str, Any]:
    """A config that is complete."""

    def stage(stage: str, kind: str, plugin: str, path: Path) -> dict[str, Any]:
        return {"name": stage, "plugin": {"name": plugin, "type": kind, "properties": {"path": str(path)}}}

    return {
        "name": name,
        "stages": [
            stage("source", "cdcSource", "sqlite", source),
            stage("target", "cdcTarget", "delta", folder / "lake"),
        ],
        "connections": [{"from": "source", "to": "target"}],
        "tables": [],
    }


@pytest.fixture(scope="module")
def answers(service: str, source: Path, folder: Path) -> dict[str, Any]:
    """What the service answers about the source, asked once: each answer is a command of its own."""
    put(service, "asked", config(source, folder, "asked"))
    address = f"{service}/v1/contexts/default/drafts/asked"
    tables = httpx.post(f"{address}/listTables", timeout=60).raise_for_status().json()
    named = {"database": "main", "table": ATTACK}
    return {
        "listTables": tables,
        "describeTable": httpx.post(f"{address}/describeTable", json=named, timeout=60).raise_for_status().json(),
        "validate": {"valid": True, "errors": []},
    }


def answering(answer: Any) -> Callable[[Route], None]:
    """What answers a request with this."""

    def fulfill(route: Route) -> None:
        route.fulfill(json=answer)

    return fulfill


@pytest.fixture
def quick(opened: Tab, answers: dict[str, Any]) -> Tab:
    """A tab that is given these answers again."""
    for operation, answer in answers.items():
        opened.page.route(f"**/{operation}", answering(answer))
    return opened


def put(service: str, name: str, document: dict[str, Any], label: str = "") -> None:
    """Write a draft as another user of the service would."""
    answer = httpx.put(f"{service}/v1/contexts/default/drafts/{name}", json={"config": document, "label": label})
    assert answer.is_success, answer.text


def draft(service: str, name: str) -> dict[str, Any]:
    """A draft as it is stored."""
    found: dict[str, Any] = httpx.get(f"{service}/v1/contexts/default/drafts/{name}").json()
    return found


def saved(page: Page) -> None:
    """Wait until all that was typed is saved."""
    expect(page.locator(".save-state")).to_have_text("Saved")


def stored_json(page: Page) -> Any:
    """The JSON beside the form."""
    return json.loads(page.get_by_label("Pipeline JSON", exact=True).last.input_value())


def test_pipeline_is_created_with_twelve_inputs(opened: Tab, service: str, source: Path, folder: Path) -> None:
    """Clicks and filled fields from the page's first address to the deployed pipeline."""
    page = opened.page
    inputs = 0

    def click(name: str, role: Any = "button") -> None:
        nonlocal inputs
        page.get_by_role(role, name=name, exact=True).click()
        inputs += 1

    def fill(label: str, text: str) -> None:
        nonlocal inputs
        page.get_by_label(label).fill(text)
        inputs += 1

    opened.open("/ns/default/pipelines")
    page.get_by_role("navigation").get_by_role("link", name="Create").click()
    inputs += 1
    fill("Name (required)", "shop")
    click("Next")
    page.get_by_role("radio", name="SQLite").check()
    inputs += 1
    fill("Path (required)", str(source))
    click("Next")
    expect(page.get_by_text("3 tables of 3 selected")).to_be_visible()
    click("Next")
    page.get_by_role("radio", name="Delta Lake").check()
    inputs += 1
    fill("Path (required)", str(folder / "lake"))
    click("Skip to assessment")
    expect(page.get_by_text("3 tables can be replicated.")).to_be_visible()
    click("Next")
    page.get_by_role("checkbox", name="Start it at once").uncheck()  # a run would start Spark
    with page.expect_response(re.compile("/pipelines$")) as created:
        click("Deploy pipeline")
    assert inputs <= 12
    assert created.value.status == 201
    assert created.value.request.post_data_json == {"draft": "shop", "start": False}
    page.wait_for_url("**/ns/default/pipelines/shop*")
    assert httpx.get(f"{service}/v1/contexts/default/drafts/shop").status_code == 404


def test_draft_is_saved_as_one_types_and_resumed_after_reload(
    quick: Tab, service: str, source: Path, folder: Path
) -> None:
    put(service, "resumed", config(source, folder, "resumed"))
    quick.open("/ns/default/create/resumed/source")
    quick.page.get_by_text("More settings").click()
    quick.page.get_by_label("Chunk rows").fill("77")
    saved(quick.page)
    assert draft(service, "resumed")["config"]["stages"][0]["plugin"]["properties"]["chunkRows"] == 77
    quick.page.reload()
    expect(quick.page.get_by_label("Chunk rows")).to_have_value("77")
    quick.page.get_by_role("button", name="Back").click()
    quick.page.get_by_label("Description").fill("kept")
    quick.page.go_back()
    expect(quick.page.get_by_label("Chunk rows")).to_have_value("77")
    saved(quick.page)
    assert draft(service, "resumed")["config"]["description"] == "kept"


def test_change_elsewhere_is_never_overwritten_without_a_choice(
    quick: Tab, service: str, source: Path, folder: Path
) -> None:
    put(service, "shared", config(source, folder, "shared"))
    quick.open("/ns/default/create/shared/basics")
    put(service, "shared", {**config(source, folder, "shared"), "description": "theirs"})
    description = quick.page.get_by_label("Description")
    description.fill("mine")
    quick.page.get_by_text("This draft was changed elsewhere.").wait_for()
    assert draft(service, "shared")["config"]["description"] == "theirs"
    quick.page.get_by_role("button", name="Load the other version").click()
    expect(description).to_have_value("theirs")
    put(service, "shared", {**config(source, folder, "shared"), "description": "theirs again"})
    description.fill("mine")
    quick.page.get_by_role("button", name="Overwrite it with mine").click()
    saved(quick.page)
    assert draft(service, "shared")["config"]["description"] == "mine"


def test_names_are_shown_and_never_run(quick: Tab, service: str, source: Path, folder: Path) -> None:
    document = {**config(source, folder, "attack"), "description": ATTACK, "tables": [{"table": ATTACK}]}
    put(service, "attack", document, ATTACK)
    quick.open("/ns/default/drafts")
    expect(quick.page.get_by_title(ATTACK)).to_be_visible()
    quick.open("/ns/default/create/attack/tables")
    expect(quick.page.get_by_text("1 table of 3 selected")).to_be_visible()
    quick.page.get_by_role("button", name=f"All 3 columns of main.{ATTACK}").click()
    expect(quick.page.get_by_role("heading", name=f"Columns of main.{ATTACK}")).to_be_visible()
    quick.page.keyboard.press("Escape")
    quick.open("/ns/default/create/attack/summary")
    expect(quick.page.get_by_text(ATTACK).first).to_be_visible()
    assert quick.page.locator("img").count() == 0


def test_columns_and_changes_are_left_out_of_one_table(quick: Tab, service: str, source: Path, folder: Path) -> None:
    put(service, "columns", config(source, folder, "columns"))
    quick.open("/ns/default/create/columns/tables")
    quick.page.get_by_role("button", name="All 3 columns of main.orders").click()
    dialog = quick.page.get_by_role("dialog")
    dialog.get_by_role("checkbox", name="Replicate column price").uncheck()
    expect(dialog.get_by_role("checkbox", name="Replicate column id")).to_be_disabled()
    dialog.get_by_role("button", name="Apply").click()
    quick.page.get_by_role("button", name="Replicate deletes of main.orders").click()
    quick.page.get_by_role("checkbox", name="Replicate main.customers").uncheck()
    saved(quick.page)
    tables = draft(service, "columns")["config"]["tables"]
    assert {
        "database": "main",
        "table": "orders",
        "columns": [{"name": "id"}, {"name": "name"}],
        "dmlBlacklist": ["DELETE"],
    } in tables
    assert {"database": "main", "table": "customers", "exclude": True} in tables
    assert {"table": "*"} in tables


def test_ten_thousand_tables_are_searched_and_selected(quick: Tab, service: str, source: Path, folder: Path) -> None:
    put(service, "many", config(source, folder, "many"))
    tables = [
        {"database": "db", "schema": f"s{n % 10}", "table": f"table_{n:05}", "numColumns": 5, "estimatedRows": n}
        for n in range(10_000)
    ]

    quick.page.route("**/listTables", answering({"tables": tables}))
    quick.open("/ns/default/create/many/tables")
    expect(quick.page.get_by_text("10,000 tables of 10,000 selected")).to_be_visible()
    assert quick.page.locator(".vtable-body [role=row]").count() < 80
    quick.page.get_by_role("checkbox", name="Select all shown tables").uncheck()
    expect(quick.page.get_by_text("0 tables of 10,000 selected")).to_be_visible()
    quick.page.get_by_label("Search tables").fill("s3.*")
    expect(quick.page.get_by_text("1,000 shown")).to_be_visible()
    quick.page.get_by_label("Add a name or a pattern").fill("s3.*")
    quick.page.keyboard.press("Enter")
    expect(quick.page.get_by_text("1,000 tables of 10,000 selected")).to_be_visible()
    quick.page.get_by_label("Search tables").fill("table_09999")
    quick.page.get_by_role("checkbox", name="Replicate s9.table_09999").check()
    expect(quick.page.get_by_text("1,001 tables of 10,000 selected")).to_be_visible()
    assert stored_json(quick.page)["tables"] == [
        {"schema": "s3", "table": "*"},
        {"schema": "s9", "table": "table_09999"},
    ]
    quick.page.get_by_label("Search tables").fill("")
    quick.page.get_by_role("region", name="Tables of the source").evaluate("element => { element.scrollTop = 1e9; }")
    expect(quick.page.get_by_text("s9.table_09999", exact=True).first).to_be_visible()


def test_json_and_form_show_the_same_and_what_is_wrong(opened: Tab, service: str, source: Path, folder: Path) -> None:
    put(service, "both", config(source, folder, "both"))
    opened.open("/ns/default/create/both/advanced")
    field = opened.page.get_by_label("Pipeline JSON", exact=True).last
    opened.page.get_by_label("Number of tasks").fill("9")
    expect(field).to_have_value(re.compile('"parallelism"'))
    assert stored_json(opened.page)["parallelism"] == {"tables": 9}
    document = {**stored_json(opened.page), "onTableError": "stop", "unknownToTheForm": [1]}
    field.fill(json.dumps(document))
    expect(opened.page.get_by_label("A failing table stops")).to_have_value("1")
    field.fill(json.dumps({**document, "onTableError": "nonsense"}))
    expect(opened.page.locator(".field .wrong")).to_be_visible()
    field.fill("{")
    expect(opened.page.get_by_text("Not applied")).to_be_visible()
    saved(opened.page)
    assert draft(service, "both")["config"]["unknownToTheForm"] == [1]


def test_secret_is_only_ever_a_reference(quick: Tab, service: str) -> None:
    stage = {"name": "source", "plugin": {"name": "postgres", "type": "cdcSource", "properties": {}}}
    put(service, "secret", {"name": "secret", "stages": [stage], "connections": [], "tables": []})
    quick.open("/ns/default/create/secret/source")
    password = quick.page.get_by_label("Password", exact=True)
    password.fill("database-password")
    saved(quick.page)
    stored = draft(service, "secret")["config"]["stages"][0]["plugin"]["properties"]
    assert stored == {"password": "${secure(database-password)}"}
    quick.page.get_by_label("Password: where it is stored").select_option("env")
    password.fill("${env(PGPASSWORD)}")
    saved(quick.page)
    stored = draft(service, "secret")["config"]["stages"][0]["plugin"]["properties"]
    assert stored == {"password": "${env(PGPASSWORD)}"}
    quick.page.get_by_role("button", name="Next").click()
    expect(quick.page.get_by_text("Host: This is needed.")).to_be_visible()
    assert quick.page.url.endswith("/source")


def test_errors_of_an_assessment_block_the_next_step(opened: Tab, service: str, folder: Path, source: Path) -> None:
    put(service, "blocked", config(folder / "missing.db", folder, "blocked"))
    opened.open("/ns/default/create/blocked/assessment")
    opened.page.get_by_role("button", name="Next").click()
    expect(opened.page.locator(".wizard-foot .wrong-line")).to_be_visible()
    expect(opened.page.get_by_text("Next:").first).to_be_visible()
    assert opened.page.url.endswith("/assessment")


def test_wizard_needs_no_mouse(quick: Tab, service: str, source: Path, folder: Path) -> None:
    keys = quick.page.keyboard

    def reach(label: str) -> None:
        for _ in range(60):
            keys.press("Tab")
            if quick.page.evaluate(
                "(label) => { const e = document.activeElement; const text = (e.labels?.[0]?.textContent ?? e.getAttribute('aria-label') ?? e.textContent).trim(); return text.startsWith(label); }",
                label,
            ):
                return
        pytest.fail(f"Tab does not reach {label}")

    quick.open("/ns/default/create")
    expect(quick.page.get_by_label("Name (required)")).to_be_focused()
    keys.type("the keys")
    expect(quick.page.get_by_label("Name (required)")).to_have_value("the keys")
    expect(quick.page.get_by_role("alert")).to_be_visible()  # a name with a space is refused, and not changed unseen
    keys.press("Control+a")
    keys.type("keys ")
    keys.press("Enter")
    quick.page.wait_for_url("**/keys/source")
    quick.page.get_by_role("radio").first.wait_for()
    reach("PostgreSQL")
    for _ in range(2):
        keys.press("ArrowDown")
    expect(quick.page.get_by_role("radio", name="SQLite")).to_be_checked()
    quick.page.get_by_label("Path (required)").wait_for()
    reach("Path")
    keys.type(str(source))
    keys.press("Enter")
    quick.page.wait_for_url("**/keys/tables")
    expect(quick.page.get_by_text("3 tables of 3 selected")).to_be_visible()
    reach("Replicate main.customers")
    keys.press("Space")
    expect(quick.page.get_by_text("2 tables of 3 selected")).to_be_visible()
    reach("Next")
    keys.press("Enter")
    quick.page.wait_for_url("**/keys/target")
    quick.page.get_by_role("radio").first.wait_for()
    reach("Delta Lake")
    keys.press("Space")
    quick.page.get_by_label("Path (required)").wait_for()
    reach("Path")
    keys.type(str(folder / "lake"))
    keys.press("Enter")
    quick.page.wait_for_url("**/keys/advanced")


def copied(page: Page, beginning: str) -> str:
    """What is on the clipboard, once it begins so."""
    deadline = time.monotonic() + WAIT / 1000
    while not (text := str(page.evaluate("navigator.clipboard.readText()"))).startswith(beginning):
        assert time.monotonic() < deadline, text
        time.sleep(0.1)
    return text


def test_action_is_copied_as_a_command_and_as_a_request(quick: Tab, service: str, source: Path, folder: Path) -> None:
    put(service, "copied", config(source, folder, "copied"))
    quick.open("/ns/default/create/copied/summary")
    quick.page.get_by_role("button", name="Copy as CLI").click()
    assert copied(quick.page, "# Instead of Deploy").endswith("\nreplicator run copied.json")
    quick.page.get_by_role("button", name="Copy as curl").click()
    request = copied(quick.page, "curl")
    assert f"{service}/v1/contexts/default/pipelines" in request
    assert '{"draft":"copied","start":true}' in request
