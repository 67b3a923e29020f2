"""The Iceberg target keeps what the SDK promises of every target, in both modes and on a branch."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import pytest

from replicator_sdk.testing.target_suite import TargetConformance
from tests.depth import ALL_CASES
from tests.plugins.targets.iceberg.versions.versions_warehouse import VersionsWarehouse
from tests.plugins.targets.iceberg.warehouse import Warehouse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class TestIceberg(TargetConformance):
    cuts: ClassVar[tuple[str, ...]] = ("first alone",)
    random_histories: ClassVar[int] = 6 if ALL_CASES else 3
    interruptions: ClassVar[int] = 4

    @pytest.fixture
    def system(self, tmp_path: Path, iceberg_spark: SparkSession) -> Warehouse:
        return Warehouse(tmp_path / "lake", iceberg_spark)


class TestIcebergThatAppends(TargetConformance):
    """A history takes every update: each is a row, whose `_unchanged` names the columns that it lacks (`test_tables.py`)."""

    test_an_update_of_a_missing_row_without_all_columns_is_refused = None  # type: ignore[assignment]
    test_an_update_of_a_row_that_is_deleted_later_is_dropped = None  # type: ignore[assignment]
    test_a_move_in_an_overlap_without_all_columns_needs_a_new_copy = None  # type: ignore[assignment]
    cuts: ClassVar[tuple[str, ...]] = ("all at once",)
    random_histories: ClassVar[int] = 4
    interruptions: ClassVar[int] = 2

    @pytest.fixture
    def system(self, tmp_path: Path, iceberg_spark: SparkSession) -> Warehouse:
        return Warehouse(tmp_path / "lake", iceberg_spark, mode="append")


class TestIcebergOnABranch(TargetConformance):
    """Of each table the branch of the settings has all that is promised, and `main` has nothing."""

    cuts: ClassVar[tuple[str, ...]] = ("first alone",)
    random_histories: ClassVar[int] = 6 if ALL_CASES else 2
    interruptions: ClassVar[int] = 2

    @pytest.fixture
    def system(self, tmp_path: Path, iceberg_spark: SparkSession) -> Iterator[Warehouse]:
        lake = Warehouse(tmp_path / "lake", iceberg_spark, branch="audit")
        yield lake
        assert {name: lake.main_rows(name) for name in lake.tables()} == dict.fromkeys(lake.tables(), 0)


class TestIcebergMergeOnRead(TargetConformance):
    """Tables without a key are refused in this mode. Read by `pyiceberg` and DuckDB's SQL."""

    test_removals_that_come_before_their_inserts_take_them_away = None  # type: ignore[assignment]
    test_a_table_that_is_dropped_and_created_again_waits_for_no_row = None  # type: ignore[assignment]
    supports_keyless: ClassVar[bool] = False
    cuts: ClassVar[tuple[str, ...]] = ("first alone",)
    random_histories: ClassVar[int] = 6 if ALL_CASES else 3
    interruptions: ClassVar[int] = 4

    @pytest.fixture
    def system(self, tmp_path: Path, iceberg_spark: SparkSession) -> Warehouse:
        return Warehouse(tmp_path / "lake", iceberg_spark, mode="merge-on-read")


class TestIcebergVersions(TargetConformance):
    """The current versions are the rows of the source. Tables without a key are refused in this mode."""

    test_removals_that_come_before_their_inserts_take_them_away = None  # type: ignore[assignment]
    test_a_table_that_is_dropped_and_created_again_waits_for_no_row = None  # type: ignore[assignment]
    supports_keyless: ClassVar[bool] = False
    cuts: ClassVar[tuple[str, ...]] = ("first alone",)
    random_histories: ClassVar[int] = 6 if ALL_CASES else 3
    interruptions: ClassVar[int] = 4

    @pytest.fixture
    def system(self, tmp_path: Path, iceberg_spark: SparkSession) -> VersionsWarehouse:
        return VersionsWarehouse(tmp_path / "lake", iceberg_spark)
