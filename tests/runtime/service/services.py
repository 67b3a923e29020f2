"""A service of a test's own: its application over SQLite in a temporary folder, called without a network."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from replicator_runtime.service.access.roles import EVERY_NAMESPACE, Role
from replicator_runtime.service.access.tokens import create_token
from replicator_runtime.service.application import create_application
from replicator_runtime.service.context import ServiceContext
from replicator_runtime.service.settings import Auth, ServiceSettings

ADDRESS = "http://127.0.0.1:11015"


@dataclass(slots=True)
class Service:
    """A started service.

    Attributes:
        client: Sends requests without a token.
        context: What its operations share: settings, database, commands.
    """

    client: TestClient
    context: ServiceContext
    _clients: ExitStack = field(repr=False)

    def token(
        self, role: Role, *, namespace: str = EVERY_NAMESPACE, label: str = "", valid_for: timedelta | None = None
    ) -> str:
        """The text of a new token."""
        return create_token(self.context.database, role, namespace=namespace, label=label, valid_for=valid_for).text

    def client_of(self, role: Role, *, namespace: str = EVERY_NAMESPACE) -> TestClient:
        """A client with a new token."""
        return self.client_with(self.token(role, namespace=namespace))

    def client_with(self, token: str) -> TestClient:
        """A client with this token; closed with the service."""
        # Not entered: the application is started once.
        client = TestClient(
            self.client.app, base_url=ADDRESS, headers={"Authorization": f"Bearer {token}"}, follow_redirects=False
        )
        self._clients.callback(client.close)
        return client


@contextmanager
def running(folder: Path, auth: Auth = Auth.NONE, *, store: str | None = None, **more: Any) -> Iterator[Service]:
    """A service until the end of the block.

    Args:
        folder: Of its files: the database, the replicators' state, its own.
        auth: Who may use it.
        store: URL of another database than SQLite's in `folder`.
        more: Other settings.
    """
    application = create_application(replace(settings_in(folder, auth, store=store), **more))
    with (
        TestClient(application, base_url=ADDRESS, raise_server_exceptions=False, follow_redirects=False) as client,
        ExitStack() as clients,
    ):
        yield Service(client, application.state.context, clients)


def settings_in(folder: Path, auth: Auth = Auth.NONE, *, store: str | None = None, port: int = 0) -> ServiceSettings:
    """Settings of a service that keeps everything in `folder`."""
    return ServiceSettings(
        store=store or f"sqlite:///{folder / 'service.db'}",
        base_path=str(folder / "state"),
        work_folder=folder / "work",
        port=port,
        auth=auth,
    )


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    """A service that everyone may use, as an admin."""
    with running(tmp_path) as service:
        yield service


@pytest.fixture
def service_with_tokens(tmp_path: Path) -> Iterator[Service]:
    """A service that needs a token: `.client_of(Role.VIEWER)`."""
    with running(tmp_path, Auth.TOKENS) as service:
        yield service
