"""Rows that the source has not any more are not seen by readers of merge-on-read tables, and no row twice."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from replicator_sdk.datatype import INT64, STRING
from replicator_sdk.schema import Column, TableId, TableSchema
from tests.plugins.targets.changes import batch, delete, insert, update
from tests.plugins.targets.delta.merge_on_read.latest import LatestLake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ORDERS = TableSchema(
    TableId("shop", "orders"), (Column("id", STRING), Column("ts", INT64), Column("item", STRING)), ("id",)
)


@pytest.fixture
def lake(tmp_path: Path, spark: SparkSession) -> LatestLake:
    return LatestLake(tmp_path / "lake", spark, watermarkKeys=["ts"], tombstoneKey="gone")


def row(key: str, ts: int | None, item: str = "a") -> dict[str, Any]:
    return {"id": key, "ts": ts, "item": item}


def test_a_row_that_is_deleted_twice_in_a_batch_is_gone(lake: LatestLake) -> None:
    """As a connector of Kafka's sends again what it had sent before it was restarted; the log has the key alone."""
    consumer = lake.consumer()
    consumer.apply_batch(batch(1, [insert(row("1", 100), ORDERS), insert(row("2", 100), ORDERS)]))
    again = [delete({"id": "1"}, ORDERS), delete({"id": "1"}, ORDERS)]
    consumer.apply_batch(batch(2, [*again, insert(row("3", 5), ORDERS), *[delete({"id": "3"}, ORDERS)] * 2]))
    assert [r["id"] for r in lake.rows(ORDERS.table)] == ["2"]
    consumer.apply_batch(batch(3, [insert(row("1", 100, "b"), ORDERS), delete({"id": "2"}, ORDERS)]))
    assert [(r["id"], r["item"]) for r in lake.rows(ORDERS.table)] == [("1", "b")]


@pytest.mark.parametrize("ts", [None, 50, 100, 200])
def test_a_row_that_moves_is_gone_at_its_former_key_whatever_watermark_it_has_then(
    lake: LatestLake, ts: int | None
) -> None:
    """A whole row before the change says which watermark the tombstone needs, as that of a deleted row."""
    consumer = lake.consumer()
    consumer.apply_batch(batch(1, [insert(row("1", 100), ORDERS)]))
    consumer.apply_batch(batch(2, [update(row("2", ts), ORDERS, row("1", 100))]))
    assert [r["id"] for r in lake.rows(ORDERS.table)] == ["2"]
    consumer.apply_batch(batch(3, [insert(row("1", 150), ORDERS)]))
    assert sorted(r["id"] for r in lake.rows(ORDERS.table)) == ["1", "2"]
