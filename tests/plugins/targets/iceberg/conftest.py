"""Fixtures of the Iceberg target's tests."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.plugins.targets.iceberg.warehouse import Warehouse
from tests.services.spark.iceberg import with_iceberg

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def iceberg_spark(spark: SparkSession) -> SparkSession:
    """The shared session, to which Iceberg's runtime was added."""
    return with_iceberg(spark)


@pytest.fixture
def warehouse(tmp_path: Path, iceberg_spark: SparkSession) -> Warehouse:
    """An empty warehouse with default settings."""
    return Warehouse(tmp_path / "lake", iceberg_spark)
