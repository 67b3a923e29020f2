"""Fixtures of the BigQuery target's tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from replicator_sdk.failpoint import arm
from tests.plugins.targets.bigquery.judge import judge
from tests.plugins.targets.bigquery.project import Project
from tests.services.bigquery import Emulators


@pytest.fixture(autouse=True)
def _disarmed() -> Iterator[None]:
    """No place is left armed for the next test."""
    yield
    arm("")


@pytest.fixture
def project(bigquery_emulators: Emulators) -> Iterator[Project]:
    """A dataset of the test's own, with the settings of the tests; every statement that was run is judged afterwards."""
    bigquery_emulators.gate.clear()
    yield Project(bigquery_emulators)
    for sql in {job.sql for job in bigquery_emulators.gate.jobs if job.kind == "query"}:
        judge(sql)
