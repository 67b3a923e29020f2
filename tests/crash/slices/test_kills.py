"""Slices into Delta, applied by executors: three runs after a kill at any step end equal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder

from replicator_sdk.testing.histories.history import Step
from replicator_sdk.testing.histories.values import difference
from replicator_target_delta.location import table_path
from tests.crash.installed_plugin import install_plugin
from tests.crash.one_process import CopyInProcess, OneProcess
from tests.crash.three_runs import ThreeRuns
from tests.depth import some
from tests.runtime.engine.partitioned_shop import PartitionedShop
from tests.services.spark.session import SMALL

if TYPE_CHECKING:
    from replicator_sdk import TableSchema

_SPARK = {"master": "local[2]", "conf": dict(SMALL)}
_POINTS = ["delta.slice.vectors_written", "engine.slice.schema_announced"]


class Pair:
    """Tables, their log of three partitions, and Delta tables; `source` of three runs."""

    def __init__(self, folder: Path, process: OneProcess) -> None:
        self._lake = folder / "lake"
        self._tables = PartitionedShop(folder, 7, 3)
        self.process = process
        self.copy = CopyInProcess(process, self.document, self.differences)

    def change_rows(self) -> None:
        """Random changes."""
        self._tables.trade(10)

    def change_stock(self, first: int = 1000) -> None:
        """Nine new rows of one of the tables only, with keys from `first` on."""
        rows = [{"place": "x", "item": first + number, "n": number} for number in range(9)]
        self._tables.execute(Step("insert", "stock", {"rows": rows}))

    def change_structure(self) -> None:
        """Another column."""
        self._tables.grow()

    def document(self) -> Mapping[str, Any]:
        """The pipeline JSON."""
        return self._tables.document("delta", {"path": str(self._lake)}, spark=_SPARK)

    def differences(self) -> list[str]:
        """How tables and copies differ."""
        tables = self._tables
        found = (difference(schema, tables.rows(schema.table), self._copy(schema)) for schema in tables.schemas)
        return [text for text in found if text]

    def _copy(self, schema: TableSchema) -> list[dict[str, Any]]:
        table = DeltaTable(table_path(str(self._lake), schema.table))
        rows: list[dict[str, Any]] = pa.table(
            QueryBuilder().register("t", table).execute("select * from t").read_all()
        ).to_pylist()
        return rows


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    packages = tmp_path / "packages"
    packages.mkdir()
    path = install_plugin(packages, "partitioned", "tests.crash.slices.partitioned_plugin")
    with OneProcess(tmp_path / "process", {"PYTHONPATH": path}) as process:
        yield Pair(tmp_path, process)


@pytest.mark.timeout(600)
def test_three_runs_after_a_kill_at_any_step_are_equal(pair: Pair) -> None:
    pair.change_rows()
    for point in some(_POINTS, 1, name="slices"):
        pair.change_structure()
        pair.change_rows()
        pair.process.kill_at(pair.document(), point)
        pair.change_rows()
        ThreeRuns(pair, [pair.copy]).check()
