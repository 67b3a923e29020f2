"""The rules that every request meets."""

from __future__ import annotations

import asyncio
import json
import re
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import pytest
from fastapi import FastAPI
from pydantic import BaseModel
from sqlalchemy.exc import OperationalError

from replicator_runtime.service.access import repeats
from replicator_runtime.service.access.operations import Operation
from replicator_runtime.service.access.requests import repeating
from replicator_runtime.service.access.requests.bodies import check_json
from replicator_runtime.service.access.requests.rates import Buckets
from replicator_runtime.service.access.requests.repeating import Repeating
from replicator_runtime.service.access.requests.streams import OpenStreams, Streams
from replicator_runtime.service.access.requirement import requires
from replicator_runtime.service.access.roles import Principal, Role
from replicator_runtime.service.problems import ProblemError
from replicator_runtime.service.settings import Auth
from tests.runtime.service.event_loops import run
from tests.runtime.service.services import ADDRESS, Service, running

PATH = "/v1/contexts/sales/probe"


class _Body(BaseModel):
    text: str = ""
    number: int = 0


@pytest.fixture(scope="module")
def open_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with running(tmp_path_factory.mktemp("open")) as service:
        _add_probe(service)
        yield service


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with running(tmp_path_factory.mktemp("guarded"), Auth.TOKENS) as service:
        _add_probe(service)
        yield service


def _add_probe(service: Service) -> None:
    application = service.client.app
    assert isinstance(application, FastAPI)
    application.state.calls = 0

    @application.post("/v1/contexts/{namespace}/probe", operation_id="probe", status_code=201)
    def probe(principal: Annotated[Principal, requires(Role.OPERATOR)], body: _Body | None = None) -> dict[str, Any]:
        application.state.calls += 1
        if body is not None and body.text == "fail":
            raise RuntimeError("password=hunter2")
        if body is not None and body.text == "large":
            return {"calls": application.state.calls, "text": "x" * 70_000}
        return {"calls": application.state.calls}


def _code(response: Any) -> tuple[int, str]:
    assert response.headers["content-type"] == "application/problem+json"
    return response.status_code, response.json()["code"]


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example:11015", "", "localhost@evil", "192.0.2.1"])
def test_another_name_is_refused_on_loopback(open_service: Service, host: str) -> None:
    assert _code(open_service.client.get("/livez", headers={"Host": host})) == (421, "RPL-1545")


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:1", "[::1]:11015", "LOCALHOST:80"])
def test_names_of_loopback_are_taken(open_service: Service, host: str) -> None:
    assert open_service.client.get("/livez", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": ADDRESS, "Sec-Fetch-Site": "cross-site"},
    ],
)
def test_another_sites_page_changes_nothing(open_service: Service, headers: dict[str, str]) -> None:
    assert _code(open_service.client.post(PATH, headers=headers)) == (403, "RPL-1546")


@pytest.mark.parametrize("headers", [{}, {"Origin": ADDRESS}, {"Sec-Fetch-Site": "same-origin", "Origin": ADDRESS}])
def test_the_own_page_and_programs_may_change(open_service: Service, headers: dict[str, str]) -> None:
    assert open_service.client.post(PATH, headers=headers).status_code == 201


@pytest.mark.parametrize("path", ["/livez", "/nothing", PATH, "/v1/tokens/%2e%2e", "/v1/tokens/none"])
def test_every_answer_has_the_headers_of_security(open_service: Service, path: str) -> None:
    headers = open_service.client.delete(path).headers
    assert headers["Content-Security-Policy"] == "default-src 'none'; frame-ancestors 'none'"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Cache-Control"] == "no-store"
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert "server" not in headers


def test_a_fault_of_the_program_shows_no_value(open_service: Service, capfd: pytest.CaptureFixture[str]) -> None:
    response = open_service.client.post(PATH, json={"text": "fail"})
    assert _code(response) == (500, "RPL-9000")
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    assert "hunter2" not in response.text
    assert "hunter2" not in "".join(capfd.readouterr())


def test_a_wrong_body_is_not_repeated(open_service: Service) -> None:
    response = open_service.client.post(PATH, json={"number": "hunter2", "text": {"password": "hunter2"}})
    assert _code(response) == (422, "RPL-1500")
    assert "hunter2" not in response.text


