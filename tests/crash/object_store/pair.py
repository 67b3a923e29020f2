"""A SQLite database and its replicator, whose state and tables are on an object store."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from tests.crash.object_store.stores import Store
from tests.crash.one_process import OneProcess
from tests.crash.sqlite.database import TABLES, Database
from tests.end_to_end.comparison import table_rows
from tests.services.spark.session import SMALL


@dataclass
class StoredPair:
    """A database and its replicator; `source` and `copy` of three runs at once.

    Attributes:
        store: With state and tables.
        database: The source.
        process: Where runs end by themselves.
        other: Where runs are killed or stopped.
    """

    store: Store
    database: Database
    process: OneProcess
    other: OneProcess
    chance: random.Random = field(default_factory=lambda: random.Random(1))
    _structures: int = 0

    def document(self) -> Mapping[str, Any]:
        """The pipeline JSON."""
        source = {"name": "sqlite", "type": "cdcSource", "properties": {"path": str(self.database.path)}}
        target = {"name": "delta", "type": "cdcTarget", "properties": {"path": f"{self.store.root}/lake"}}
        return {
            "name": "shop",
            "offsetBasePath": f"{self.store.root}/state",
            "stages": [{"name": "source", "plugin": source}, {"name": "target", "plugin": target}],
            "connections": [{"from": "source", "to": "target"}],
            "batch": {"maxIntervalSeconds": 0.1},
            "retries": {"maxDurationSeconds": 60, "delaySeconds": 0.2},
            "spark": {"master": "local[2]", "conf": {**SMALL, **self.store.spark}},
        }

    def change_rows(self) -> None:
        """Some random transactions."""
        for _ in range(5):
            self.database.change(self.chance)

    def change_structure(self) -> None:
        """Another column, another name of it, or a table that is dropped and created again."""
        cycle, kind = divmod(self._structures, 3)
        self._structures += 1
        statements = (
            f"ALTER TABLE customer ADD COLUMN later_{cycle} TEXT DEFAULT 'later'",
            f"ALTER TABLE customer RENAME COLUMN later_{cycle} TO latest_{cycle}",
        )
        if kind < len(statements):
            self.database.run(statements[kind])
        else:
            self.create_again()

    def create_again(self) -> None:
        """A table that is dropped and created again, with other rows."""
        self.database.run("DROP TABLE note", "CREATE TABLE note (text TEXT)")
        self.database.run("INSERT INTO note VALUES ('again'), ('again')")

    def kill_at(self, point: str) -> None:
        """A run that dies at `point`."""
        self.other.kill_at(self.document(), point)

    def stop_at(self, point: str) -> None:
        """A run that is stopped at `point` when rows change."""
        self.other.stop_at(self.document(), point)
        self.change_rows()
        self.other.stopped()

    def run_until_current(self) -> None:
        """A run that ends by itself."""
        code = self.process.run(self.document(), "lapse")
        assert code == ""

    def differences(self) -> dict[str, int]:
        """Table → how many rows differ between source and copy; empty when all are equal."""
        return {table: count for table in TABLES if (count := self._different(table))}

    def _different(self, table: str) -> int:
        source, copy = self.database.rows(table), self._copy(table)
        return (source - copy).total() + (copy - source).total()

    def _copy(self, table: str) -> Counter[tuple[Any, ...]]:
        try:
            address = f"{self.store.readable}/lake/main/{table}"
            opened = DeltaTable(address, storage_options=dict(self.store.options))
        except TableNotFoundError:
            return Counter()
        there = {column.name for column in opened.schema().fields}
        # Where the copy lacks a column of the source, each of its rows has fewer values and so differs.
        return Counter(table_rows(opened, [name for name in self.database.columns(table) if name in there]))


@contextmanager
def stored_pair(store: Store, folder: Path) -> Iterator[StoredPair]:
    """A new database, whose replicator finds nothing on the store."""
    database = Database(folder / "source.db")
    database.create()
    with OneProcess(folder / "process") as process, OneProcess(folder / "other") as other:
        yield StoredPair(store, database, process, other)
