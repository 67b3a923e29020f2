"""Shops whose target is a warehouse of Iceberg, for tests that do what errors advise."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from pyiceberg.table import StaticTable

from replicator_sdk import TableId
from replicator_target_iceberg.config import IcebergConfig
from replicator_target_iceberg.jvm import Catalog
from replicator_target_iceberg.naming import identifier
from tests.plugins.targets.iceberg.warehouse import newest_metadata
from tests.runtime.cli.next_steps.operator_shop import OperatorShop

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.runtime.cli.conftest import Replicator


class IcebergShop(OperatorShop):
    """The target is a catalog in a folder, with the tests' Spark.

    Args:
        folder: Of database, pipeline, state and warehouse.
        replicator: Runs the command.
        spark: With Iceberg's runtime.
    """

    def __init__(self, folder: Path, replicator: Replicator, spark: SparkSession) -> None:
        super().__init__(folder, replicator)
        self.spark = spark
        self.target()

    def target(self, **settings: Any) -> None:
        """Give the target these settings beside those that it needs."""
        self.settings = {"catalog": "lake", "catalogType": "hadoop", "warehouse": str(self.lake), **settings}
        plugin = {"name": "iceberg", "type": "cdcTarget", "properties": self.settings}
        self.document["stages"][1]["plugin"] = plugin

    def place(self, table: TableId) -> Path:
        """The folder of a table."""
        name = identifier(table)
        return self.lake / name.namespace / name.name

    def files(self, table: TableId) -> set[Path]:
        """The data files that are in its folder."""
        return set((self.place(table) / "data").rglob("*.parquet"))

    def foreign(self, table: TableId, step: Callable[[Any, Catalog], object]) -> None:
        """Have another program commit: `step` is given Java's table, and the catalog."""
        catalog = Catalog(self.spark, IcebergConfig.model_validate(self.settings))
        step(catalog.jvm[".BaseTable"](catalog.operations(identifier(table)), "t"), catalog)
        catalog.close()

    def rows_of(self, table: TableId, *columns: str) -> Counter[tuple[Any, ...]]:
        """The rows of the table's branch, as `pyiceberg` reads them."""
        read = StaticTable.from_metadata(str(newest_metadata(self.place(table)))).scan(selected_fields=columns)
        read = read.use_ref(self.settings.get("branch", "main"))
        return Counter(tuple(row[name] for name in columns) for row in read.to_arrow().to_pylist())

    def assert_equal(self, *tables: str) -> None:
        """The same rows on both sides."""
        for table in tables or ("customers", "notes"):
            wanted = self.source_rows(table)
            names = list(wanted[0])
            found = self.rows_of(TableId("main", table), *names)
            assert found == Counter(tuple(row.values()) for row in wanted), table


def fill(shop: IcebergShop, *tables: str) -> None:
    """Make tables of three rows."""
    for table in tables:
        shop.sql(f"CREATE TABLE {table} (id INTEGER PRIMARY KEY, name TEXT)")
    for table in ("customers", *tables):
        shop.sql(f"INSERT INTO {table} (id, name) VALUES (1, 'a'), (2, 'b'), (3, 'c')")


def of(name: str) -> TableId:
    return TableId("main", name)


def adds_more(table: Any, catalog: Catalog) -> None:
    table.updateSchema().addColumn("more", catalog.jvm[".types.Types"].StringType.get()).commit()