@pytest.mark.parametrize(
    ("headers", "body", "expected"),
    [
        ({"Content-Type": "application/json"}, b" " * (1024 * 1024 + 1), (413, "RPL-1547")),
        ({"Content-Type": "text/plain"}, b"{}", (415, "RPL-1548")),
        ({"Content-Type": "application/x-www-form-urlencoded"}, b"a=b", (415, "RPL-1548")),
        ({"Content-Type": "application/json; charset=utf-16"}, b"{}", (415, "RPL-1548")),
        ({"Content-Type": "application/json", "Content-Encoding": "gzip"}, b"{}", (415, "RPL-1548")),
        ({}, b"{}", (415, "RPL-1548")),
        ({"Content-Type": "application/json"}, b"[" * 100_000, (400, "RPL-1500")),
        ({"Content-Type": "application/json"}, b'{"text": "\\ud800"}', (400, "RPL-1500")),
        ({"Content-Type": "application/json"}, b'{"text": "\\u0000"}', (400, "RPL-1500")),
        ({"Content-Type": "application/json"}, b'{"number": NaN}', (400, "RPL-1500")),
        ({"Content-Type": "application/json"}, b'{"text": ', (400, "RPL-1500")),
        ({"Content-Type": "application/json"}, b'"\xff"', (400, "RPL-1500")),
        ({"Content-Type": "application/json"}, b'{"number": ' + b"9" * 5000 + b"}", (400, "RPL-1500")),
    ],
)
def test_what_is_no_json_is_refused(
    open_service: Service, headers: dict[str, str], body: bytes, expected: tuple[int, str]
) -> None:
    assert _code(open_service.client.post(PATH, content=body, headers=headers)) == expected


def test_a_config_of_ten_thousand_tables_is_taken_from_those_who_may_send_it(guarded: Service) -> None:
    tables = [
        {
            "schema": "sales",
            "table": f"a_table_with_a_name_{number}",
            "columns": [{"name": f"some_column_{number}_{i}"} for i in range(2)],
        }
        for number in range(10_000)
    ]
    body = json.dumps({"config": {"stages": [], "tables": tables}}).encode()
    assert len(body) > 1024 * 1024
    draft, headers = "/v1/contexts/sales/drafts/large", {"Content-Type": "application/json"}
    operator = guarded.client_of(Role.OPERATOR)
    assert operator.put(draft, content=body, headers=headers).status_code == 201
    assert operator.get(draft).json()["config"]["tables"] == tables
    for other in (guarded.client_of(Role.VIEWER), guarded.client_of(Role.OPERATOR, namespace="other")):
        assert _code(other.put(draft, content=body, headers=headers)) == (413, "RPL-1547")
    assert _code(guarded.client.put(draft, content=body, headers=headers)) == (401, "RPL-1540")
    assert _code(operator.put(draft, content=b" " * 5_000_000, headers=headers)) == (413, "RPL-1547")


def test_a_body_that_does_not_say_its_length_is_bounded(open_service: Service) -> None:
    sent = (b" " * 65536 for _ in range(64))
    response = open_service.client.post(PATH, content=sent, headers={"Content-Type": "application/json"})
    assert _code(response) == (413, "RPL-1547")


def test_texts_with_escapes_are_taken() -> None:
    for body in (
        b'"\\ud83d\\ude00"',
        b'"\\\\u0000"',
        b'"[[[[NaN"',
        b"[" * 64 + b"]" * 64,
        b'{"a": [1, {"b": "\\"]"}]}',
    ):
        check_json(body)
    with pytest.raises(ProblemError):
        check_json(b"[" * 65 + b"]" * 65)


@pytest.mark.parametrize("body", [b'"\\' * 100_000, b'["a' * 100_000, b'"' + b"\\" * 300_001, b'"a' * 100_000])
def test_a_body_of_quotes_without_an_end_is_looked_at_once(body: bytes) -> None:
    """A pattern that begins again at each quote takes hours for these, without a token."""
    began = time.process_time()
    with suppress(ProblemError):
        check_json(body)
    assert time.process_time() - began < 20


def test_a_path_with_a_control_character_is_refused(open_service: Service) -> None:
    assert _code(open_service.client.get("/v1/tokens/a%00b")) == (400, "RPL-1500")
    assert _code(open_service.client.get("/v1/tokens?after=%00")) == (400, "RPL-1500")


def test_a_burst_is_taken_then_so_many_a_second() -> None:
    now = 0.0
    buckets = Buckets(rate=2, burst=3, clock=lambda: now)
    assert [buckets.take("a") for _ in range(4)] == [0, 0, 0, 0.5]
    assert buckets.take("b") == 0
    now = 0.5
    assert buckets.take("a") == 0
    assert buckets.take("a") > 0


def test_failures_of_one_address_are_bounded_and_a_valid_token_still_passes(tmp_path: Path) -> None:
    with running(tmp_path, Auth.TOKENS) as service:
        allowed = service.client_of(Role.ADMIN)
        codes = [service.client.get("/v1/tokens").status_code for _ in range(40)]
        assert codes[:30] == [401] * 30
        assert 429 in codes
        assert allowed.get("/v1/tokens").status_code == 200


def test_an_event_stream_that_is_left_open_is_ended() -> None:
    """As sse-starlette leaves it where it sees first that the service ends."""
    sent: list[Any] = []

    async def application(scope: Any, receive: Any, send: Any) -> None:
        headers = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"data: 1", "more_body": True})

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "http.disconnect"}

    run(Streams(application, OpenStreams())({"type": "http", "method": "GET", "state": {}}, receive, send))
    assert [message.get("more_body") for message in sent] == [None, True, False]


def test_the_same_key_and_request_is_carried_out_once(open_service: Service) -> None:
    first, second = (
        open_service.client.post(PATH, json={"number": 1}, headers={"Idempotency-Key": "once"}) for _ in range(2)
    )
    assert first.json() == second.json()
    assert (first.status_code, second.status_code) == (201, 201)
    assert (first.headers.get("Idempotent-Replayed"), second.headers["Idempotent-Replayed"]) == (None, "true")


