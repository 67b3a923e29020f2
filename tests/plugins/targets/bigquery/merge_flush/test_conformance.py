"""Mode merge-flush keeps what the SDK promises of every target, as far as the emulator can show it."""

from __future__ import annotations

from typing import ClassVar

import pytest

from replicator_sdk.testing.target_suite import TargetConformance
from tests.plugins.targets.bigquery.project import Project


class TestMergeFlush(TargetConformance):
    cuts: ClassVar[tuple[str, ...]] = ("first alone",)
    random_histories: ClassVar[int] = 2
    largest_decimal: ClassVar[int] = 28  # the emulator has no BIGNUMERIC
    supports_keyless: ClassVar[bool] = False

    @pytest.fixture
    def system(self, project: Project) -> Project:
        return project
