"""Who a request is from."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Annotated

import pytest
from fastapi import FastAPI

from replicator_runtime.service.access.loopback import is_loopback
from replicator_runtime.service.access.requirement import requires
from replicator_runtime.service.access.roles import Principal, Role
from replicator_runtime.service.access.tokens import digest_of, find_token, list_tokens, revoke_token
from replicator_runtime.service.serving import check
from replicator_runtime.service.settings import Auth, ServiceSettings
from replicator_sdk.errors import ConfigError
from tests.runtime.service.services import Service

PATH = "/v1/contexts/sales/probe"


def _add_probe(service: Service) -> None:
    """Give the application an operation that viewers of a namespace may call."""
    application = service.client.app
    assert isinstance(application, FastAPI)

    @application.get("/v1/contexts/{namespace}/probe")
    def probe(principal: Annotated[Principal, requires(Role.VIEWER)]) -> str:
        return principal.role.value


def test_without_tokens_everyone_is_an_admin(service: Service) -> None:
    _add_probe(service)
    assert service.client.get(PATH).json() == "admin"


def test_without_a_token_nothing_is_answered(service_with_tokens: Service) -> None:
    _add_probe(service_with_tokens)
    response = service_with_tokens.client.get(PATH)
    assert (response.status_code, response.json()["code"]) == (401, "RPL-1540")
    assert response.headers["WWW-Authenticate"] == "Bearer"


def test_a_token_gives_its_role_in_its_namespace_only(service_with_tokens: Service) -> None:
    _add_probe(service_with_tokens)
    assert service_with_tokens.client_of(Role.OPERATOR, namespace="sales").get(PATH).json() == "operator"
    assert service_with_tokens.client_of(Role.ADMIN, namespace="stock").get(PATH).status_code == 403


@pytest.mark.parametrize("text", ["rpl_" + "A" * 43, "rpl_", "x" * 5000, "\xff", "rpl_%00", "null"])
def test_a_wrong_token_is_refused(service_with_tokens: Service, text: str) -> None:
    _add_probe(service_with_tokens)
    response = service_with_tokens.client.get(PATH, headers={b"Authorization": b"Bearer " + text.encode("latin-1")})
    assert response.status_code == 401


def test_an_expired_and_a_revoked_token_are_refused(service_with_tokens: Service) -> None:
    database = service_with_tokens.context.database
    assert find_token(database, service_with_tokens.token(Role.ADMIN, valid_for=timedelta(seconds=-1))) is None
    text = service_with_tokens.token(Role.ADMIN)
    found = find_token(database, text)
    assert found is not None
    revoke_token(database, found.token_id)
    assert find_token(database, text) is None


def test_the_database_has_a_digest_only(service_with_tokens: Service, tmp_path: Path) -> None:
    text = service_with_tokens.token(Role.ADMIN, label="page")
    assert [token.digest for token in list_tokens(service_with_tokens.context.database)] == [digest_of(text)]
    stored = b"".join(file.read_bytes() for file in tmp_path.glob("service.db*"))
    assert b"page" in stored
    assert text.encode() not in stored


def test_health_needs_no_token(service_with_tokens: Service) -> None:
    assert service_with_tokens.client.get("/livez").json() == {"status": "ok"}
    assert service_with_tokens.client.get("/readyz").json()["status"] == "ok"


def test_readiness_fails_without_the_database(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    from sqlalchemy.exc import OperationalError

    def refuse() -> None:
        raise OperationalError("SELECT 1", {}, Exception("password=hunter2"))

    monkeypatch.setattr(type(service.context.database), "session", lambda self: refuse())
    response = service.client.get("/readyz")
    assert (response.status_code, response.json()["code"]) == (503, "RPL-1542")
    assert "hunter2" not in response.text


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.7", "no such name"])
def test_without_tokens_only_loopback_is_listened_on(host: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        check(ServiceSettings("sqlite://", str(tmp_path), tmp_path, host=host, auth=Auth.NONE))
    assert refused.value.code == "RPL-1543"
    check(ServiceSettings("sqlite://", str(tmp_path), tmp_path, host=host, auth=Auth.TOKENS))


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_loopback_is_recognised(host: str) -> None:
    assert is_loopback(host)
