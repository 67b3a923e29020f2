"""What may be stored as a draft, under which name, and on which condition."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from replicator_runtime.service.drafts.documents import DEEPEST, LARGEST, config_text
from replicator_runtime.service.problems import ProblemError
from tests.runtime.service.services import Service, running

DRAFTS = "/v1/contexts/default/drafts"
CONFIG: dict[str, Any] = {"config": {"stages": []}}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service for all tests of the module."""
    with running(tmp_path_factory.mktemp("drafts")) as service:
        yield service


@pytest.fixture
def client(service: Service) -> TestClient:
    """Its client."""
    return service.client


def test_a_draft_keeps_its_config_as_it_was_sent(client: TestClient) -> None:
    config = {"z": 1, "a": {"ü<b>": "\U0001f600 ${secure(x)}"}, "description": None}
    text = json.dumps({"label": "<img onerror=alert(1)>", "config": config})
    sent = client.put(f"{DRAFTS}/as-sent", content=text, headers={"Content-Type": "application/json"})
    assert sent.status_code == HTTPStatus.CREATED
    found = client.get(f"{DRAFTS}/as-sent")
    assert found.headers["Content-Type"] == "application/json"
    assert found.json()["config"] == config
    assert list(found.json()["config"]) == ["z", "a", "description"]
    assert found.json()["label"] == "<img onerror=alert(1)>"


@pytest.mark.parametrize("name", ["..%2Fx", "%3Cimg%20onerror%3Dalert(1)%3E", "-x", "x" * 64, "a%00b", ".hidden"])
def test_a_name_that_is_no_identifier_is_refused(client: TestClient, name: str) -> None:
    for answer in (client.put(f"{DRAFTS}/{name}", json=CONFIG), client.get(f"{DRAFTS}/{name}")):
        assert HTTPStatus.BAD_REQUEST <= answer.status_code < HTTPStatus.INTERNAL_SERVER_ERROR
        assert answer.headers["Content-Type"] == "application/problem+json"
        assert "onerror" not in answer.text


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b'"x"', b'{"config": []}', b'{"config": {"a": \xff}}', b"[" * 100_000]
)
def test_a_malformed_body_is_refused(client: TestClient, content: bytes) -> None:
    answer = client.put(f"{DRAFTS}/malformed", content=content, headers={"Content-Type": "application/json"})
    assert HTTPStatus.BAD_REQUEST <= answer.status_code < HTTPStatus.INTERNAL_SERVER_ERROR
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert client.get(f"{DRAFTS}/malformed").status_code == HTTPStatus.NOT_FOUND


