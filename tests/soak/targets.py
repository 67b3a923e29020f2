"""The targets, read by clients that share no code with them."""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from deltalake import DeltaTable
from pyiceberg.table import StaticTable

from tests.end_to_end.comparison import delta_rows, table_rows
from tests.plugins.targets.iceberg.warehouse import newest_metadata
from tests.services.artifacts import iceberg_jars
from tests.services.bigquery.emulators import PROJECT, Emulators, columns, rows, target_settings
from tests.services.s3.server import S3Server
from tests.services.s3.spark import s3a_settings
from tests.services.spark.session import SMALL

Rows = list[tuple[Any, ...]]


class Target(ABC):
    """Where a pipeline writes.

    Attributes:
        spark: What its tests need of Spark's settings.
        points: What the names of its failpoints begin with.
    """

    points: str
    spark: Mapping[str, str] = SMALL

    def state(self, folder: Path) -> str:
        """Where a replicator keeps its state, by default below its folder."""
        return str(folder / "state")

    @abstractmethod
    def begin(self, folder: Path) -> tuple[str, Mapping[str, Any]]:
        """The target's plugin and properties for a new replicator, which finds nothing there.

        Args:
            folder: For the replicator's files.
        """

    @abstractmethod
    def columns(self, schema: str, table: str) -> list[str]:
        """The names of a table's columns."""

    @abstractmethod
    def rows(self, schema: str, table: str, columns: Sequence[str]) -> Rows:
        """The rows of a table, of these columns."""


class Delta(Target):
    """Tables below a folder."""

    points = "delta."
    _lake: Path

    def __init__(self, **settings: Any) -> None:
        self._settings = settings

    def begin(self, folder: Path) -> tuple[str, Mapping[str, Any]]:
        """Tables below `folder`."""
        self._lake = folder / "lake"
        return ("delta", {"path": str(self._lake), **self._settings})

    def columns(self, schema: str, table: str) -> list[str]:
        """By the table's log."""
        return [column.name for column in DeltaTable(str(self._lake / schema / table)).schema().fields]

    def rows(self, schema: str, table: str, columns: Sequence[str]) -> Rows:
        """By delta-rs."""
        return list(delta_rows(self._lake / schema / table, columns))


class DeltaOnS3(Target):
    """Tables and state in a bucket of the S3 server."""

    points = "delta."

    def __init__(self, server: S3Server) -> None:
        self._server, self._bucket = server, server.bucket()
        self._place = ""
        self.spark = {**SMALL, **s3a_settings(server.endpoint)}

    def begin(self, folder: Path) -> tuple[str, Mapping[str, Any]]:
        """A place of its own in the bucket."""
        self._place = f"s3://{self._bucket}/{folder.name}"
        return "delta", {"path": f"{self._place}/lake"}

    def state(self, folder: Path) -> str:
        """In the bucket."""
        return f"s3://{self._bucket}/{folder.name}/state"

    def table(self, schema: str, table: str) -> DeltaTable:
        """A table, opened by delta-rs."""
        return DeltaTable(f"{self._place}/lake/{schema}/{table}", storage_options=self._server.reader)

    def columns(self, schema: str, table: str) -> list[str]:
        """By the table's log."""
        return [column.name for column in self.table(schema, table).schema().fields]

    def rows(self, schema: str, table: str, columns: Sequence[str]) -> Rows:
        """By delta-rs."""
        return list(table_rows(self.table(schema, table), columns))


class Iceberg(Target):
    """Tables of a catalog in a folder: of each chain of another format, on `main` or on a branch; maintained every few seconds."""

    points = "iceberg."
    _lake: Path
    _branch: str

    def __init__(self, first: int = 0) -> None:
        iceberg_jars()
        self._chains = first  # of the four combinations

    def begin(self, folder: Path) -> tuple[str, Mapping[str, Any]]:
        """Tables below `folder`."""
        self._lake, self._branch = folder / "lake", ("main", "audit")[self._chains % 2]
        version = (2, 3, 3, 2)[self._chains % 4]
        self._chains += 1
        return "iceberg", {
            "catalog": "lake",
            "catalogType": "hadoop",
            "warehouse": str(self._lake),
            "formatVersion": version,
            "branch": self._branch,
            "compactIntervalSeconds": 2,
            "expireIntervalSeconds": 2,
            "snapshotsKept": 10,
        }

    def _table(self, schema: str, table: str) -> StaticTable:
        return StaticTable.from_metadata(str(newest_metadata(self._lake / schema / table)))

    def columns(self, schema: str, table: str) -> list[str]:
        """By the table's metadata."""
        return list(self._table(schema, table).schema().column_names)

    def rows(self, schema: str, table: str, columns: Sequence[str]) -> Rows:
        """By pyiceberg."""
        scan = self._table(schema, table).scan(selected_fields=tuple(columns)).use_ref(self._branch)
        found = scan.to_arrow().to_pylist()
        return [tuple(row[name] for name in columns) for row in found]


class BigQuery(Target):
    """A dataset of the emulator."""

    points = "bigquery."
    _dataset: str

    def __init__(self, emulators: Emulators, **settings: Any) -> None:
        self._emulators, self._settings = emulators, settings

    def begin(self, folder: Path) -> tuple[str, Mapping[str, Any]]:
        """A dataset of its own."""
        self._dataset = f"d{uuid.uuid4().hex[:12]}"
        chosen = {"schemaChanges": "rebuild", "retrySeconds": 20, **self._settings}
        return "bigquery", target_settings(self._emulators, self._dataset, **chosen)

    def columns(self, schema: str, table: str) -> list[str]:
        """By a query's answer."""
        return columns(self._emulators, self._dataset, table)

    def rows(self, schema: str, table: str, columns: Sequence[str]) -> Rows:
        """By a query."""
        listed = ", ".join(f"`{name}`" for name in columns)
        return [
            tuple(row) for row in rows(self._emulators, f"SELECT {listed} FROM `{PROJECT}`.`{self._dataset}`.`{table}`")
        ]
