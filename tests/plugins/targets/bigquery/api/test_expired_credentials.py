"""A token that expires within a batch is replaced and the batch goes on; credentials that were revoked stop the table."""

from __future__ import annotations

from typing import Any

import pytest
from google.auth.credentials import Credentials
from google.auth.exceptions import RefreshError

from replicator_sdk.errors import NeedsUserError
from replicator_sdk.event import DDLOperation
from replicator_target_bigquery.api import clients
from tests.plugins.targets.bigquery.support.changes import KEYLESS, batch, ddl, delete, insert
from tests.plugins.targets.bigquery.support.project import Project
from tests.services.bigquery.emulators import Emulators
from tests.services.bigquery.gate import Fault, Request

EXPIRED = Fault(status=401, reason="authError", message="Invalid Credentials")
ROW = insert({"name": "a", "number": 1}, KEYLESS)


class Token(Credentials):
    """A token that is believed to be valid, as one whose clock or life the server sees in another way.

    Attributes:
        refreshed: How many tokens there have been.
        revoked: Whether there are no more.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.token = "token 0"
        self.refreshed = 0
        self.revoked = False

    def refresh(self, request: Any) -> None:
        """Another token."""
        if self.revoked:
            raise RefreshError("invalid_grant: account deleted")  # type: ignore[no-untyped-call]
        self.refreshed += 1
        self.token = f"token {self.refreshed}"


@pytest.fixture
def token(monkeypatch: pytest.MonkeyPatch) -> Token:
    """The credentials of every client in this test."""
    made = Token()
    monkeypatch.setattr(clients, "credentials_of", lambda _config: made)
    return made


def load(request: Request) -> bool:
    return request.kind == "load"


def merge(request: Request) -> bool:
    return "MERGE" in request.sql


@pytest.mark.parametrize("on", [load, merge], ids=["load", "merge"])
def test_a_token_that_expires_within_a_batch_is_replaced_and_the_batch_is_applied_once(
    on: Any, token: Token, bigquery_emulators: Emulators
) -> None:
    bigquery_emulators.gate.clear()
    project = Project(bigquery_emulators)
    consumer = project.consumer()
    consumer.apply_ddl(ddl(0, DDLOperation.CREATE_TABLE, KEYLESS))
    bigquery_emulators.gate.plan(EXPIRED, on=on)
    before = token.refreshed
    consumer.apply_batch(batch(1, [ROW] * 3 + [delete({"name": "a", "number": 1}, KEYLESS)]))
    assert bigquery_emulators.gate.pending == 0
    assert token.refreshed == before + 1
    assert project.count("log") == 2
    consumer.stop()


@pytest.mark.parametrize("on", [load, merge], ids=["load", "merge"])
def test_credentials_that_are_revoked_within_a_batch_stop_it_and_the_next_run_applies_it_once(
    on: Any, token: Token, bigquery_emulators: Emulators
) -> None:
    bigquery_emulators.gate.clear()
    project = Project(bigquery_emulators)
    consumer = project.consumer()
    consumer.apply_ddl(ddl(0, DDLOperation.CREATE_TABLE, KEYLESS))
    token.revoked = True
    bigquery_emulators.gate.plan(EXPIRED, on=on)
    with pytest.raises(NeedsUserError, match=r"RPL-6512.*serviceAccountKey") as refused:
        consumer.apply_batch(batch(1, [ROW] * 3))
    assert (refused.value.table, "token" in str(refused.value)) == (str(KEYLESS.table), False)
    consumer.stop()
    token.revoked = False
    again = project.consumer(epoch=2)
    again.apply_batch(batch(1, [ROW] * 3, epoch=2))
    assert project.count("log") == 3
    again.stop()
