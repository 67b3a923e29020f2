"""On Cloud Storage a version belongs to the run that wrote it first; one program shows all scenes, since each session of Spark costs seconds."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from replicator_sdk.errors import NeedsUserError, ReplicatorError, RetryableError
from replicator_target_delta.log import client_files as module
from replicator_target_delta.log.commit_files import commit_files
from replicator_target_delta.plugin import session_settings
from tests.services.gcs.server import GcsServer
from tests.services.http_gate import Fault

_ROOT = Path(__file__).parents[5]


@dataclass(frozen=True)
class Found:
    """What happened in the scenes of `gcs_commits.py`, and the uploads of the large commit."""

    scenes: dict[str, Any]
    large: list[int]


@pytest.fixture(scope="module")
def found(gcs_server: GcsServer) -> Found:
    """The program is run once."""
    gcs_server.clear()
    command = [sys.executable, "-m", "tests.plugins.targets.delta.log.gcs_commits"]
    ended = subprocess.run(
        [*command, gcs_server.address, str(gcs_server.port), gcs_server.bucket()],
        env={**os.environ, **gcs_server.environment},
        cwd=_ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-4000:]
    line = next(line for line in ended.stdout.splitlines() if line.startswith("found "))
    return Found(json.loads(line.removeprefix("found ")), gcs_server.requests("POST", "large/_delta_log/x.json"))


def test_commits_on_cloud_storage_are_read_back_by_delta_by_its_history_and_by_another_reader(found: Found) -> None:
    assert found.scenes["commits"] == [3, {"number": 2}, 4, 3]


def test_of_writers_of_one_version_at_once_one_has_written_it(found: Found) -> None:
    assert found.scenes["race"] == [[1, True]] * 10


def test_a_commit_that_reaches_cloud_storage_late_leaves_the_newer_runs_commit_in_place(found: Found) -> None:
    assert found.scenes["late"] == ["RPL-4407", True]


def test_refused_throttled_lost_and_slow_writes_to_cloud_storage_leave_one_commit_each(found: Found) -> None:
    assert found.scenes["faults"] == [1, 2, 3, 4, 5, 6]


def test_credentials_that_expire_during_a_commit_leave_none_and_the_next_has_its_version(found: Found) -> None:
    assert found.scenes["expired"] == ["RPL-3403", 1, {"n": 2}]


def test_a_log_on_cloud_storage_that_may_not_be_read_is_the_users_business(found: Found) -> None:
    assert found.scenes["refused"] == ["RPL-3403", "RPL-3403", "done"]


def test_files_of_a_table_on_cloud_storage_are_found_read_and_deleted(found: Found) -> None:
    assert found.scenes["files"] == [3, "123", [], None]


def test_a_table_that_is_deleted_and_created_again_on_cloud_storage_begins_at_version_0(found: Found) -> None:
    assert found.scenes["again"] == [2, 0, {"by": "first"}, True]


def test_cloud_storage_renames_no_folder_at_once(found: Found) -> None:
    assert found.scenes["renames at once"] is False


def test_a_server_that_ignores_the_condition_gets_no_commit(found: Found) -> None:
    code, keys = found.scenes["careless"]
    assert code == "RPL-3409"
    assert not [key for key in keys if key.endswith(".json") or "_probe" in key]


def test_a_commit_of_any_size_is_one_request(found: Found) -> None:
    assert found.scenes["large"] is True
    assert found.large == [200]


def test_clean_up_makes_no_unconditional_commits_on_cloud_storage() -> None:
    assert session_settings(2, "gs://bucket/t")["spark.databricks.delta.vacuum.logging.enabled"] == "false"


def test_a_commit_without_an_answer_is_given_up_and_is_whole_when_it_arrives_later(
    monkeypatch: pytest.MonkeyPatch, gcs_server: GcsServer, gcs_bucket: str
) -> None:
    monkeypatch.setattr(module, "_ANSWER_SECONDS", 1.0)
    files = commit_files(None, f"gs://{gcs_bucket}/t/_delta_log")  # type: ignore[arg-type]
    gcs_server.plan(Fault("POST", "x.json", seconds=3))
    with pytest.raises(RetryableError, match="RPL-4401"):
        files.create("x.json", b"first")
    until = time.monotonic() + 60
    while not gcs_server.requests("POST", "x.json"):
        assert time.monotonic() < until
        time.sleep(0.05)
    assert not files.create("x.json", b"second")
    assert files.read("x.json") == b"first"


class HttpError(Exception):
    """As gcsfs has it."""

    def __init__(self, code: int) -> None:
        super().__init__(f"https://storage.googleapis.com/b?access_token=c2VjcmV0, {code}")
        self.code = code


class RefreshError(Exception):
    """As google-auth has it."""


@pytest.mark.parametrize(
    ("error", "kind", "hint"),
    [
        (HttpError(401), NeedsUserError, "renew the credentials"),
        (OSError("Forbidden: b/o?access_token=c2VjcmV0"), NeedsUserError, "renew the credentials"),
        (RefreshError("c2VjcmV0"), RetryableError, "renew the credentials"),
        (HttpError(429), RetryableError, "retried by itself"),
        (HttpError(503), RetryableError, "retried by itself"),
        (HttpError(409), RetryableError, "retried by itself"),
    ],
)
def test_what_gcsfs_raises_says_what_to_do_and_shows_no_token(
    monkeypatch: pytest.MonkeyPatch, error: Exception, kind: type[ReplicatorError], hint: str
) -> None:
    class Client:
        def pipe_file(self, *_: Any, **__: Any) -> None:
            raise error

    monkeypatch.setattr(module, "_client", lambda folder: (Client(), "b/t"))
    with pytest.raises(kind) as caught:
        commit_files(None, "gs://b/t").create("x", b"")  # type: ignore[arg-type]
    assert hint in str(caught.value.hint)
    assert "c2VjcmV0" not in str(caught.value)


def test_without_gcsfs_the_next_step_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gcsfs", None)
    monkeypatch.delitem(importlib.import_module("fsspec.registry").__dict__["_registry"], "gs", raising=False)
    with pytest.raises(NeedsUserError, match="RPL-3409") as caught:
        commit_files(None, "gs://b/t")  # type: ignore[arg-type]
    assert "pip install 'replicator[gcs]'" in str(caught.value.hint)
