"""The Iceberg target keeps what the SDK promises of every target, also where it takes changes ahead of their commits."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import pytest

from replicator_sdk.testing.target_suite import TargetConformance
from tests.depth import ALL_CASES
from tests.plugins.targets.iceberg.coordinator.lakes import ONCE_AN_HOUR
from tests.plugins.targets.iceberg.warehouse import Warehouse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class TestCommitsThatTheRuntimeAsksFor(TargetConformance):
    """Every batch since the runtime's last request is in one commit: rows of one are updated and deleted by the next."""

    cuts: ClassVar[tuple[str, ...]] = ("first alone",)
    random_histories: ClassVar[int] = 6 if ALL_CASES else 3
    interruptions: ClassVar[int] = 4

    @pytest.fixture
    def system(self, tmp_path: Path, iceberg_spark: SparkSession) -> Warehouse:
        return Warehouse(tmp_path / "lake", iceberg_spark, commitIntervalMs=ONCE_AN_HOUR, formatVersion=3)


class TestCommitsByTheClock(TargetConformance):
    """Beside batches that are being written."""

    cuts: ClassVar[tuple[str, ...]] = ("all at once",)
    random_histories: ClassVar[int] = 6 if ALL_CASES else 3
    interruptions: ClassVar[int] = 2

    @pytest.fixture
    def system(self, tmp_path: Path, iceberg_spark: SparkSession) -> Warehouse:
        return Warehouse(tmp_path / "lake", iceberg_spark, commitIntervalMs=5, commitTimeoutMs=5)
