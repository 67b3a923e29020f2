"""The BigQuery target keeps what the SDK promises of every target, as far as the emulator can show it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import pytest

from replicator_sdk.testing.target_suite import TargetConformance
from tests.plugins.targets.bigquery.support.project import Project


class TestBigQuery(TargetConformance):
    cuts: ClassVar[tuple[str, ...]] = ("first alone",)
    random_histories: ClassVar[int] = 2
    spread_histories: ClassVar[int] = 1  # a property test of its own tries more
    interruptions: ClassVar[int] = 3
    fences_maintenance: ClassVar[bool] = False  # a step deletes rows of the commit log that no run reads
    largest_decimal: ClassVar[int] = 28  # the emulator has no BIGNUMERIC

    @pytest.fixture
    def system(self, project: Project, tasks_run_here: Callable[[], Any]) -> Project:
        """Executors have tests of their own."""
        project.spark = tasks_run_here
        return project
