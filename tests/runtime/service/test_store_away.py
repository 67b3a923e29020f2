"""A store that does not answer is no fault of the program: whoever asks is to try again."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from replicator_runtime.service.store import database as databases
from tests.runtime.service.services import running


def test_a_store_that_is_locked_for_long_is_answered_as_unavailable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(databases, "_WAIT_SECONDS", 0.2)
    with running(tmp_path) as service:
        client = service.client
        other = sqlite3.connect(tmp_path / "service.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        answered = client.put("/v1/contexts/default/drafts/shop", json={"config": {}})
        other.execute("ROLLBACK")
        other.close()
        assert (answered.status_code, answered.json()["code"]) == (503, "RPL-1542"), answered.text
        assert answered.headers["Retry-After"]
        assert client.put("/v1/contexts/default/drafts/shop", json={"config": {}}).status_code < 300
