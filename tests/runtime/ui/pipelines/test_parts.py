"""The parts of a pipeline's page, each at an address of its own; tokens and the audit log."""

from __future__ import annotations

import json

from fastapi.responses import JSONResponse
from playwright.sync_api import expect

from tests.runtime.ui.browser import Tab
from tests.runtime.ui.pipelines import examples
from tests.runtime.ui.pipelines.imitation import Imitation

SHOP = "/ns/default/pipelines/shop"
API = "/v1/contexts/default/pipelines/shop"


def last_sent(service: Imitation) -> tuple[str, str, object]:
    """The change that the page asked for last."""
    sent = service.sent[-1]
    return sent.method, sent.path, sent.body


def test_each_part_has_an_address_and_keeps_the_place(opened: Tab) -> None:
    opened.open(SHOP)
    parts = opened.page.get_by_role("navigation", name="Parts of this pipeline")
    parts.get_by_role("link", name="Logs").press("Enter")
    opened.page.wait_for_url(f"**{SHOP}/logs")
    expect(opened.page.get_by_role("region", name="Logs of shop")).to_be_focused()
    opened.page.go_back()
    expect(parts.get_by_role("link", name="Tables")).to_have_attribute("aria-current", "page")


def test_picture_says_where_the_pipeline_is_late(opened: Tab, service: Imitation) -> None:
    opened.open(SHOP)
    picture = opened.page.locator(".picture svg")
    for text in (
        "postgres · shop",
        "holds 45.8 MiB of log of 9.3 GiB",
        "0.6 s late",
        "0.8 s to apply",
        "delta · s3://lake/shop",
    ):
        expect(picture).to_contain_text(text)
    service.put_status(
        "shop", examples.status(5, sourceState="FAILING", sourceError={"code": "RPL-3001", "message": "x", "hint": ""})
    )
    expect(picture).to_contain_text("fails: RPL-3001")
    expect(picture).to_have_attribute(
        "aria-label",
        "Source, postgres · shop, fails: RPL-3001, holds 45.8 MiB of log of 9.3 GiB, 23.9 h until its limit; cannot be read, 0.6 s late; Replicator, Running, 1,234.5 rows/s, 11 replicating, 1 failing; 1,235 rows/s, 0.8 s to apply; Target, delta · s3://lake/shop, slowest table 1.4 s late, objective kept: 99.9 % fresh",
    )


def test_charts_follow_the_stream_and_are_tables_too(opened: Tab, service: Imitation) -> None:
    opened.open(f"{SHOP}/monitoring")
    lag = opened.page.get_by_role("figure", name="Lag", exact=True)
    expect(lag.locator("canvas")).to_be_visible()
    service.put_status("shop", examples.status(5, lagSeconds=61.5))
    expect(lag).to_contain_text("Lag: 62 s")
    lag.get_by_role("button", name="Show as table").press("Enter")
    expect(lag.get_by_role("row").nth(1)).to_contain_text("62 s")


def test_schema_change_is_approved_after_its_effect_was_said(opened: Tab, service: Imitation) -> None:
    opened.open(f"{SHOP}/schema-changes")
    change = opened.page.get_by_role("listitem").filter(has_text="drop column note")
    change.get_by_role("button", name="Approve").click()
    dialog = opened.page.get_by_role("dialog")
    expect(dialog).to_contain_text('The target follows "drop column note" of public.payments')
    dialog.get_by_role("button", name="Approve").click()
    expect(opened.page.get_by_label("What was asked for")).to_contain_text("done")
    assert last_sent(service) == ("POST", f"{API}/schemaChanges/3f0c9a51be/approve", None)
    only = opened.page.get_by_role("listitem").filter(has_text="type of price")
    expect(only.get_by_role("button", name="Reject")).to_be_disabled()
    expect(only).to_contain_text("It can only be approved")


