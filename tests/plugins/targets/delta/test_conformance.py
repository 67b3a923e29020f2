"""The Delta target keeps what the SDK promises of every target."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import pytest

from replicator_sdk.testing.target_claims.databases import DatabaseClaims
from replicator_sdk.testing.target_suite import TargetConformance
from tests.depth import ALL_CASES
from tests.plugins.targets.delta.lake import Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class TestDelta(TargetConformance):
    cuts: ClassVar[tuple[str, ...]] = ("first alone",)
    random_histories: ClassVar[int] = 12 if ALL_CASES else 6
    interruptions: ClassVar[int] = 12

    @pytest.fixture
    def system(self, tmp_path: Path, spark: SparkSession) -> Lake:
        return Lake(tmp_path / "lake", spark)


class TestDeltaThatDropsTables(DatabaseClaims):
    interruptions: ClassVar[int] = 12

    @pytest.fixture
    def system(self, tmp_path: Path, spark: SparkSession) -> Lake:
        return Lake(tmp_path / "lake", spark, drop_tables="drop")
