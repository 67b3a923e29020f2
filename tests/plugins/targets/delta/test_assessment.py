"""What the assessment says of the place of the tables."""

from __future__ import annotations

from pathlib import Path

import pytest

from replicator_sdk.discovery.assessment import Severity
from replicator_target_delta.assessment import DeltaAssessor
from replicator_target_delta.config import DeltaConfig


@pytest.mark.parametrize("path", ["s3://bucket/lake", "s3a://bucket/lake"])
def test_of_s3_it_says_what_commits_there_need(path: str) -> None:
    (finding,) = DeltaAssessor(DeltaConfig(path=path)).assess().findings
    assert (finding.severity, finding.code) == (Severity.INFO, "RPL-3409")
    assert "If-None-Match" in finding.description


def test_of_a_disk_that_can_be_written_it_says_nothing(tmp_path: Path) -> None:
    assert DeltaAssessor(DeltaConfig(path=str(tmp_path))).assess().findings == ()


def test_a_file_on_the_way_to_the_folder_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "lake").write_text("")
    (finding,) = DeltaAssessor(DeltaConfig(path=str(tmp_path / "lake" / "raw"))).assess().findings
    assert (finding.severity, finding.code) == (Severity.ERROR, "RPL-3403")
    assert finding.description == f"{tmp_path / 'lake'} is a file, not a folder"


def test_of_stores_on_which_two_writers_were_not_tried_it_warns() -> None:
    (finding,) = DeltaAssessor(DeltaConfig(path="hdfs://name/lake")).assess().findings
    assert (finding.severity, finding.name) == (Severity.WARNING, "commits_not_tried")


def test_a_store_that_pyarrow_does_not_open_is_an_error() -> None:
    (finding,) = DeltaAssessor(DeltaConfig(path="oss://bucket/lake")).assess().findings
    assert (finding.severity, finding.code) == (Severity.ERROR, "RPL-3407")


@pytest.mark.parametrize("path", ["abfss://files@account.dfs.core.windows.net/lake", "gs://bucket/lake"])
def test_commits_to_azure_and_to_cloud_storage_need_its_client(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assessor = DeltaAssessor(DeltaConfig(path=path))
    (finding,) = assessor.assess().findings
    assert (finding.severity, finding.code) == (Severity.INFO, "RPL-3409")
    monkeypatch.setattr("replicator_target_delta.assessment.find_spec", lambda name: None)
    (finding,) = assessor.assess().findings
    assert finding.severity is Severity.ERROR
