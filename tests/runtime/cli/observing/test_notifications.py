"""`replicator notifications test` tries every service of a pipeline and says which took the message."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.runtime.notices.webhook import Webhook, serving

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.runtime.cli.conftest import Replicator

TOKEN = "T0k3n-of-a-hook-42"


@pytest.fixture
def webhook(sqlite_pipeline: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Webhook]:
    monkeypatch.setenv("REPLICATOR_SECRET_HOOK", TOKEN)
    with serving(Webhook()) as served:
        secret = f"json://127.0.0.1:{served.port}/" + "${secure(hook)}"
        _write(sqlite_pipeline, [{"url": secret}, {"url": f"json://127.0.0.1:{served.port}/b", "on": ["run_failed"]}])
        yield served


def _write(pipeline: Path, notifications: list[dict[str, Any]]) -> None:
    pipeline.write_text(json.dumps({**json.loads(pipeline.read_text()), "notifications": notifications}))


def test_each_service_gets_one_message(sqlite_pipeline: Path, webhook: Webhook, replicator: Replicator) -> None:
    done = replicator("notifications", "test", sqlite_pipeline)
    assert done.exit_code == 0, done.output
    assert webhook.titles == ["a test", "a test"]
    assert done.stdout.count("sent") == 2
    assert max(map(len, done.stdout.splitlines())) < 100, "not the names of all conditions"
    assert TOKEN not in done.output


def test_one_that_does_not_take_it_is_an_error_that_says_why(
    sqlite_pipeline: Path, webhook: Webhook, replicator: Replicator
) -> None:
    webhook.status = 403
    done = replicator("notifications", "test", sqlite_pipeline, "--json")
    envelope = json.loads(done.stdout)
    assert (done.exit_code, envelope["error"]["code"]) == (4, "RPL-1007")
    assert [(e["sent"], e["why"]) for e in envelope["data"]] == [(False, "the service answered with status 403")] * 2
    assert TOKEN not in done.output


def test_a_url_that_is_not_allowed_is_found_with_the_pipeline(sqlite_pipeline: Path, replicator: Replicator) -> None:
    _write(sqlite_pipeline, [{"url": "file:///etc/passwd"}, {"url": "nothing"}])
    done = replicator("validate", sqlite_pipeline)
    assert done.exit_code == 3
    _write(sqlite_pipeline, [{"url": "file:///etc/passwd"}])
    assert "RPL-1006" in replicator("validate", sqlite_pipeline).stderr
