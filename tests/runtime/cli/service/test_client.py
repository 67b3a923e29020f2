"""What is sent to a service, and what its answers become."""

from __future__ import annotations

import json
import socket

import pytest

from replicator_runtime.cli.remote.client import Service
from replicator_sdk.errors import NeedsUserError, ReplicatorError, RetryableError
from tests.runtime.cli.conftest import Replicator
from tests.runtime.cli.service.scripted import Answer, Scripted

START = "POST /v1/contexts/default/pipelines/shop/start"


def test_a_problem_is_printed_as_an_error_with_its_code_hint_and_exit_code(
    replicator: Replicator, service: Scripted
) -> None:
    problem = {
        "detail": "a decision is needed",
        "code": "RPL-1260",
        "class": "schema_drift",
        "exitCode": 6,
        "hint": "`replicator approve NAME ID`",
        "table": "shop.orders",
    }
    service.answer(START, Answer(problem, 409))
    done = replicator("start", "shop", "--server", service.url)
    assert done.exit_code == 6
    assert "error RPL-1260: a decision is needed [table shop.orders]" in done.stderr
    assert f"`replicator approve shop --server {service.url} ID`" in done.stderr
    error = json.loads(replicator("start", "shop", "--server", service.url, "--json").stdout)["error"]
    assert (error["code"], error["class"], error["table"]) == ("RPL-1260", "schema_drift", "shop.orders")


def test_each_wrong_part_of_a_request_is_named(service: Scripted) -> None:
    errors = [{"pointer": "/body/tables", "message": "too long"}]
    service.answer("POST /v1/x", Answer({"code": "RPL-1500", "detail": "not valid", "errors": errors}, 422))
    with pytest.raises(NeedsUserError, match="not valid; /body/tables: too long"):
        Service(service.url).post("/v1/x")


@pytest.mark.parametrize(("status", "exit_code"), [(500, 1), (503, 4), (403, 3)])
def test_a_problem_ends_with_the_exit_code_that_it_names(service: Scripted, status: int, exit_code: int) -> None:
    service.answer("GET /v1/x", Answer({"code": "RPL-1", "detail": "x", "exitCode": exit_code}, status))
    with pytest.raises(ReplicatorError) as raised:
        Service(service.url).get("/v1/x")
    assert raised.value.exit_code == exit_code


def test_the_token_is_sent_as_a_bearer_and_printed_nowhere(
    replicator: Replicator, service: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = "rpl_" + "s3cr3t" * 8
    monkeypatch.setenv("REPLICATOR_TOKEN", token + "\n")
    service.answer(START, Answer({"code": "RPL-1540", "detail": f"no such token: {token}"}, 401))
    done = replicator("start", "shop", "--server", service.url, "--debug")
    assert service.sent[0].headers["Authorization"] == f"Bearer {token}"
    assert done.exit_code == 3
    assert token not in done.output


def test_a_token_that_can_be_none_is_refused_without_being_repeated(
    service: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REPLICATOR_TOKEN", "rpl_abc\r\nX-Other: 1")
    with pytest.raises(NeedsUserError, match="RPL-1584") as raised:
        Service(service.url)
    assert "rpl_abc" not in str(raised.value)
    assert service.sent == []


def test_a_redirect_is_not_followed(service: Scripted) -> None:
    """Another host would get the token."""
    service.answer("GET /v1/x", Answer(b"<html>", 302, {"Location": f"{service.url}/v1/y"}))
    with pytest.raises(NeedsUserError, match="RPL-1582"):
        Service(service.url).get("/v1/x")
    assert [sent.path for sent in service.sent] == ["/v1/x"]


def test_what_is_no_service_is_said_to_be_none(service: Scripted) -> None:
    service.answer("GET /v1/x", Answer(b"<html>welcome</html>"))
    with pytest.raises(NeedsUserError, match="RPL-1582"):
        Service(service.url).get("/v1/x")


def test_a_change_is_sent_again_with_the_same_key_after_the_connection_was_lost(service: Scripted) -> None:
    service.answer("POST /v1/x", Answer(status=0), Answer({"ok": True}))
    assert Service(service.url).post("/v1/x") == {"ok": True}
    first, second = service.sent
    assert first.headers["Idempotency-Key"] == second.headers["Idempotency-Key"]


def test_a_service_that_is_away_is_an_error_to_be_tried_again() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
        with pytest.raises(RetryableError, match="RPL-1581"):
            Service(url).get("/v1/x")


def test_a_list_is_read_to_its_end_also_below_the_path_of_a_proxy(service: Scripted) -> None:
    following = {"Link": '</below/v1/list?after=b&limit=2>; rel="next"'}
    service.answer("GET /below/v1/list?limit=2", Answer(["a", "b"], headers=following))
    service.answer("GET /below/v1/list?after=b&limit=2", Answer(["c"]))
    assert list(Service(f"{service.url}/below/").every("/v1/list", limit=2)) == ["a", "b", "c"]


@pytest.mark.parametrize(
    "url",
    [
        "localhost:11015",
        "ftp://x",
        "http://",
        "http://me:secret@x",
        "http://x/?token=secret",
        "http://x:0",
        "http://x:y",
    ],
)
def test_an_address_that_is_none_or_holds_a_secret_is_refused_without_being_repeated(url: str) -> None:
    with pytest.raises(NeedsUserError, match="RPL-1583") as raised:
        Service(url)
    assert "secret" not in str(raised.value)


def test_a_token_on_its_way_without_encryption_is_warned_of(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("REPLICATOR_TOKEN", "rpl_x")
    Service("http://127.0.0.1:1")
    Service("https://db.example.com")
    assert capsys.readouterr().err == ""
    Service("http://db.example.com")
    assert "without encryption" in capsys.readouterr().err
