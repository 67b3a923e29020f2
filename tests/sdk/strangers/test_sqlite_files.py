"""The conformance kit on the stranger's target."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from sqlite_files import SqliteFilesConfig, SqliteFilesTarget

from replicator_sdk import Column, TableId, TableSchema
from replicator_sdk.testing.capabilities import ALL_TYPES
from replicator_sdk.testing.kills.target_kills import TargetKills
from replicator_sdk.testing.target_suite import Row, TargetConformance, TargetSystem


def read(column: Column, value: Any) -> Any:
    """A stored value as the column's type means it."""
    if value is None:
        return None
    kind = column.type.arrow
    readers: list[tuple[Callable[[pa.DataType], bool], Callable[[Any], Any]]] = [
        (pa.types.is_boolean, bool),
        (pa.types.is_floating, float),
        (pa.types.is_decimal, Decimal),
        (pa.types.is_date, date.fromisoformat),
        (pa.types.is_time, time.fromisoformat),
        (pa.types.is_timestamp, datetime.fromisoformat),
    ]
    return next((reader(value) for is_kind, reader in readers if is_kind(kind)), value)


class Folder(TargetSystem):
    """A folder of files, read by SQLite alone."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.target = folder, SqliteFilesTarget(SqliteFilesConfig(folder=folder))

    def read_table(self, schema: TableSchema) -> list[Row]:
        listed = ", ".join('"' + name.replace('"', '""') + '"' for name in schema.names)
        with closing(sqlite3.connect(self.file(schema.table))) as database:
            rows = database.execute(f"SELECT {listed} FROM rows_").fetchall()
        return [{c.name: read(c, value) for c, value in zip(schema.columns, row, strict=True)} for row in rows]

    def create_foreign_table(self, schema: TableSchema) -> None:
        columns = ", ".join('"' + name.replace('"', '""') + '"' for name in schema.names)
        self.file(schema.table).parent.mkdir(exist_ok=True)
        with closing(sqlite3.connect(self.file(schema.table))) as database:
            database.execute(f"CREATE TABLE rows_ ({columns})")

    def has_database(self, name: str) -> bool:
        return (self.folder / name).is_dir()

    def create_foreign_database(self, name: str) -> None:
        (self.folder / name).mkdir()

    def file(self, table: TableId) -> Path:
        """Where the table is."""
        return self.folder / table.database / f"{table.table}.db"


class TestSqliteFiles(TargetConformance):
    cuts = ("first alone",)
    interruptions = 20
    random_histories = 5
    unsupported_types = ALL_TYPES & {"array", "record"}

    @pytest.fixture
    def system(self, tmp_path: Path) -> Folder:
        return Folder(tmp_path)


class TestSqliteFilesIsKilled(TargetKills):
    kills_of_a_failpoint = 4
    random_kills = 2

    @pytest.fixture
    def system(self, tmp_path: Path) -> Folder:
        return Folder(tmp_path)