def test_a_key_of_another_request_is_refused(open_service: Service) -> None:
    headers = {"Idempotency-Key": "other"}
    assert open_service.client.post(PATH, json={"number": 1}, headers=headers).status_code == 201
    assert _code(open_service.client.post(PATH, json={"number": 2}, headers=headers)) == (422, "RPL-1554")


def test_two_at_once_with_one_key_are_carried_out_once(open_service: Service) -> None:
    results: list[Any] = []

    def post() -> None:
        results.append(open_service.client.post(PATH, json={}, headers={"Idempotency-Key": "both"}).json())

    threads = [threading.Thread(target=post) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({result["calls"] for result in results}) == 1


def test_a_request_whose_service_ended_is_not_carried_out_again(open_service: Service) -> None:
    digest = repeats.digest_of_request("POST", PATH, b"", "", b"{}")
    assert repeats.claim(open_service.context.database, "lost", "local", digest)
    answer = open_service.client.post(
        PATH, content=b"{}", headers={"Idempotency-Key": "lost", "Content-Type": "application/json"}
    )
    assert _code(answer) == (409, "RPL-1555")


async def _post_with_key(service: Service, key: str, send: Any) -> None:
    """A request to an operation that is carried out, whose answer `send` takes."""

    async def application(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 201, "headers": []})
        await send({"type": "http.response.body", "body": b"done"})

    async def receive() -> Any:
        return {"type": "http.disconnect"}

    role = Operation("probe", frozenset({"POST"}), PATH, re.compile(PATH), Role.OPERATOR, anywhere=False)
    state = {"principal": Principal("someone", Role.OPERATOR, "sales"), "operation": role, "body": b""}
    headers = [(b"idempotency-key", key.encode())]
    scope = {"type": "http", "method": "POST", "path": PATH, "query_string": b"", "headers": headers, "state": state}
    owner = service.client.app
    assert isinstance(owner, FastAPI)
    await Repeating(application, owner)(scope, receive, send)


@pytest.mark.parametrize("gone", [TimeoutError, asyncio.CancelledError])
def test_a_request_whose_answer_could_not_be_sent_is_not_carried_out_again(
    open_service: Service, gone: type[BaseException]
) -> None:
    async def send(message: Any) -> None:
        raise gone

    with pytest.raises(gone):
        run(_post_with_key(open_service, gone.__name__, send))
    found = repeats.find(open_service.context.database, gone.__name__, "someone")
    assert found is not None
    assert (found.status, found.body) == (201, b"done")


def test_a_request_whose_answer_could_not_be_kept_is_answered_and_not_carried_out_again(
    open_service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*arguments: Any, **named: Any) -> None:
        raise OperationalError("", {}, Exception("database is locked"))

    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    monkeypatch.setattr(repeats, "answered", away)
    run(_post_with_key(open_service, "not-kept", send))
    assert [message.get("status") for message in sent] == [201, None]
    found = repeats.find(open_service.context.database, "not-kept", "someone")
    assert found is not None
    assert found.status is None


def test_keys_of_viewers_are_not_kept(open_service: Service) -> None:
    answer = open_service.client.post(
        "/v1/contexts/sales/getState", json={"name": "none"}, headers={"Idempotency-Key": "viewer"}
    )
    assert answer.status_code == 200
    assert repeats.find(open_service.context.database, "viewer", "local") is None


def test_a_large_answer_is_not_kept_and_not_carried_out_again(open_service: Service) -> None:
    headers = {"Idempotency-Key": "large"}
    answer = open_service.client.post(PATH, json={"text": "large"}, headers=headers)
    assert (answer.status_code, len(answer.content) > 65_536) == (201, True)
    assert _code(open_service.client.post(PATH, json={"text": "large"}, headers=headers)) == (409, "RPL-1555")


def test_a_principal_has_a_bounded_number_of_keys(guarded: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeating, "MOST_KEYS", 2)
    client = guarded.client_of(Role.OPERATOR)
    codes = [client.post(PATH, headers={"Idempotency-Key": key}).status_code for key in ("a", "b", "c", "a")]
    assert codes == [201, 201, 429, 201]


def test_a_key_whose_request_failed_in_the_service_may_be_tried_again(open_service: Service) -> None:
    for _ in range(2):
        answer = open_service.client.post(PATH, json={"text": "fail"}, headers={"Idempotency-Key": "failed"})
        assert _code(answer) == (500, "RPL-9000")


def test_keys_belong_to_who_sent_them(guarded: Service) -> None:
    answers = [
        guarded.client_of(Role.OPERATOR).post(PATH, headers={"Idempotency-Key": "mine"}).json() for _ in range(2)
    ]
    assert answers[0] != answers[1]


def test_a_tokens_text_is_never_kept_for_a_repetition(open_service: Service) -> None:
    answer = open_service.client.post("/v1/tokens", json={"role": "viewer"}, headers={"Idempotency-Key": "t"})
    assert _code(answer) == (400, "RPL-1500")
