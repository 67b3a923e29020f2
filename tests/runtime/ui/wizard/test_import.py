"""A pipeline's JSON becomes a draft: from a text or a file; what is wrong is said with its field and the next step."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import httpx
from playwright.sync_api import Locator, expect

from tests.runtime.ui.browser import Tab
from tests.runtime.ui.test_create import config


def opened_dialog(opened: Tab) -> Locator:
    """The dialog, reached by the keyboard."""
    opened.open("/ns/default/drafts")
    opened.page.get_by_role("button", name="Import").press("Enter")
    return opened.page.get_by_role("dialog")


def stored(service: str, name: str) -> httpx.Response:
    """A draft of the service."""
    return httpx.get(f"{service}/v1/contexts/default/drafts/{name}", timeout=300)


def test_text_that_is_no_pipeline_is_refused_with_its_place(opened: Tab) -> None:
    dialog = opened_dialog(opened)
    act = dialog.get_by_role("button", name="Import", exact=True)
    for text, said in (
        ('{\n  "stages": [}', "Line 2, column 14: this is not JSON."),
        ("[1]", "This JSON is no object"),
        ('{"name": "x"}', "/stages Is missing"),
        ('{"config": {"name": "x"}}', "/config/stages Is missing"),
        ('{"stages": [1]}', "/stages/0 Is no object"),
    ):
        dialog.get_by_label("JSON").fill(text)
        act.click()
        expect(dialog.get_by_role("alert")).to_contain_text(said)
        expect(dialog.get_by_role("alert")).to_contain_text("Next:")
        expect(act).to_be_disabled()


def test_file_with_a_wrong_field_is_imported_as_a_draft_after_it_was_said(
    opened: Tab, service: str, folder: Path
) -> None:
    document = {**config(folder / "shop.db", folder, "wrong"), "onTableError": "nonsense"}
    file = folder / "wrong.json"
    file.write_text(json.dumps({"name": "wrong", "label": "a draft", "config": document}))
    dialog = opened_dialog(opened)
    dialog.get_by_label("File").set_input_files(file)
    expect(dialog.get_by_label("Name")).to_have_value("wrong")
    dialog.get_by_role("button", name="Import", exact=True).click()
    expect(dialog.get_by_role("alert")).to_contain_text("1 field of this pipeline is wrong or missing.")
    expect(dialog.get_by_role("alert").locator("code").first).to_have_text("/onTableError")
    expect(dialog.get_by_role("alert")).to_contain_text("Next:")
    assert stored(service, "wrong").status_code == 404
    dialog.get_by_role("button", name="Import as it is").press("Enter")
    opened.page.wait_for_url("**/create/wrong/basics")
    assert stored(service, "wrong").json()["config"]["onTableError"] == "nonsense"


def test_secret_in_a_pasted_pipeline_is_refused_with_its_field_and_nothing_is_stored(opened: Tab, service: str) -> None:
    properties: dict[str, Any] = {"host": "db", "database": "shop", "user": "u", "password": "plain-text"}
    stage = {"name": "source", "plugin": {"name": "postgres", "type": "cdcSource", "properties": properties}}
    dialog = opened_dialog(opened)
    dialog.get_by_label("JSON").fill(json.dumps({"name": "leaky", "stages": [stage]}))
    dialog.get_by_role("button", name="Import", exact=True).click()
    alert = dialog.get_by_role("alert")
    expect(alert).to_contain_text("It was not imported")
    expect(alert.locator("li code")).to_have_text(re.compile("/stages/0/plugin/properties/password$"))
    expect(alert).to_contain_text("Next:")
    expect(alert).not_to_contain_text("plain-text")
    assert stored(service, "leaky").status_code == 404


def test_pipeline_is_imported_into_the_draft_that_is_being_created(opened: Tab, service: str, folder: Path) -> None:
    document = {key: value for key, value in config(folder / "shop.db", folder, "of-cdap").items() if key != "name"}
    job = {"name": "of-cdap", "artifact": {"name": "cdap-data-pipeline"}, "config": document}
    opened.open("/ns/default/create")
    opened.page.get_by_role("button", name="Import JSON").click()
    dialog = opened.page.get_by_role("dialog")
    dialog.get_by_label("JSON").fill(json.dumps(job))
    dialog.get_by_role("button", name="Import", exact=True).press("Enter")
    expect(dialog).to_have_count(0)
    expect(opened.page.get_by_label("Name (required)")).to_have_value("of-cdap")
    opened.page.get_by_role("button", name="Next").click()
    opened.page.wait_for_url("**/create/of-cdap/source")
    assert stored(service, "of-cdap").json()["config"]["stages"] == document["stages"]
