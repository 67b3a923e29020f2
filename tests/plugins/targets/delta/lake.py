"""A folder of Delta tables, the plugin writing to it, and a reader that shares no code with either."""

from __future__ import annotations

from collections.abc import Callable
from datetime import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import deltalake
import pyarrow as pa
import pytest

from replicator_sdk.datatype import TIME, Array, DataType, Record
from replicator_sdk.discovery.maintenance import MaintenanceReport, MaintenanceTask
from replicator_sdk.schema import TableId, TableSchema
from replicator_sdk.testing.contexts import TestTargetContext
from replicator_sdk.testing.histories.values import Row
from replicator_sdk.testing.in_memory.offset import MemoryOffset
from replicator_sdk.testing.target_suite import TargetSystem
from replicator_target_delta import DeltaLakeTarget
from replicator_target_delta.config import DeltaConfig, DropTables
from replicator_target_delta.consumer import DeltaConsumer
from replicator_target_delta.location import table_path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Lake(TargetSystem):
    """A target with a folder of its own."""

    def __init__(self, folder: Path, spark: SparkSession, **settings: Any) -> None:
        self.config = DeltaConfig(path=str(folder), **settings)
        self.target = DeltaLakeTarget(self.config)
        self.spark: Callable[[], SparkSession] = lambda: spark

    def consumer(self, *, epoch: int = 1, name: str = "conformance") -> DeltaConsumer:
        """A started consumer of the run `epoch`."""
        return DeltaConsumer(self.config, self.context(epoch=epoch, name=name))

    def context(self, *, epoch: int = 1, name: str = "conformance") -> TestTargetContext:
        """What a consumer runs in."""
        return TestTargetContext(MemoryOffset.from_fields, epoch=epoch, spark=self.spark, name=name)

    def maintain(self, table: TableId, *names: str, epoch: int = 1) -> dict[str, MaintenanceReport]:
        """Have these tasks done, all steps of them, or all tasks; the last report of each."""
        tasks = [task for task in self.target.maintenance_tasks if not names or task.name in names]
        return {task.name: self._steps(task, table, epoch) for task in tasks}

    def _steps(self, task: MaintenanceTask, table: TableId, epoch: int) -> MaintenanceReport:
        while not (report := self.target.maintain_table(self.context(epoch=epoch), task, table)).is_finished:
            pass
        return report

    def path(self, table: TableId) -> Path:
        """The table's folder."""
        return Path(table_path(self.config.path, table))

    def arrow(self, table: TableId) -> pa.Table:
        """All live rows with all columns, as `deltalake` reads them."""
        reader = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(str(self.path(table))))
        return pa.table(reader.execute("select * from t").read_all())

    def rows(self, table: TableId) -> list[dict[str, Any]]:
        """The same as dictionaries."""
        found: list[dict[str, Any]] = self.arrow(table).to_pylist()
        return found

    def create_foreign_table(self, schema: TableSchema) -> None:
        """Made by `deltalake`."""
        deltalake.write_deltalake(str(self.path(schema.table)), schema.arrow.empty_table())

    def has_database(self, name: str) -> bool:
        """Whether there is a folder for its tables; where `dropTables` keeps folders there is nothing to see."""
        if self.config.drop_tables is DropTables.KEEP:
            pytest.skip("dropTables keeps the folders of databases")
        return Path(self.config.path, name).is_dir()

    def create_foreign_database(self, name: str) -> None:
        """Made by no one."""
        Path(self.config.path, name).mkdir(parents=True)

    def version(self, table: TableId) -> int:
        """How many commits the table has, less one."""
        return int(deltalake.DeltaTable(str(self.path(table))).version())

    def read_table(self, schema: TableSchema) -> list[Row]:
        """The source's columns of the rows that are not marked as deleted."""
        return [
            {c.name: _standard(c.type, row[c.name]) for c in schema.columns}
            for row in self.rows(schema.table)
            if not row.get("_is_deleted")
        ]


def _standard(kind: DataType, value: Any) -> Any:
    """A value as the standard type has it: times of day are text in Delta."""
    if value is None:
        return None
    if isinstance(kind, Array):
        return [_standard(kind.element, item) for item in value]
    if isinstance(kind, Record):
        return {name: _standard(inner, value[name]) for name, inner in kind.fields}
    return time.fromisoformat(value) if kind == TIME else value
