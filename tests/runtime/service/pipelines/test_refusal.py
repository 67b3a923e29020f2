"""A service that does not supervise says so where someone waits for what it does not do."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from replicator_runtime.service.file_locks import take_lock
from replicator_runtime.service.store.tables import Pipeline
from replicator_runtime.service.supervision import supervisor
from tests.runtime.service.operations.ran import add_pipeline
from tests.runtime.service.services import running
from tests.waits import until


def test_a_pipeline_that_no_one_starts_says_why_and_so_does_readiness(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "work").mkdir()
    other = take_lock(tmp_path / "work" / "supervisor.lock")  # as another service has it
    assert other is not None
    with running(tmp_path) as service:
        until(lambda: "another service" in service.context.supervisor.refusal, "it knows of the other one")
        add_pipeline(service, {})
        with service.context.database.session() as session:
            session.get_one(Pipeline, ("default", "shop")).wanted = "started"
        path = "/v1/contexts/default/pipelines"
        (item,) = service.client.get(path).json()
        assert (item["state"], item["needsYou"]) == ("waiting", [])  # it may be the next second's
        monkeypatch.setattr(supervisor, "_FOLLOWS_SECONDS", 0.0)
        (item,) = service.client.get(path).json()
        assert item["needsYou"][0]["reason"] == "waits"
        assert f"another service of {tmp_path / 'work'} supervises" in item["needsYou"][0]["text"]
        ready = service.client.get("/readyz")
        assert (ready.status_code, ready.json()["supervises"]) == (200, False)
        assert "another service" in ready.json()["reason"]
        assert str(tmp_path) not in ready.text
        with service.context.database.session() as session:
            session.get_one(Pipeline, ("default", "shop")).wanted = "stopped"
    os.close(other)
