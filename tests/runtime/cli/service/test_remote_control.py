"""What a service is asked to do, and what is printed of its outcome."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.runtime.cli.conftest import Replicator
from tests.runtime.cli.service.scripted import Answer, Scripted

PIPELINE = "/v1/contexts/default/pipelines/shop"
ASKED = Answer({"requestId": "R"}, 202)


def request(state: str, **more: Any) -> Answer:
    known: dict[str, Any] = {
        "request": "R",
        "state": state,
        "endedBy": None,
        "lines": [],
        "code": "",
        "message": "",
        "hint": "",
    }
    return Answer({**known, "problem": {}, **more})


def test_the_outcome_of_a_request_is_waited_for_and_printed(replicator: Replicator, service: Scripted) -> None:
    service.answer(f"POST {PIPELINE}/tables/pause", ASKED)
    done = request("done", endedBy="run 1", lines=["orders is paused"])
    service.answer(f"GET {PIPELINE}/requests/R", request("waiting"), done)
    shown = replicator("table", "pause", "shop", "orders", "--server", service.url)
    assert (shown.exit_code, shown.stdout) == (0, "orders is paused\n")
    assert service.sent[0].body == {"tables": ["orders"]}
    data = json.loads(replicator("pause", "shop", "--server", service.url, "--json").stdout)["error"]
    assert data["code"] == "RPL-1501"


def test_the_data_of_a_request_is_that_of_the_local_form(replicator: Replicator, service: Scripted) -> None:
    service.answer(f"POST {PIPELINE}/pause", ASKED)
    service.answer(f"GET {PIPELINE}/requests/R", request("done", endedBy="run 1", lines=["paused"]))
    envelope = json.loads(replicator("pause", "shop", "--server", service.url, "--json").stdout)
    assert envelope["data"] == {"request": "R", "state": "done", "by": "run 1", "lines": ["paused"]}


@pytest.mark.parametrize(("state", "exit_code"), [("refused", 3), ("failed", 1)])
def test_a_request_that_was_not_done_is_an_error(
    replicator: Replicator, service: Scripted, state: str, exit_code: int
) -> None:
    service.answer(f"POST {PIPELINE}/pause", ASKED)
    outcome = request(state, code="RPL-1246", message="it is paused", hint="`replicator resume NAME`")
    service.answer(f"GET {PIPELINE}/requests/R", outcome)
    done = replicator("pause", "shop", "--server", service.url)
    assert done.exit_code == exit_code
    assert f"error RPL-1246: it is paused. Next: `replicator resume shop --server {service.url}`" in done.stderr


def test_a_request_that_no_one_has_begun_in_time_is_withdrawn(replicator: Replicator, service: Scripted) -> None:
    service.answer(f"POST {PIPELINE}/pause", ASKED)
    problem = {"code": "RPL-2001", "message": "the source is away", "hint": ""}
    service.answer(f"GET {PIPELINE}/requests/R", request("waiting", problem=problem))
    service.answer(f"DELETE {PIPELINE}/requests/R", Answer(status=204))
    done = replicator("pause", "shop", "--timeout", 0, "--server", service.url)
    assert done.exit_code == 4
    assert "RPL-1226" in done.stderr
    assert "RPL-2001: the source is away" in done.stderr


def test_a_request_that_was_begun_is_said_to_be_still_done(replicator: Replicator, service: Scripted) -> None:
    service.answer(f"POST {PIPELINE}/pause", ASKED)
    service.answer(f"GET {PIPELINE}/requests/R", request("waiting"))
    service.answer(f"DELETE {PIPELINE}/requests/R", Answer({"code": "RPL-1563", "detail": "begun"}, 409))
    done = replicator("pause", "shop", "--timeout", 0, "--server", service.url)
    assert (done.exit_code, "RPL-1227" in done.stderr) == (4, True)


@pytest.mark.parametrize(
    "words",
    [["table", "resync", "shop", "orders"], ["table", "drop", "shop", "orders"], ["reset", "shop"], ["delete", "shop"]],
)
def test_nothing_is_lost_without_a_confirmation(replicator: Replicator, service: Scripted, words: list[str]) -> None:
    done = replicator(*words, "--server", service.url)
    assert "RPL-1228" in done.stderr
    assert service.sent == []


def job(state: str, **result: Any) -> Answer:
    envelope = {"data": None, "warnings": [], "error": None, "lines": [], **result}
    return Answer({"id": "J", "state": state, "exitCode": None, "result": envelope if result else None}, 202)


def test_what_a_job_prints_is_printed_and_its_error_ends_the_command(replicator: Replicator, service: Scripted) -> None:
    service.answer(f"POST {PIPELINE}/verify", job("waiting"))
    error = {"code": "RPL-5030", "class": "data", "message": "1 of 1 tables differ", "hint": "", "table": "orders"}
    ended = job("failed", data={"equal": False}, lines=["TABLE  RESULT", "orders different"], error=error)
    service.answer("GET /v1/contexts/default/jobs/J", job("running"), ended)
    done = replicator("verify", "shop", "orders", "--server", service.url)
    assert done.exit_code == 5
    assert done.stdout == "TABLE  RESULT\norders different\n"
    assert "error RPL-5030: 1 of 1 tables differ [table orders]" in done.stderr
    envelope = json.loads(replicator("verify", "shop", "orders", "--server", service.url, "--json").stdout)
    assert (envelope["data"], envelope["error"]["code"]) == ({"equal": False}, "RPL-5030")


def test_a_job_that_the_service_lost_is_said_to_be_lost(replicator: Replicator, service: Scripted) -> None:
    service.answer(f"POST {PIPELINE}/verify", job("lost"))
    done = replicator("verify", "shop", "--server", service.url)
    assert (done.exit_code, "RPL-1591" in done.stderr) == (4, True)


def test_delete_ends_when_the_pipeline_is_gone(replicator: Replicator, service: Scripted) -> None:
    service.answer(f"DELETE {PIPELINE}?targetTables=true&keepSource=false", Answer({"state": "deleting"}, 202))
    gone = Answer({"code": "RPL-1520", "detail": "there is no such pipeline", "exitCode": 3}, 404)
    service.answer(f"GET {PIPELINE}", Answer({"state": "deleting", "lastError": None}), gone)
    done = replicator("delete", "shop", "--yes", "--target-tables", "--server", service.url)
    assert (done.exit_code, done.stdout) == (0, "shop (namespace default) is deleted\n")


def test_delete_ends_with_the_error_of_what_could_not_be_deleted(replicator: Replicator, service: Scripted) -> None:
    service.answer(f"DELETE {PIPELINE}?targetTables=false&keepSource=false", Answer({"state": "deleting"}, 202))
    fault = {"code": "RPL-2001", "message": "the source is away", "hint": "", "table": ""}
    failed = {"state": "deleting", "exitCode": 4, "nextStart": None, "lastError": fault}
    service.answer(f"GET {PIPELINE}", Answer(failed))
    done = replicator("delete", "shop", "--yes", "--server", service.url)
    assert (done.exit_code, "error RPL-2001: the source is away" in done.stderr) == (4, True)


def test_a_plan_that_waits_for_an_approval_is_printed_and_ends_with_its_exit_code(
    replicator: Replicator, service: Scripted
) -> None:
    step = {
        "subject": "public.orders",
        "change": "selected, and is not now",
        "effect": "its copy stays",
        "cost": {"text": ""},
        "needsApproval": True,
        "awaitsApproval": True,
        "reason": "it is replicated no more",
        "refused": False,
        "code": None,
        "suggestion": None,
    }
    error = {"code": "RPL-1260", "class": "schema_drift", "message": "1 step needs an approval", "hint": ""}
    plan = {"plan": "3f0c9a51be77", "isFirst": False, "needsApproval": True, "edits": "ask", "steps": [step]}
    service.answer(f"POST {PIPELINE}/plan", Answer({**plan, "error": error}))
    done = replicator("plan", "shop", "--server", service.url)
    assert done.exit_code == 6
    assert "APPROVE  public.orders: selected, and is not now" in done.stdout
    assert "plan 3f0c9a51be77: 1 step, 1 to approve" in done.stdout


@pytest.mark.parametrize("words", [["verify", "shop", "--show-keys"], ["reset", "shop", "--lost-state", "--yes"]])
def test_what_a_service_does_not_take_is_refused(replicator: Replicator, service: Scripted, words: list[str]) -> None:
    assert replicator(*words, "--server", service.url).exit_code == 2
    assert service.sent == []
