"""The work on files gives the same results on Spark's executors as in threads of the driver."""

from __future__ import annotations

import pytest

from replicator_sdk.datatype import STRING
from replicator_sdk.event import Alter, AlterKind
from replicator_sdk.schema import Column, TableSchema
from replicator_target_delta.apply import key_lookup as finding
from replicator_target_delta.ddl import backfill
from tests.plugins.targets.changes import KEYED, TABLE, alter, batch, delete, insert, row, update
from tests.plugins.targets.delta.lake import Lake


@pytest.fixture
def _cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """Takes the local master for a cluster, and every table for a large one."""
    monkeypatch.setattr(finding, "is_local", lambda _spark: False)
    monkeypatch.setattr(backfill, "is_local", lambda _spark: False)
    monkeypatch.setattr(finding, "_DRIVER_ROWS", 0)


@pytest.mark.usefixtures("_cluster")
def test_rows_are_found_and_old_values_fetched_by_executors(lake: Lake) -> None:
    consumer = lake.consumer()
    consumer.apply_batch(batch(1, [insert(row(i, f"n{i}", f"t{i}")) for i in range(10)]))
    consumer.apply_batch(batch(2, [delete({"id": 3}), update({"id": 40, "name": "moved"}, before={"id": 4})]))
    consumer.apply_batch(batch(3, [delete({"id": 5}), update({"id": 40, "note": "x"})]))
    found = {r["id"]: (r["name"], r["note"]) for r in lake.rows(TABLE)}
    assert found == {i: (f"n{i}", f"t{i}") for i in (0, 1, 2, 6, 7, 8, 9)} | {40: ("moved", "x")}


@pytest.mark.usefixtures("_cluster")
def test_files_are_rewritten_by_executors(lake: Lake) -> None:
    consumer = lake.consumer()
    consumer.apply_batch(batch(1, [insert(row(i)) for i in range(4)]))
    consumer.apply_batch(batch(2, [delete({"id": 3})]))
    wider = TableSchema(TABLE, (*KEYED.columns, Column("extra", STRING)), ("id",))
    consumer.apply_ddl(alter(3, wider, Alter(AlterKind.ADD_COLUMN, wider["extra"], default="d")))
    assert {r["id"]: r["extra"] for r in lake.rows(TABLE)} == dict.fromkeys(range(3), "d")
