"""Slices into Delta, applied by executors: a process killed at any step is recovered from."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder

from replicator_sdk.testing.histories.values import difference
from replicator_target_delta.location import table_path
from tests.crash.kills import kills
from tests.runtime.engine.partitioned_shop import PartitionedShop
from tests.services.forks import fork
from tests.services.spark.session import INTERPRETER, SMALL

if TYPE_CHECKING:
    from replicator_sdk import TableSchema

ENTRY = Path(__file__).with_name("slices_entry.py")
_SPARK = {"master": "local[2]", "conf": dict(SMALL)}
PLACES = ["delta.slice.vectors_written", "engine.slice.schema_announced"]


class Copy:
    """A shop, its log, and the Delta tables made of it in other processes."""

    def __init__(self, folder: Path, partitions: int) -> None:
        self.folder = folder
        self.shop = PartitionedShop(folder, 7, partitions)
        self._runs = 0

    def run(self, failpoints: str = "") -> tuple[int, str]:
        """One run until current; its exit code and what it said."""
        pipeline = self.folder / "pipeline.json"
        document = self.shop.document("delta", {"path": str(self.folder / "lake")}, spark=_SPARK)
        pipeline.write_text(json.dumps(document))
        self._runs += 1
        log = self.folder / f"run-{self._runs}.log"
        environment = {**INTERPRETER, "REPLICATOR_FAILPOINTS": failpoints}
        status = fork([sys.executable, ENTRY, pipeline], log=log, environment=environment).wait(280)
        return status, log.read_text(errors="replace")

    def rows(self, schema: TableSchema) -> list[dict[str, Any]]:
        table = DeltaTable(table_path(str(self.folder / "lake"), schema.table))
        rows: list[dict[str, Any]] = pa.table(
            QueryBuilder().register("t", table).execute("select * from t").read_all()
        ).to_pylist()
        return rows

    def assert_equal(self) -> None:
        for schema in self.shop.schemas:
            assert difference(schema, self.shop.rows(schema.table), self.rows(schema)) == ""


@pytest.mark.timeout(600)
def test_a_process_killed_at_any_step_is_recovered_from(tmp_path: Path) -> None:
    copy = Copy(tmp_path, 3)
    copy.shop.trade(30)
    for place in PLACES:
        copy.shop.grow()
        copy.shop.trade(10)
        status, said = copy.run(f"{place}=kill")
        assert status == -signal.SIGKILL, said[-3000:]
        kills.append(place)
        copy.shop.trade(10)
    for _ in range(3):
        status, said = copy.run()
        assert status == 0, said[-3000:]
        copy.assert_equal()
        copy.shop.grow()
        copy.shop.trade(10)
