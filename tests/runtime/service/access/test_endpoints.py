"""Tokens, sessions and the audit log over HTTP."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import select
from sqlalchemy.exc import OperationalError
from ulid import ULID

from replicator_runtime.service.access.audit import KEPT, delete_old_entries
from replicator_runtime.service.access.roles import Role
from replicator_runtime.service.store.tables import AuditEntry, PageSession
from tests.runtime.service.services import ADDRESS, Service

PAGE = {"Origin": ADDRESS, "Sec-Fetch-Site": "same-origin"}


def test_a_token_is_created_used_listed_and_revoked(service_with_tokens: Service) -> None:
    admin = service_with_tokens.client_of(Role.ADMIN)
    created = admin.post("/v1/tokens", json={"role": "viewer", "namespace": "sales", "label": "ci", "validDays": 1})
    assert created.status_code == 201
    text, token_id = created.json()["token"], created.json()["id"]
    client = service_with_tokens.client_with(text)
    assert client.get("/v1/session").json() == {
        "name": f"ci ({token_id})",
        "role": "viewer",
        "namespace": "sales",
        "csrf": None,
    }
    listed = admin.get("/v1/tokens")
    assert [token["label"] for token in listed.json()] == ["", "ci"]
    assert text not in listed.text
    assert admin.delete(f"/v1/tokens/{token_id}").json()["revoked"] is not None
    assert client.get("/v1/session").status_code == 401
    assert admin.delete("/v1/tokens/none").status_code == 404


def test_a_list_of_tokens_comes_in_parts(service: Service) -> None:
    for _ in range(3):
        assert service.client.post("/v1/tokens", json={"role": "viewer"}).status_code == 201
    first = service.client.get("/v1/tokens?limit=2")
    link = first.headers["Link"].partition("<")[2].partition(">")[0]
    rest = service.client.get(link)
    assert (len(first.json()), len(rest.json())) == (2, 1)
    assert "Link" not in rest.headers


@pytest.mark.parametrize("role", [Role.VIEWER, Role.OPERATOR])
def test_only_admins_of_all_namespaces_see_tokens_and_the_log(service_with_tokens: Service, role: Role) -> None:
    for client in (service_with_tokens.client_of(role), service_with_tokens.client_of(Role.ADMIN, namespace="sales")):
        for path in ("/v1/tokens", "/v1/audit"):
            assert client.get(path).status_code == 403


def test_a_browser_exchanges_a_token_for_a_cookie(service_with_tokens: Service) -> None:
    client = service_with_tokens.client
    text = service_with_tokens.token(Role.ADMIN)
    started = client.post("/v1/session", json={"token": text}, headers=PAGE)
    assert started.status_code == 201
    cookie = started.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert "secure" not in cookie
    assert text.lower() not in cookie
    csrf = client.get("/v1/session").json()["csrf"]
    assert csrf == started.json()["csrf"]
    assert client.post("/v1/tokens", json={"role": "viewer"}, headers=PAGE).json()["code"] == "RPL-1553"
    wrong = client.post("/v1/tokens", json={"role": "viewer"}, headers=PAGE | {"X-CSRF-Token": "0" * 64})
    assert wrong.json()["code"] == "RPL-1553"
    other = client.post("/v1/tokens", json={"role": "viewer"}, headers={"Origin": "null", "X-CSRF-Token": csrf})
    assert other.json()["code"] == "RPL-1546"
    with_csrf = PAGE | {"X-CSRF-Token": csrf}
    assert client.post("/v1/tokens", json={"role": "viewer"}, headers=with_csrf).status_code == 201
    kept = dict(client.cookies)
    assert client.delete("/v1/session", headers=with_csrf).status_code == 204
    client.cookies.update(kept)
    assert client.get("/v1/session").status_code == 401, "the cookie is worth nothing after the session's end"


def test_the_cookie_is_for_tls_only_where_the_page_has_it(service_with_tokens: Service) -> None:
    text = service_with_tokens.token(Role.VIEWER)
    headers = {"Origin": "https://127.0.0.1:11015", "Host": "127.0.0.1:11015"}
    started = service_with_tokens.client.post("/v1/session", json={"token": text}, headers=headers)
    assert "secure" in started.headers["set-cookie"].lower()


def test_a_session_ends_with_its_token_and_after_its_time(service_with_tokens: Service) -> None:
    client, database = service_with_tokens.client, service_with_tokens.context.database
    assert client.post("/v1/session", json={"token": service_with_tokens.token(Role.VIEWER)}).status_code == 201
    assert client.get("/v1/session").status_code == 200
    with database.session() as session:
        for found in session.scalars(select(PageSession)):
            found.expires = datetime.now(UTC) - timedelta(seconds=1)
    assert client.get("/v1/session").status_code == 401


def test_another_site_cannot_log_a_browser_in(service_with_tokens: Service) -> None:
    body = {"token": service_with_tokens.token(Role.VIEWER)}
    answer = service_with_tokens.client.post("/v1/session", json=body, headers={"Origin": "http://evil.example"})
    assert answer.json()["code"] == "RPL-1546"


def test_every_change_is_recorded_refused_ones_too(service_with_tokens: Service) -> None:
    admin, viewer = service_with_tokens.client_of(Role.ADMIN), service_with_tokens.client_of(Role.VIEWER)
    admin.post("/v1/tokens", json={"role": "viewer"})
    viewer.post("/v1/tokens", json={"role": "admin"})
    admin.post("/v1/tokens", json={"role": "owner"})
    admin.post("/v1/tokens", content=b"x", headers={"Content-Type": "text/plain"})
    admin.get("/v1/tokens")
    service_with_tokens.client.post("/v1/tokens", json={"role": "admin"})
    entries = admin.get("/v1/audit").json()
    assert [(entry["operation"], entry["status"], entry["code"]) for entry in reversed(entries)] == [
        ("createToken", 201, ""),
        ("createToken", 403, "RPL-1541"),
        ("createToken", 422, "RPL-1500"),
        ("createToken", 415, "RPL-1548"),
    ]
    assert len({entry["by"] for entry in entries}) == 2


def test_nothing_is_changed_that_cannot_be_recorded(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    from replicator_runtime.service.access import audit

    def fail(*arguments: object, **named: object) -> str:
        raise OperationalError("INSERT", {}, Exception("the disk is full"))

    monkeypatch.setattr(audit, "begin_entry", fail)
    answer = service.client.post("/v1/tokens", json={"role": "viewer"})
    assert (answer.status_code, answer.json()["code"]) == (503, "RPL-1552")
    assert service.client.get("/v1/tokens").json() == []


def test_entries_are_kept_for_ninety_days(service: Service) -> None:
    now = datetime.now(UTC)
    with service.context.database.session() as session:
        for age in (KEPT + timedelta(days=1), KEPT - timedelta(days=1)):
            entry_id = str(ULID.from_datetime(now - age))
            session.add(AuditEntry(entry_id=entry_id, at=now - age, by="x", operation="y", path="/", status=200))
    delete_old_entries(service.context.database)
    assert len(service.client.get("/v1/audit").json()) == 1