def test_a_config_that_is_nested_too_deeply_is_refused(client: TestClient) -> None:
    body = f'{{"config": {{"tables": {"[" * DEEPEST}{"]" * DEEPEST}}}}}'
    answer = client.put(f"{DRAFTS}/deep", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code in {HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY}
    deep: dict[str, Any] = {}
    for _ in range(DEEPEST - 2):
        deep = {"a": deep}
    assert config_text({"a": deep})
    with pytest.raises(ProblemError) as refused:
        config_text({"a": {"a": deep}})
    assert (refused.value.status, refused.value.code) == (422, "RPL-1506")


def test_a_config_that_is_too_large_is_refused(client: TestClient) -> None:
    answer = client.put(f"{DRAFTS}/large", json={"config": {"description": "x" * LARGEST}})
    assert answer.status_code == HTTPStatus.REQUEST_ENTITY_TOO_LARGE


@pytest.mark.parametrize("number", ["NaN", "Infinity", "1e999", "9" * 5000])
def test_a_number_that_json_does_not_have_is_refused(client: TestClient, number: str) -> None:
    body = f'{{"config": {{"batch": {number}}}}}'
    answer = client.put(f"{DRAFTS}/number", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code in {HTTPStatus.UNPROCESSABLE_ENTITY, HTTPStatus.BAD_REQUEST}


def test_a_draft_is_changed_only_by_one_who_knows_its_version(client: TestClient) -> None:
    path = f"{DRAFTS}/versions"
    first = client.put(path, json=CONFIG, headers={"If-None-Match": "*"}).headers["ETag"]
    assert client.put(path, json=CONFIG, headers={"If-None-Match": "*"}).json()["code"] == "RPL-1505"
    second = client.put(path, json=CONFIG, headers={"If-Match": first})
    assert second.status_code == HTTPStatus.OK
    for method, headers in (("PUT", {"If-Match": first}), ("DELETE", {"If-Match": f"{first}, W/{first}"})):
        answer = client.request(method, path, json=CONFIG, headers=headers)
        assert answer.status_code == HTTPStatus.PRECONDITION_FAILED
        assert answer.json()["code"] == "RPL-1505"
    assert client.put(path, json=CONFIG).status_code == HTTPStatus.OK  # the seed's client knows no versions
    assert client.delete(path, headers={"If-Match": "*"}).status_code == HTTPStatus.NO_CONTENT
    again = client.put(path, json=CONFIG).headers["ETag"]
    assert client.put(path, json=CONFIG, headers={"If-Match": first}).status_code == HTTPStatus.PRECONDITION_FAILED
    assert again != first


def test_of_two_who_change_the_same_version_at_once_one_is_refused(client: TestClient) -> None:
    path = f"{DRAFTS}/at-once"
    tag = client.put(path, json=CONFIG).headers["ETag"]
    answers: list[int] = []
    barrier = threading.Barrier(8)

    def change(number: int) -> None:
        barrier.wait()
        config = {"config": {"description": str(number)}}
        answers.append(client.put(path, json=config, headers={"If-Match": tag}).status_code)

    threads = [threading.Thread(target=change, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == [HTTPStatus.OK] + [HTTPStatus.PRECONDITION_FAILED] * 7


def test_a_long_list_is_read_in_parts(client: TestClient) -> None:
    drafts = "/v1/contexts/parts/drafts"
    for number in range(5):
        client.put(f"{drafts}/d{number}", json=CONFIG).raise_for_status()
    names, following = [], f"{drafts}?limit=2"
    while following:
        answer = client.get(following)
        names += [draft["name"] for draft in answer.json()]
        following = answer.links.get("next", {}).get("url", "")
    assert names == ["d0", "d1", "d2", "d3", "d4"]
    assert client.get("/v1/contexts/others/drafts").json() == []


def test_a_list_is_never_older_than_the_last_change(client: TestClient) -> None:
    drafts = "/v1/contexts/changes/drafts"

    def listed() -> list[tuple[str, str]]:
        return [(draft["name"], draft["label"]) for draft in client.get(drafts).json()]

    assert listed() == []
    for step, expected in (
        (("PUT", "a", "1"), [("a", "1")]),
        (("PUT", "a", "2"), [("a", "2")]),
        (("PUT", "b", "3"), [("a", "2"), ("b", "3")]),
        (("DELETE", "b", ""), [("a", "2")]),
        (("DELETE", "a", ""), []),
        (("PUT", "a", "4"), [("a", "4")]),
    ):
        method, name, label = step
        client.request(method, f"{drafts}/{name}", json=CONFIG | {"label": label}).raise_for_status()
        assert listed() == expected
        assert listed() == expected


@pytest.mark.parametrize(
    ("config", "pointer"),
    [
        ({"notifications": [{"url": "slack://T0/B0/x"}]}, "/notifications/0/url"),
        ({"lineage": {"transport": {"auth": {"apiKey": "k"}}}}, "/lineage/transport/auth/apiKey"),
        ({"spark": {"conf": {"spark.hadoop.fs.s3a.secret.key": "k"}}}, "/spark/conf/spark.hadoop.fs.s3a.secret.key"),
        ({"lineage": {"transport": {"url": "https://u:pw@h/x"}}}, "/lineage/transport/url"),
    ],
)
def test_a_secret_that_is_written_out_is_refused_anywhere(
    client: TestClient, config: dict[str, Any], pointer: str
) -> None:
    answer = client.put(f"{DRAFTS}/secret", json={"config": config})
    assert answer.status_code == HTTPStatus.UNPROCESSABLE_ENTITY
    assert answer.json()["code"] == "RPL-1504"
    assert [error["pointer"] for error in answer.json()["errors"]] == [pointer]


def test_drafts_outlive_the_service(tmp_path: Path) -> None:
    with running(tmp_path) as service:
        tag = service.client.put(f"{DRAFTS}/kept", json=CONFIG).headers["ETag"]
    with running(tmp_path) as service:
        found = service.client.get(f"{DRAFTS}/kept")
    assert found.json()["config"] == {"stages": []}
    assert found.headers["ETag"] == tag
