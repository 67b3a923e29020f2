"""Shops whose operator does what errors advise."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from replicator_runtime.engine.run_state.spark_handle import SparkHandle
from replicator_sdk import failpoint
from tests.runtime.cli.next_steps.operator_shop import PLUGINS, OperatorShop
from tests.runtime.engine import in_memory_target
from tests.runtime.engine.in_memory_target import TargetStorage
from tests.runtime.plugin_packages import install

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.runtime.cli.conftest import Replicator


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, replicator: Replicator) -> Iterator[OperatorShop]:
    """Its target is in this process's memory."""
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.syspath_prepend(str(site))
    install(site, "kept-in-memory", PLUGINS)
    in_memory_target.STORAGE = TargetStorage()
    yield OperatorShop(tmp_path, replicator)
    failpoint.arm("")


@pytest.fixture
def lake_shop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, replicator: Replicator, spark: SparkSession
) -> Iterator[OperatorShop]:
    """Its target is Delta, with the tests' Spark."""
    monkeypatch.setattr(SparkHandle, "session", lambda self: spark)
    yield OperatorShop(tmp_path, replicator, lake=True)
    failpoint.arm("")
