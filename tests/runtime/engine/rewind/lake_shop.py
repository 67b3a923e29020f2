"""A SQLite database replicated into Delta by runs in the tests' process, with the tests' Spark."""

from __future__ import annotations

import sqlite3
from collections import Counter
from contextlib import closing
from typing import TYPE_CHECKING, Any

from deltalake import DeltaTable

from replicator_runtime.config import build_pipeline
from replicator_runtime.engine.rewind.choice import Wanted
from replicator_runtime.engine.rewind.rewind import rewind
from replicator_runtime.engine.worker import run
from replicator_source_sqlite.capture.changelog import last_change
from replicator_source_sqlite.capture.ddl_detection import synchronise
from replicator_source_sqlite.connection import connect
from replicator_source_sqlite.plugin import SqliteSource
from replicator_state import ReplicatorDirectory
from replicator_target_delta import DeltaLakeTarget
from tests.end_to_end.comparison import table_rows

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from replicator_runtime.config import Pipeline
    from replicator_runtime.engine.rewind.plan import RewindPlan, TablePlan

Rows = Counter[tuple[Any, ...]]
Copies = dict[str, tuple[tuple[str, ...], Rows]]
"""Of each table the columns and the rows in the lake."""
TABLES = ("customer", "note")


class Host:
    """The two plugins of these tests."""

    def source(self, name: str) -> type[SqliteSource]:
        return SqliteSource

    def target(self, name: str) -> type[DeltaLakeTarget]:
        return DeltaLakeTarget


class LakeShop:
    """The database, its replicator, and what is in the lake. One table with a key, one without."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.path, self.lake = folder / "shop.db", folder / "lake"
        self.base = str(folder / "state")
        self.document: dict[str, Any] = {
            "name": "shop",
            "offsetBasePath": self.base,
            "stages": [
                {
                    "name": "db",
                    "plugin": {
                        "name": "sqlite",
                        "type": "cdcSource",
                        "properties": {"path": str(self.path), "keepChangesHours": 1, "pollIntervalSeconds": 0.05},
                    },
                },
                {
                    "name": "lake",
                    "plugin": {
                        "name": "delta",
                        "type": "cdcTarget",
                        "properties": {"path": str(self.lake), **settings},
                    },
                },
            ],
            "connections": [{"from": "db", "to": "lake"}],
            "retries": {"maxDurationSeconds": 5, "delaySeconds": 0.1},
            "batch": {"maxIntervalSeconds": 0.05},
        }

    def pipeline(self) -> Pipeline:
        return build_pipeline(self.document, host=Host())  # type: ignore[arg-type]

    def run(self) -> None:
        """A run until everything is at the target."""
        assert run(self.pipeline(), until_current=True).reached_goal

    def rewind(
        self, offset: str = "", confirm: Callable[[RewindPlan], None] = lambda plan: None, **wanted: Any
    ) -> dict[str, TablePlan]:
        """Go back to an offset; the plan of each table, by its name."""
        plan = rewind(self.pipeline(), Wanted(offset, **wanted) if offset or wanted else None, confirm)
        return {} if plan is None else {one.table.table: one for one in plan.tables}

    def sql(self, *statements: str) -> None:
        """Each in a transaction of its own."""
        with closing(sqlite3.connect(self.path, timeout=30)) as database:
            for statement in statements:
                with database:
                    database.execute(statement)

    def alter(self, *statements: str) -> None:
        """Changes of structure, which are logged as a running reader does it."""
        self.sql(*statements)
        with connect(self.path) as database:
            synchronise(database, last_change(database))

    def source_rows(self, table: str) -> Rows:
        """The rows at the source."""
        with closing(sqlite3.connect(self.path, timeout=30)) as database:
            return Counter(database.execute(f"SELECT * FROM {table}"))

    def columns(self, table: str) -> list[str]:
        """The columns at the source."""
        with closing(sqlite3.connect(self.path, timeout=30)) as database:
            return [row[1] for row in database.execute(f"PRAGMA table_info({table})")]

    def delta(self, table: str, version: int | None = None) -> DeltaTable:
        """The table in the lake."""
        return DeltaTable(str(self.lake / "main" / table), version=version)

    def copied(self, table: str) -> tuple[tuple[str, ...], Rows]:
        """Columns and rows in the lake, the replicator's own included, as `deltalake` reads them."""
        found = self.delta(table)
        names = tuple(field.name for field in found.schema().fields)
        return names, Counter(table_rows(found, names))

    def copies(self) -> Copies:
        """Of all tables."""
        return {table: self.copied(table) for table in TABLES}

    def assert_equal(self, *tables: str) -> None:
        """See that source and lake hold the same rows equally often."""
        for table in tables or TABLES:
            names = self.columns(table)
            assert Counter(table_rows(self.delta(table), names)) == self.source_rows(table), table

    def saved(self) -> str:
        """The name of the offset that is saved now."""
        latest = self.directory().offsets().latest()
        assert latest is not None
        return f"offset.{latest.commit_timestamp:020d}"

    def directory(self) -> ReplicatorDirectory:
        return ReplicatorDirectory(self.base, "default", "shop")

    def fill(self) -> None:
        """Tables with rows."""
        self.sql(
            "PRAGMA journal_mode=WAL",
            "CREATE TABLE customer (id INTEGER PRIMARY KEY, name TEXT)",
            "CREATE TABLE note (text TEXT)",
            "INSERT INTO customer SELECT value, 'n' || value FROM json_each('[1,2,3,4,5,6,7,8,9,10,11,12]')",
            "INSERT INTO note SELECT 't' || (value % 3) FROM json_each('[1,2,3,4,5,6,7,8,9]')",
        )

    def change(self, number: int) -> None:
        """Inserts, an update, a delete, a key that changes, equal rows."""
        key = 100 + 10 * number
        self.sql(
            f"INSERT INTO customer (id, name) VALUES ({key}, 'new'), ({key + 1}, 'new')",
            f"UPDATE customer SET name = name || '{number}' WHERE id % 2 = 0",
            f"UPDATE customer SET id = {key + 5} WHERE id = {key}",
            f"DELETE FROM customer WHERE id = {number + 1}",
            "INSERT INTO note (text) VALUES ('t1'), ('t1')",
            "DELETE FROM note WHERE rowid IN (SELECT rowid FROM note WHERE text = 't2' LIMIT 1)",
        )

    def assert_three_runs(self) -> None:
        """Three runs with changes and a change of structure between them end equal."""
        for number in range(3):
            self.change(20 + number)
            self.alter(f"ALTER TABLE customer ADD COLUMN later_{number} TEXT DEFAULT 'later'")
            self.change(30 + number)
            self.run()
            self.assert_equal()
