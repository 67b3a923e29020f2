"""A pipeline from a MySQL or MariaDB database into the engine's test target, run in this process and without Spark."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from replicator_runtime.config import build_pipeline
from replicator_runtime.engine.control.reset import reset
from replicator_runtime.engine.worker import RunResult, run
from replicator_source_mysql import MySqlSource
from tests.end_to_end.replicator import mysql_source
from tests.runtime.engine import in_memory_target
from tests.runtime.engine.in_memory_target import InMemoryTarget, TargetStorage
from tests.services.mysql import client
from tests.services.mysql.server import MysqlDatabase
from tests.services.threads import beside


class Host:
    """The two plugins of these tests."""

    def source(self, name: str) -> type[MySqlSource]:
        return MySqlSource

    def target(self, name: str) -> type[InMemoryTarget]:
        return InMemoryTarget


class Pipeline:
    """A database of which every table is copied, and the target's tables.

    Args:
        database: The source.
        folder: For state.
    """

    def __init__(self, database: MysqlDatabase, folder: Path, **properties: Any) -> None:
        in_memory_target.STORAGE = TargetStorage(drops=True)
        self.database = database
        name, settings = mysql_source(database, heartbeatIntervalSeconds=0.1, **properties)
        self.document: dict[str, Any] = {
            "name": "shop",
            "offsetBasePath": str(folder / "state"),
            "stages": [
                {"name": "db", "plugin": {"name": name, "type": "cdcSource", "properties": dict(settings)}},
                {"name": "lake", "plugin": {"name": "kept", "type": "cdcTarget"}},
            ],
            "connections": [{"from": "db", "to": "lake"}],
            "retries": {"maxDurationSeconds": 30, "delaySeconds": 0.1},
            "batch": {"maxIntervalSeconds": 0.05},
            "edits": "apply",
            "newTablesIntervalSeconds": 1,
            "tables": [{"database": database.name, "table": "*"}],
        }

    def run(self) -> RunResult:
        """A run until the target is current."""
        return run(build_pipeline(self.document, host=Host()), until_current=True)  # type: ignore[arg-type]

    def reset(self) -> None:
        """`replicator reset`."""
        reset(build_pipeline(self.document, host=Host()))  # type: ignore[arg-type]

    @contextmanager
    def running(self) -> Iterator[None]:
        """A run that lasts as long as the block."""

        def body(stop: threading.Event) -> None:
            run(build_pipeline(self.document, host=Host()), stop=stop)  # type: ignore[arg-type]

        with beside(body):
            yield

    def source_rows(self) -> dict[str, list[Any]]:
        """The rows of each table at the source."""
        names = [row[0] for row in client.rows(self.database, "SHOW FULL TABLES WHERE Table_type = 'BASE TABLE'")]
        return {name: sorted(client.rows(self.database, f"SELECT * FROM `{name}`")) for name in names}

    def target_rows(self) -> dict[str, list[Any]]:
        """The rows of each table at the target."""
        tables = list(in_memory_target.STORAGE.tables.items())
        return {table.table: sorted(kept.rows.elements()) for table, kept in tables if kept.progress is not None}