def test_error_has_a_button_for_what_its_hint_advises(opened: Tab, service: Imitation) -> None:
    for name in ("a", "b"):
        service.put_table(
            "shop", examples.row(name, state="FAILING", error=examples.FAULT, failingSince=examples.ago(60))
        )
    opened.open(f"{SHOP}/errors")
    group = opened.page.locator(".error-group").filter(has_text="RPL-5010")
    expect(group).to_contain_text("in 3 tables")
    expect(group).to_contain_text("Next: widen the column, then replicator table retry")
    retry = group.get_by_role("button", name="Retry")
    expect(retry).to_have_attribute("title", "Tries 3 tables again now.")
    retry.click()
    expect(opened.page.get_by_label("What was asked for")).to_contain_text("done")
    method, path, body = last_sent(service)
    assert (method, path) == ("POST", f"{API}/tables/retry")
    assert sorted(body["tables"]) == ["shop.public.a", "shop.public.b", "shop.public.orders"]  # type: ignore[index]


def test_rewind_shows_its_plan_and_has_the_name_typed(opened: Tab, service: Imitation) -> None:
    service.put({**examples.item("shop", state="stopped", wanted="stopped"), "config": examples.CONFIG})
    plan = {
        "offset": "0/1A2B0008",
        "name": "offset.00000000000000000008",
        "savedOffset": "0/1A2B0009",
        "repeatedChanges": 1000,
        "done": False,
    }
    table = {
        "table": "public.orders",
        "position": "0/9",
        "goesBackTo": "0/8",
        "what": "goes back",
        "rows": 100,
        "rowsThen": 90,
    }
    job = {
        "id": "01R",
        "command": ["rewind"],
        "state": "done",
        "result": {"data": {**plan, "tables": [table]}, "error": None},
    }
    service.outcomes["/offsets/rewind"] = {**job, "state": "running", "result": None}
    service.answers["/jobs/01R"] = job
    opened.open(f"{SHOP}/offsets")
    opened.page.get_by_role("button", name="Rewind to 0/1A2B0008").click()
    dialog = opened.page.get_by_role("dialog")
    expect(dialog.get_by_role("row").nth(1)).to_contain_text("public.orders")
    expect(dialog).to_contain_text("reads about 1,000 changes again")
    assert last_sent(service)[2] == {"offset": "offset.00000000000000000008", "planOnly": True}
    button = dialog.get_by_role("button", name="Rewind", exact=True)
    expect(button).to_be_disabled()
    dialog.get_by_label("Type shop to confirm").fill("shop")
    button.click()
    expect(opened.page.get_by_label("What was asked for")).to_contain_text("Rewind: shop")
    opened.page.wait_for_function("() => document.querySelectorAll('.followed li').length === 2")
    assert last_sent(service) == ("POST", f"{API}/offsets/rewind", {"offset": "offset.00000000000000000008"})


def test_logs_are_filtered_by_the_service(opened: Tab) -> None:
    opened.open(f"{SHOP}/logs?level=warning")
    lines = opened.page.get_by_role("log")
    expect(lines.get_by_role("listitem")).to_have_count(60)
    opened.page.get_by_placeholder("Text").fill("slot lost")
    opened.page.get_by_placeholder("Table").fill("public.orders")
    expect(lines.get_by_role("listitem").last).to_be_visible()
    opened.page.wait_for_function("() => location.search.includes('table=public.orders')")
    opened.page.wait_for_timeout(400)
    assert opened.requests[-1] == f"GET {API}/logs?level=warning&text=slot+lost&table=public.orders&limit=200"


