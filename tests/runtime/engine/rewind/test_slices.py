"""A log of several partitions that executors read slice by slice into Delta goes back; its tables were never copied."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder

from replicator_runtime.config import build_pipeline
from replicator_runtime.engine.rewind.choice import Wanted
from replicator_runtime.engine.rewind.rewind import rewind
from replicator_runtime.engine.run_state.spark_handle import SparkHandle
from replicator_runtime.engine.slices import slice_size
from replicator_runtime.engine.worker import run
from replicator_sdk import failpoint
from replicator_sdk.errors import ReplicatorError
from replicator_sdk.testing.histories.values import difference
from replicator_sdk.testing.in_memory.partitioned import PartitionedSource
from replicator_state import ReplicatorDirectory
from replicator_target_delta.location import table_path
from tests.runtime.engine.partitioned_shop import PartitionedShop
from tests.runtime.engine.rewind.lake_shop import Host

if TYPE_CHECKING:
    from pathlib import Path

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


def test_a_paused_table_stays_and_gets_everything_later_wherever_it_was(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One was not read since it was paused; the other one is between two offsets in its own way: further in one partition."""
    monkeypatch.setattr(SparkHandle, "session", lambda self: spark)
    shop, lake = PartitionedShop(tmp_path, 7, 3), str(tmp_path / "lake")
    more = {"retries": {"maxDurationSeconds": 0}}
    pipeline = build_pipeline(shop.document("delta", {"path": lake}, **more), host=SlicesHost())  # type: ignore[arg-type]
    directory = ReplicatorDirectory(str(tmp_path / "state"), "default", "shop")

    def differing() -> list[str]:
        found = []
        for schema in shop.schemas:
            opened = QueryBuilder().register("t", DeltaTable(table_path(lake, schema.table)))
            rows: list[dict[str, Any]] = pa.table(opened.execute("select * from t").read_all()).to_pylist()
            copied = [{column.name: one.get(column.name) for column in schema.columns} for one in rows]
            found += [schema.table.table] if difference(schema, shop.rows(schema.table), copied) else []
        return found

    shop.trade(10)
    run(pipeline, until_current=True)
    for table in ("customers", "notes"):
        directory.requests().submit("table.pause", {"tables": [table]})
    shop.trade(20)
    run(pipeline, until_current=True)
    latest = directory.offsets().latest()
    assert latest is not None
    shop.trade(20)
    run(pipeline, until_current=True)
    assert differing() == ["customers", "notes"]
    directory.requests().submit("table.resume", {"tables": ["customers"]})
    with monkeypatch.context() as small:
        small.setattr(slice_size, "_FIRST_BYTES", 3600)
        failpoint.arm("engine.late_table.applied=raise")
        with pytest.raises(ReplicatorError, match=r"engine\.late_table\.applied"):
            run(pipeline, until_current=True)
        failpoint.arm("")
    plan = rewind(pipeline, Wanted(f"offset.{latest.commit_timestamp:020d}"), lambda plan: None)
    assert plan is not None
    assert {one.table.table for one in plan.tables if one.back is not None} == {"stock"}
    run(pipeline, until_current=True)
    assert differing() == ["notes"]
    directory.requests().submit("table.resume", {"tables": ["notes"]})
    for _ in range(3):
        run(pipeline, until_current=True)
        assert differing() == []
        shop.trade(10)
        shop.grow()
    run(pipeline, until_current=True)
    assert differing() == []
