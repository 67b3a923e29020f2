"""What the SDK promises of every target, before the real service."""

from __future__ import annotations

from typing import ClassVar

import pytest

from replicator_sdk.testing.target_suite import TargetConformance
from tests.plugins.targets.bigquery.project import Project
from tests.services.bigquery_service import Service


class TestBigQuery(TargetConformance):
    cuts: ClassVar[tuple[str, ...]] = ("first alone",)
    random_histories: ClassVar[int] = 2
    largest_decimal: ClassVar[int] = 28 if Service.of_environment().is_emulated else 38

    @pytest.fixture
    def system(self, project: Project) -> Project:
        return project
