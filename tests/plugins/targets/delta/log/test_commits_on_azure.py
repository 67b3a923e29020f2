"""On Azure a version belongs to the run that wrote it first; one program shows all scenes, since each session of Spark costs seconds."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from azure.core.exceptions import ClientAuthenticationError, HttpResponseError

from replicator_sdk.errors import NeedsUserError, ReplicatorError, RetryableError
from replicator_target_delta.files.azure import open_azure
from replicator_target_delta.files.storage import Storage
from replicator_target_delta.log import client_files as module
from replicator_target_delta.log.commit_files import commit_files
from replicator_target_delta.plugin import session_settings

_ROOT = Path(__file__).parents[5]
_OTHER = "DefaultEndpointsProtocol=https;AccountName=other;AccountKey=a2V5;EndpointSuffix=core.windows.net"


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    """What happened in the scenes of `azure_commits.py`."""
    command = [sys.executable, "-m", "tests.plugins.targets.delta.log.azure_commits"]
    ended = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode == 0, ended.stderr[-4000:]
    line = next(line for line in ended.stdout.splitlines() if line.startswith("found "))
    answer: dict[str, Any] = json.loads(line.removeprefix("found "))
    return answer


def test_commits_on_azure_are_read_back_by_delta_by_its_history_and_by_another_reader(found: dict[str, Any]) -> None:
    assert found["commits"] == [3, {"number": 2}, 4, 3]


def test_a_commit_that_reaches_azure_late_leaves_the_newer_runs_commit_in_place(found: dict[str, Any]) -> None:
    assert found["late"] == ["RPL-4407", True]


def test_refused_lost_and_slow_writes_to_azure_leave_one_commit_each(found: dict[str, Any]) -> None:
    assert found["faults"] == [1, 2, 3, 4, 5]


def test_of_writers_of_one_version_at_once_one_has_written_it(found: dict[str, Any]) -> None:
    assert found["race"] == [[1, True]] * 10


def test_credentials_that_expire_during_a_commit_leave_none_and_the_next_has_its_version(found: dict[str, Any]) -> None:
    assert found["expired"] == ["RPL-3403", 1, {"n": 2}]


def test_a_table_that_is_deleted_and_created_again_on_azure_begins_at_version_0(found: dict[str, Any]) -> None:
    assert found["again"] == [2, 0, {"by": "first"}, True]


def test_a_log_on_azure_that_may_not_be_read_is_the_users_business(found: dict[str, Any]) -> None:
    assert found["refused"] == ["RPL-3403", "RPL-3403", "done"]


def test_files_of_a_table_on_azure_are_found_read_and_deleted(found: dict[str, Any]) -> None:
    assert found["files"] == [3, "123", [], None]


def test_an_account_without_a_hierarchical_namespace_renames_no_folder_at_once(found: dict[str, Any]) -> None:
    assert found["renames at once"] is False


def test_clean_up_makes_no_unconditional_commits_on_azure() -> None:
    key = "spark.databricks.delta.vacuum.logging.enabled"
    assert session_settings(2, "abfss://c@a.dfs.core.windows.net/t")[key] == "false"


def test_a_connection_string_of_another_account_gets_no_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", _OTHER)
    with pytest.raises(NeedsUserError, match="RPL-3416"):
        commit_files(None, "abfss://c@mine.dfs.core.windows.net/t/_delta_log")  # type: ignore[arg-type]


def test_a_location_without_an_account_and_one_of_the_former_client_are_refused() -> None:
    with pytest.raises(pa.ArrowInvalid, match="CONTAINER@ACCOUNT"):
        open_azure("container/lake")
    with pytest.raises(NeedsUserError, match="RPL-3407"):
        Storage("wasbs://c@a.blob.core.windows.net/t").stamp("x")


@pytest.mark.parametrize(
    ("error", "status", "kind", "hint"),
    [
        (ClientAuthenticationError, 403, NeedsUserError, "renew the credentials"),
        (ClientAuthenticationError, 401, NeedsUserError, "renew the credentials"),
        (ClientAuthenticationError, None, RetryableError, "renew the credentials"),
        (HttpResponseError, 429, RetryableError, "retried by itself"),
        (HttpResponseError, 503, RetryableError, "retried by itself"),
    ],
)
def test_an_expired_credential_says_so_throttling_is_retried_and_no_signature_is_shown(
    monkeypatch: pytest.MonkeyPatch,
    error: type[HttpResponseError],
    status: int | None,
    kind: type[ReplicatorError],
    hint: str,
) -> None:
    class Client:
        def pipe_file(self, *_: Any, **__: Any) -> None:
            raised = error("https://mine.blob.core.windows.net/c?sig=c2VjcmV0")
            raised.status_code = status
            raise raised

    monkeypatch.setattr(module, "_client", lambda folder: (Client(), "c/t"))
    with pytest.raises(kind) as caught:
        commit_files(None, "abfss://c@mine.dfs.core.windows.net/t").create("x", b"")  # type: ignore[arg-type]
    assert hint in str(caught.value.hint)
    assert "sig=" not in str(caught.value)


def test_a_commit_that_is_refused_and_not_there_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    class Client:
        def invalidate_cache(self) -> None:
            pass

        def cat_file(self, path: str) -> bytes:
            raise FileNotFoundError(path)

    monkeypatch.setattr(module, "_client", lambda folder: (Client(), "c/t"))
    with pytest.raises(RetryableError, match=r"RPL-4401.*not there"):
        commit_files(None, "abfss://c@mine.dfs.core.windows.net/t").read("x")  # type: ignore[arg-type]
