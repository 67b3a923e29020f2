"""Runs in this process, with the tests' Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from replicator_runtime.engine.run_state.spark_handle import SparkHandle
from replicator_sdk import failpoint
from tests.runtime.engine.rewind.lake_shop import LakeShop

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession


@pytest.fixture
def lake_shop(tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[LakeShop]:
    """A new one, with rows."""
    monkeypatch.setattr(SparkHandle, "session", lambda self: spark)
    shop = LakeShop(tmp_path)
    shop.fill()
    yield shop
    failpoint.arm("")
