"""Every operation of the OpenAPI document, asked by each kind of caller: generated from the document."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

import pytest
from fastapi.testclient import TestClient

from replicator_runtime.service.access.roles import Role
from replicator_runtime.service.access.tokens import find_token, revoke_token
from replicator_runtime.service.openapi import text_of
from replicator_runtime.service.settings import Auth
from tests.runtime.service.services import Service, running

METHODS = ("get", "put", "post", "delete", "patch")
OPEN = {"getLiveness", "getReadiness", "getSession", "createSession", "deleteSession"}
"""Operations that no role is needed for."""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with running(tmp_path_factory.mktemp("matrix"), Auth.TOKENS) as service:
        yield service


@pytest.fixture(scope="module")
def operations(service: Service) -> list[tuple[str, str, dict[str, Any]]]:
    """Method, path and description of each operation."""
    document = service.client.app.openapi()  # type: ignore[attr-defined]  # TestClient's app is any ASGI application
    return [
        (method, path, item[method]) for path, item in document["paths"].items() for method in METHODS if method in item
    ]


def _address(path: str, namespace: str = "sales") -> str:
    return re.sub(r"\{[^}]+\}", "nothing", path.replace("{namespace}", namespace))


def _ask(client: TestClient, method: str, address: str) -> tuple[int, str]:
    """The status and code; event streams and lists of an allowed caller are never read: only refusals are asked for."""
    response = client.request(method, address, headers={"Content-Type": "application/json"})
    code = response.json()["code"] if "problem" in response.headers.get("content-type", "") else ""
    return response.status_code, code


def test_every_operation_needs_a_role_but_those_that_are_open(operations: list[Any]) -> None:
    without = {described["operationId"] for _, _, described in operations if "x-role" not in described}
    assert without == OPEN


def test_every_operation_is_described(operations: list[Any]) -> None:
    ids = [described["operationId"] for _, _, described in operations]
    assert len(ids) == len(set(ids))
    for method, path, described in operations:
        assert re.fullmatch(r"[a-z][A-Za-z0-9]+", described["operationId"]), (method, path)
        assert described["summary"], (method, path)
        assert "default" in described["responses"], (method, path)
        if "x-role" in described:
            assert {"401", "403"} <= described["responses"].keys(), (method, path)


def test_no_one_without_a_valid_token_is_let_in(service: Service, operations: list[Any]) -> None:
    """No token, a wrong one, one that has expired, one that was revoked, a wrong cookie."""
    revoked = service.token(Role.ADMIN)
    found = find_token(service.context.database, revoked)
    assert found is not None
    revoke_token(service.context.database, found.token_id)
    headers: Mapping[str, dict[str, str]] = {
        "none": {},
        "wrong": {"Authorization": "Bearer rpl_" + "A" * 43},
        "expired": {"Authorization": f"Bearer {service.token(Role.ADMIN, valid_for=timedelta(seconds=-1))}"},
        "revoked": {"Authorization": f"Bearer {revoked}"},
        "cookie": {"Cookie": "replicator_session_11015=" + "A" * 43},
    }
    let_in = []
    for method, path, described in operations:
        if "x-role" not in described:
            continue
        for caller, sent in headers.items():
            response = service.client.request(method, _address(path), headers=sent)
            # 429: too many failures of this address.
            if response.status_code not in {401, 429}:
                let_in.append((caller, method, path, response.status_code))
    assert let_in == []


def test_a_role_below_the_needed_one_is_refused(service: Service, operations: list[Any]) -> None:
    clients = {role: service.client_of(role) for role in Role}
    wrong = []
    for method, path, described in operations:
        needed = Role(described.get("x-role", Role.VIEWER))
        for role in Role:
            if not role.may(needed):
                answer = _ask(clients[role], method, _address(path))
                if answer != (403, "RPL-1541"):
                    wrong.append((role, method, path, answer))
    assert wrong == []


def test_another_namespaces_token_is_refused(service: Service, operations: list[Any]) -> None:
    client = service.client_of(Role.ADMIN, namespace="stock")
    wrong = []
    for method, path, described in operations:
        if "x-role" not in described or described["x-anywhere"]:
            continue
        answer = _ask(client, method, _address(path))
        if answer != (403, "RPL-1541"):
            wrong.append((method, path, answer))
    assert wrong == []


def test_the_needed_role_is_not_refused_for_want_of_it(service: Service, operations: list[Any]) -> None:
    """With names of nothing, so that nothing is carried out: what is answered is not 401, nor the 403 of a role."""
    wrong = []
    for method, path, described in operations:
        if "x-role" not in described or "{" not in path or "vents" in path:
            continue
        client = service.client_of(Role(described["x-role"]), namespace="sales" if "{namespace}" in path else "*")
        answer = _ask(client, method, _address(path))
        if answer[0] == 401 or answer[1] == "RPL-1541" or answer[0] == 500:
            wrong.append((method, path, answer))
    assert wrong == []


def test_the_document_is_the_same_each_time(service: Service) -> None:
    from replicator_runtime.service.application import create_application

    first = text_of(service.client.app)  # type: ignore[arg-type]  # TestClient's app is any ASGI application
    assert text_of(create_application(service.context.settings)) == first
    assert service.client_of(Role.VIEWER, namespace="sales").get("/openapi.json").json() == json.loads(first)
