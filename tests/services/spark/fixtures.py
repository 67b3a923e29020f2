"""Fixtures for Spark: one shared local session, and a two-worker standalone cluster."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.services.spark.session import INTERPRETER, StandaloneCluster, settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark_settings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Settings of the tests' local Spark, with Delta from the cache and a warehouse of their own: for sessions in other processes."""
    warehouse: Path = tmp_path_factory.mktemp("warehouse")
    return {**settings(), "spark.master": "local[2]", "spark.sql.warehouse.dir": str(warehouse)}


@pytest.fixture(scope="session")
def spark(spark_settings: dict[str, str]) -> Iterator[SparkSession]:
    """The local Spark session with Delta that all tests of this process share; do not stop it, and leave its settings alone."""
    from pyspark.sql import SparkSession

    with pytest.MonkeyPatch.context() as patch:
        for name, value in INTERPRETER.items():
            patch.setenv(name, value)
        session = SparkSession.builder.config(map=dict(spark_settings)).getOrCreate()
        yield session
        session.stop()


@pytest.fixture(scope="session")
def spark_cluster() -> Iterator[StandaloneCluster]:
    """A master and two workers; a process has one Spark context, so its driver must be another process than the tests'."""
    cluster = StandaloneCluster(workers=2)
    try:
        yield cluster.start()
    finally:
        cluster.remove()