def test_edit_is_planned_then_saved_then_approved(opened: Tab, service: Imitation) -> None:
    step = {
        "subject": "public.orders",
        "change": "column note is taken out",
        "effect": "the table is copied again",
        "cost": {"text": "about 3 rows"},
        "needsApproval": True,
        "reason": "it copies",
        "refused": False,
        "code": None,
        "suggestion": None,
    }
    plan = {
        "plan": "3f0c9a51be77",
        "isFirst": False,
        "needsApproval": True,
        "edits": "ask",
        "steps": [step],
        "error": None,
    }
    service.outcomes["/plan"] = plan
    service.outcomes["/approvals"] = {"plan": "3f0c9a51be77", "request": "01", "by": "local", "at": examples.ago(0)}
    service.outcomes["/pipelines/shop"] = service.items["shop"]
    opened.open(f"{SHOP}/configuration")
    opened.page.get_by_role("button", name="Edit", exact=True).click()
    text = opened.page.get_by_label("Pipeline JSON")
    text.fill("{")
    opened.page.get_by_role("button", name="Show the plan").click()
    expect(opened.page.get_by_role("alert")).to_contain_text("This is not JSON")
    config = {**examples.CONFIG, "slo": {"minutes": 5}}
    text.fill(json.dumps(config))
    expect(opened.page.get_by_role("button", name="Save")).to_be_disabled()
    opened.page.get_by_role("button", name="Show the plan").click()
    expect(opened.page.get_by_role("region", name="Plan")).to_contain_text("the table is copied again")
    assert last_sent(service) == ("POST", f"{API}/plan", {"config": config})
    opened.page.get_by_role("button", name="Save").click()
    expect(opened.page.get_by_role("button", name="Edit", exact=True)).to_be_visible()
    assert last_sent(service) == ("PUT", API, {"config": config})
    assert service.sent[-1].headers["if-match"] == '"1"'
    opened.page.get_by_role("button", name="Approve this plan").click()
    expect(opened.page.get_by_label("What was asked for")).to_contain_text("the next start applies it")
    assert last_sent(service) == ("POST", f"{API}/approvals", {"plan": "3f0c9a51be77"})


def test_edit_of_a_configuration_that_was_changed_elsewhere_is_refused(opened: Tab, service: Imitation) -> None:
    service.outcomes["/plan"] = {
        "plan": "3f0c9a51be77",
        "isFirst": False,
        "needsApproval": False,
        "edits": "ask",
        "steps": [],
        "error": None,
    }
    service.outcomes["/pipelines/shop"] = JSONResponse(
        {"status": 412, "code": "RPL-1505", "detail": "it has version 4", "hint": "read it again"}, 412
    )
    opened.open(f"{SHOP}/configuration")
    opened.page.get_by_role("button", name="Edit", exact=True).click()
    opened.page.get_by_label("Pipeline JSON").fill("{}")
    opened.page.get_by_role("button", name="Show the plan").click()
    opened.page.get_by_role("button", name="Save").click()
    expect(opened.page.get_by_role("alert")).to_contain_text("It was changed elsewhere since it was loaded")


def test_activity_and_lineage_are_listed(opened: Tab) -> None:
    opened.open(f"{SHOP}/activity")
    entries = opened.page.locator(".timeline > li")
    expect(entries).to_have_count(4)
    opened.page.get_by_role("button", name="Job", exact=True).click()
    expect(entries).to_have_count(1)
    expect(entries).to_contain_text("RPL-5030: 3 rows differ")
    opened.open(f"{SHOP}/lineage")
    expect(opened.page.get_by_role("row").nth(1)).to_have_text("idint8idint64")


def test_token_is_shown_once(opened: Tab, service: Imitation) -> None:
    service.outcomes["/v1/tokens"] = {"id": "01C", "token": "rpl_only-now"}
    opened.open("/settings/tokens")
    opened.page.get_by_label("Label").fill("deploy")
    opened.page.get_by_label("Valid for days").fill("30")
    opened.page.get_by_role("button", name="Create", exact=True).click()
    expect(opened.page.get_by_role("dialog")).to_contain_text("rpl_only-now")
    assert last_sent(service) == (
        "POST",
        "/v1/tokens",
        {"label": "deploy", "role": "operator", "namespace": "*", "validDays": 30},
    )
    opened.page.get_by_role("button", name="I have stored it").click()
    assert "rpl_only-now" not in opened.page.content()
    opened.page.get_by_role("button", name="Revoke ana's laptop").click()
    opened.page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
    expect(opened.page.get_by_role("dialog")).to_have_count(0)
    assert last_sent(service)[:2] == ("DELETE", "/v1/tokens/01A")


def test_audit_log_is_for_admins(opened: Tab, service: Imitation) -> None:
    opened.open("/settings/audit")
    expect(opened.page.get_by_role("row")).to_have_count(6)
    service.role = "operator"
    opened.open("/settings/audit")
    expect(opened.page.get_by_role("heading", name="For admins of the whole service")).to_be_visible()
