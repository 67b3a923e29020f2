"""The targets, read by clients that share no code with them."""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from tests.end_to_end.comparison import delta_rows
from tests.services.bigquery.emulators import PROJECT, Emulators, columns, rows, target_settings

Rows = list[tuple[Any, ...]]


class Target(ABC):
    """Where a pipeline writes."""

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


class BigQuery(Target):
    """A dataset of the emulator."""

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
