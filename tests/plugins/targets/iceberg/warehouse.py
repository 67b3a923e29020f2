"""A warehouse of Iceberg tables, the plugin writing to it, and a reader that shares no code with either."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyiceberg.catalog import load_catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import StaticTable, Table

from replicator_sdk.datatype import TIME, Array, DataType, Record
from replicator_sdk.discovery.maintenance import MaintenanceReport
from replicator_sdk.schema import TableId, TableSchema
from replicator_sdk.testing.contexts import TestTargetContext
from replicator_sdk.testing.histories.values import Row
from replicator_sdk.testing.in_memory.offset import MemoryOffset
from replicator_sdk.testing.target_suite import TargetSystem
from replicator_target_iceberg import IcebergTarget
from replicator_target_iceberg.config import IcebergConfig
from replicator_target_iceberg.consumer import IcebergConsumer
from replicator_target_iceberg.naming import identifier
from tests.plugins.targets.iceberg.folding import folded
from tests.plugins.targets.latest import latest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Warehouse(TargetSystem):
    """A target with a warehouse of its own, in a catalog of folders unless `catalog_type` says otherwise."""

    def __init__(self, folder: Path, spark: SparkSession, catalog_type: str = "hadoop", **settings: Any) -> None:
        self.folder = folder
        self._database = folder.parent / f"{folder.name}.db"
        where = {"uri": f"jdbc:sqlite:{self._database}"} if catalog_type == "jdbc" else {}
        document = {"catalog": "lake", "catalogType": catalog_type, "warehouse": str(folder), **where, **settings}
        self.config = IcebergConfig.model_validate(document)
        self.target = IcebergTarget(self.config)
        self.spark: Callable[[], SparkSession] = lambda: spark

    def consumer(self, *, epoch: int = 1, name: str = "conformance") -> IcebergConsumer:
        """A consumer of the run `epoch`."""
        made = self.target.create_consumer(self.context(epoch=epoch, name=name))
        assert isinstance(made, IcebergConsumer)
        return made

    def context(self, *, epoch: int = 1, name: str = "conformance") -> TestTargetContext:
        """What a consumer runs in."""
        return TestTargetContext(MemoryOffset.from_fields, epoch=epoch, spark=self.spark, name=name)

    def maintain(self, table: TableId, name: str, *, epoch: int = 1) -> MaintenanceReport:
        """One step of the task `name`, by the run `epoch`."""
        [task] = [task for task in self.target.maintenance_tasks if task.name == name]
        return self.target.maintain_table(self.context(epoch=epoch), task, table)

    def table(self, table: TableId) -> Table:
        """The table as `pyiceberg` opens it."""
        name = identifier(table)
        if self.config.catalog_type == "rest":
            return load_catalog("lake", type="rest", uri=self.config.uri).load_table((name.namespace, name.name))
        if self.config.catalog_type == "jdbc":
            catalog = SqlCatalog("lake", uri=f"sqlite:///{self._database}", warehouse=str(self.folder))
            try:
                return catalog.load_table((name.namespace, name.name))
            finally:
                catalog.engine.dispose()
        return StaticTable.from_metadata(str(newest_metadata(self.folder / name.namespace / name.name)))

    def tables(self) -> list[TableId]:
        """All tables of a catalog of folders."""
        found = sorted(path.parent for path in self.folder.glob("*/*/metadata") if list(path.glob("v*.json")))
        return [TableId(path.parent.name, path.name) for path in found]

    def arrow(self, table: TableId) -> pa.Table:
        """All live rows with all columns of the branch of the settings, as `pyiceberg` reads them."""
        found = self.table(table)
        scan = found.scan()
        return (scan.use_ref(self.config.branch) if self.config.branch in found.metadata.refs else scan).to_arrow()

    def main_rows(self, table: TableId) -> int:
        """How many rows `main` has; 0 where nothing was ever committed to it."""
        return int(self.table(table).scan().count()) if "main" in self.table(table).metadata.refs else 0

    def rows(self, table: TableId) -> list[dict[str, Any]]:
        """The same as dictionaries; in the mode `merge-on-read` those that readers see."""
        rows = self.arrow(table)
        found: list[dict[str, Any]] = rows.to_pylist()
        if "primary_key" in (properties := self.properties(table)):
            return [found[place] for place in latest(rows, properties)]
        return found

    def properties(self, table: TableId) -> dict[str, str]:
        """The table's properties."""
        return dict(self.table(table).properties)

    def summaries(self, table: TableId) -> list[dict[str, str]]:
        """What each snapshot says of itself, the oldest first."""
        return [
            dict(s.summary.model_dump()) | dict(s.summary.additional_properties)
            for s in self.table(table).snapshots()
            if s.summary
        ]

    def create_foreign_table(self, schema: TableSchema) -> None:
        """Made by the library alone, as Spark would."""
        from replicator_target_iceberg.config import Mode
        from replicator_target_iceberg.jvm import Catalog
        from replicator_target_iceberg.schema.definition import new_schema
        from replicator_target_iceberg.schema.table_form import TableForm

        catalog = Catalog(self.spark(), self.config)
        catalog.create(
            identifier(schema.table), json.dumps(new_schema(schema, TableForm(Mode.MERGE))), {}
        ).commitTransaction()
        catalog.close()

    def read_table(self, schema: TableSchema) -> list[Row]:
        """The source's columns; a history is folded to the rows that it leads to."""
        rows = self.rows(schema.table)
        if self.config.mode == "append":
            rows = folded(rows, schema)
        return [{c.name: _standard(c.type, row[c.name]) for c in schema.columns} for row in rows]


def newest_metadata(folder: Path) -> Path:
    """The metadata file of the newest version of a table in a catalog of folders."""
    files = {
        int(found[1]): path
        for path in (folder / "metadata").iterdir()
        if (found := re.fullmatch(r"v(\d+)\.metadata\.json", path.name))
    }
    return files[max(files)]


def _standard(kind: DataType, value: Any) -> Any:
    """A value as the standard type has it: times of day are text in these tables."""
    if value is None:
        return None
    if isinstance(kind, Array):
        return [_standard(kind.element, item) for item in value]
    if isinstance(kind, Record):
        return {name: _standard(inner, value[name]) for name, inner in kind.fields}
    return time.fromisoformat(value) if kind == TIME else value
