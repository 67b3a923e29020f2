"""Fixtures of tests that do what errors of tables in Iceberg advise."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from replicator_runtime.engine.run_state.spark_handle import SparkHandle
from tests.runtime.cli.next_steps.iceberg.iceberg_shop import IcebergShop
from tests.services.spark.iceberg import with_iceberg

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.runtime.cli.conftest import Replicator


@pytest.fixture
def iceberg_shop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, replicator: Replicator, spark: SparkSession
) -> IcebergShop:
    """A shop with an empty warehouse."""
    with_iceberg(spark)
    monkeypatch.setattr(SparkHandle, "session", lambda self: spark)
    return IcebergShop(tmp_path, replicator, spark)
