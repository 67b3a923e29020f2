"""`make test-bigquery`, up to the credentials: the same tests and the same reader, with the emulators' addresses."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.plugins.targets.bigquery.support.project import Project
from tests.services.bigquery.emulators import BUCKET, LOCATION, PROJECT
from tests.services.bigquery.real_service import Service

ROOT = Path(__file__).resolve().parents[4]
REAL = "tests/plugins/targets/bigquery/real"
SOME = "that_moves_twice or (what_is_there and first and types_instants) or stop_may_come_twice"


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", REAL, *arguments]
    variables = {f"REPLICATOR_BIGQUERY_{name}": value for name, value in environment.items()}
    return subprocess.run(
        command, cwd=ROOT, env={**os.environ, **variables}, capture_output=True, text=True, timeout=90, check=False
    )


def test_the_tests_for_the_real_service_run_and_leave_nothing(project: Project) -> None:
    prefix = f"{project.dataset}_"
    settings = {
        "PROJECT": PROJECT, "BUCKET": BUCKET, "LOCATION": LOCATION, "DATASET_PREFIX": prefix, "MODE": "batch",
        "API_ENDPOINT": project.emulators.bigquery_endpoint, "STORAGE_ENDPOINT": project.emulators.storage_endpoint,
    }  # fmt: skip
    done = run("-k", SOME, **settings)
    assert done.returncode == 0, done.stdout
    assert "3 passed" in done.stdout, done.stdout
    assert any(prefix in job.sql for job in project.emulators.gate.jobs)
    service = Service(
        PROJECT, BUCKET, LOCATION, prefix, "", "batch", settings["API_ENDPOINT"], settings["STORAGE_ENDPOINT"]
    )
    assert service.datasets() == []
    assert service.files(prefix) == []


def test_make_refuses_without_project_and_bucket() -> None:
    done = subprocess.run(
        ["make", "test-bigquery", "PROJECT=p"], cwd=ROOT, capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == 2
    assert "BUCKET=" in done.stderr
