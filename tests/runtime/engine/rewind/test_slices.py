"""A log of several partitions that executors read slice by slice into Delta goes back; its tables were never copied."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder

from replicator_runtime.config import build_pipeline
from replicator_runtime.engine.rewind.choice import Wanted
from replicator_runtime.engine.rewind.rewind import rewind
from replicator_runtime.engine.run_state.spark_handle import SparkHandle
from replicator_runtime.engine.worker import run
from replicator_sdk.testing.histories.values import difference
from replicator_sdk.testing.in_memory.partitioned import PartitionedSource
from replicator_state import ReplicatorDirectory
from replicator_target_delta.location import table_path
from tests.runtime.engine.partitioned_shop import PartitionedShop
from tests.runtime.engine.rewind.lake_shop import Host

if TYPE_CHECKING:
    from pathlib import Path

    import pytest
    from pyspark.sql import SparkSession

    from replicator_sdk import TableSchema


class SlicesHost(Host):
    """The partitioned log into Delta."""

    def source(self, name: str) -> type[PartitionedSource]:  # type: ignore[override]
        return PartitionedSource


def test_the_target_is_as_it_was_and_three_runs_later_equal(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SparkHandle, "session", lambda self: spark)
    shop, lake = PartitionedShop(tmp_path, 7, 3), str(tmp_path / "lake")
    pipeline = build_pipeline(shop.document("delta", {"path": lake}), host=SlicesHost())  # type: ignore[arg-type]

    def copy(schema: TableSchema) -> list[dict[str, Any]]:
        found = QueryBuilder().register("t", DeltaTable(table_path(lake, schema.table)))
        rows: list[dict[str, Any]] = pa.table(found.execute("select * from t").read_all()).to_pylist()
        return [{column.name: one[column.name] for column in schema.columns} for one in rows]

    def assert_equal() -> None:
        assert run(pipeline, until_current=True).reached_goal
        assert [text for one in shop.schemas if (text := difference(one, shop.rows(one.table), copy(one)))] == []

    shop.trade(10)
    assert_equal()
    shop.trade(10)
    assert_equal()
    config = pipeline.config
    latest = ReplicatorDirectory(config.offset_base_path, config.namespace, config.name).offsets().latest()
    assert latest is not None
    schemas, then = list(shop.schemas), {one.table: copy(one) for one in shop.schemas}
    shop.trade(10)
    shop.grow()
    shop.trade(10)
    assert_equal()
    plan = rewind(pipeline, Wanted(f"offset.{latest.commit_timestamp:020d}"), lambda plan: None)
    assert plan is not None
    assert any(one.back is not None for one in plan.tables)
    assert [text for one in schemas if (text := difference(one, then[one.table], copy(one)))] == []
    assert_equal()
    for _ in range(3):
        shop.trade(10)
        shop.grow()
        assert_equal()


def test_a_table_that_was_left_out_after_the_offset_goes_on_when_it_is_selected_again(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of it was passed: the log is read again from before the place where it was left."""
    monkeypatch.setattr(SparkHandle, "session", lambda self: spark)
    shop, lake = PartitionedShop(tmp_path, 7, 3), str(tmp_path / "lake")

    def run_with(*tables: str) -> None:
        document = shop.document("delta", {"path": lake}, tables=[{"table": one} for one in tables])
        assert run(build_pipeline(document, host=SlicesHost()), until_current=True).reached_goal  # type: ignore[arg-type]

    shop.trade(10)
    run_with("customers", "stock", "notes")
    pipeline = build_pipeline(shop.document("delta", {"path": lake}), host=SlicesHost())  # type: ignore[arg-type]
    config = pipeline.config
    latest = ReplicatorDirectory(config.offset_base_path, config.namespace, config.name).offsets().latest()
    assert latest is not None
    shop.trade(10)
    run_with("customers", "stock", "notes")
    for _ in range(2):
        shop.trade(10)
        run_with("stock", "notes")
    document = shop.document("delta", {"path": lake}, tables=[{"table": "stock"}, {"table": "notes"}])
    narrow = build_pipeline(document, host=SlicesHost())  # type: ignore[arg-type]
    plan = rewind(narrow, Wanted(f"offset.{latest.commit_timestamp:020d}"), lambda plan: None)
    assert plan is not None
    assert "customers" in {one.table.table for one in plan.tables if one.back is None}
    for _ in range(3):
        run_with("customers", "stock", "notes")
        for schema in shop.schemas:
            found = QueryBuilder().register("t", DeltaTable(table_path(lake, schema.table)))
            rows = pa.table(found.execute("select * from t").read_all()).to_pylist()
            copied = [{column.name: one[column.name] for column in schema.columns} for one in rows]
            assert difference(schema, shop.rows(schema.table), copied) == ""
        shop.trade(10)
        shop.grow()
