"""Fixtures of the BigQuery target's tests."""

from __future__ import annotations

import pytest

from tests.plugins.targets.bigquery.project import Project
from tests.services.bigquery import Emulators


@pytest.fixture
def project(bigquery_emulators: Emulators) -> Project:
    """A dataset of the test's own, with the settings of the tests."""
    bigquery_emulators.gate.clear()
    return Project(bigquery_emulators)
