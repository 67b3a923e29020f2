"""Fixtures of the Delta target's tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from replicator_target_delta.plugin import session_settings
from tests.plugins.targets.delta.lake import Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def delta_spark(spark: SparkSession) -> Iterator[SparkSession]:
    """The shared session under the settings the plugin asks for, as far as a running session takes them."""
    mine = {k: v for k, v in session_settings(2).items() if spark.conf.isModifiable(k)}
    before = {k: spark.conf.get(k, None) for k in mine}
    for key, value in mine.items():
        spark.conf.set(key, value)
    yield spark
    for key, old in before.items():
        spark.conf.unset(key) if old is None else spark.conf.set(key, old)


@pytest.fixture
def lake(tmp_path: Path, delta_spark: SparkSession) -> Lake:
    """An empty lake with default settings."""
    return Lake(tmp_path / "lake", delta_spark)
