"""The Iceberg target keeps what the SDK promises of every target, in both modes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import pytest

from replicator_sdk.testing.target_suite import TargetConformance
from tests.plugins.targets.iceberg.warehouse import Warehouse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class TestIceberg(TargetConformance):
    cuts: ClassVar[tuple[str, ...]] = ("first alone",)
    random_histories: ClassVar[int] = 6
    interruptions: ClassVar[int] = 8

    @pytest.fixture
    def system(self, tmp_path: Path, iceberg_spark: SparkSession) -> Warehouse:
        return Warehouse(tmp_path / "lake", iceberg_spark)


class TestIcebergThatAppends(TargetConformance):
    cuts: ClassVar[tuple[str, ...]] = ("all at once",)
    random_histories: ClassVar[int] = 4
    interruptions: ClassVar[int] = 4

    @pytest.fixture
    def system(self, tmp_path: Path, iceberg_spark: SparkSession) -> Warehouse:
        return Warehouse(tmp_path / "lake", iceberg_spark, mode="append")
