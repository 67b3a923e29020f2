"""The Delta target keeps in the mode `scd2` what the SDK promises of every target: its current versions are the rows of the source."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import pytest

from replicator_sdk.testing.target_suite import TargetConformance
from tests.depth import ALL_CASES
from tests.plugins.targets.delta.versions.versions_lake import VersionsLake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class TestDeltaVersions(TargetConformance):
    """Tables without a key are refused in this mode."""

    test_removals_that_come_before_their_inserts_take_them_away = None  # type: ignore[assignment]
    test_a_table_that_is_dropped_and_created_again_waits_for_no_row = None  # type: ignore[assignment]
    supports_keyless: ClassVar[bool] = False
    cuts: ClassVar[tuple[str, ...]] = ("first alone",)
    random_histories: ClassVar[int] = 12 if ALL_CASES else 6
    interruptions: ClassVar[int] = 12

    @pytest.fixture
    def system(self, tmp_path: Path, spark: SparkSession) -> VersionsLake:
        return VersionsLake(tmp_path / "lake", spark)
