"""A pipeline from a Postgres database into the engine's test target, run in this process and without Spark."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from replicator_runtime.config import build_pipeline
from replicator_runtime.engine.worker import RunResult, run
from replicator_sdk import TableId
from replicator_sdk.errors import FencedError
from replicator_source_postgres import PostgresSource
from tests.runtime.engine import in_memory_target
from tests.runtime.engine.in_memory_target import InMemoryTarget, TargetStorage
from tests.services.postgres.server import PostgresDatabase
from tests.services.threads import beside


class Host:
    """The two plugins of these tests."""

    def source(self, name: str) -> type[PostgresSource]:
        return PostgresSource

    def target(self, name: str) -> type[InMemoryTarget]:
        return InMemoryTarget


class Pipeline:
    """A database, its pipeline, and the target's tables.

    Args:
        database: The source.
        folder: For state.
        tables: What is copied.
    """

    def __init__(self, database: PostgresDatabase, folder: Path, *tables: str, **properties: Any) -> None:
        in_memory_target.STORAGE = TargetStorage()
        self.database, self.tables = database, tables
        self.properties: dict[str, Any] = {
            "host": database.host,
            "port": database.port,
            "database": database.name,
            "user": database.user,
            "password": database.password,
            "sslMode": "disable",
            "heartbeatIntervalSeconds": 0.1,
            **properties,
        }
        self.document: dict[str, Any] = {
            "name": "shop",
            "offsetBasePath": str(folder / "state"),
            "stages": [
                {"name": "db", "plugin": {"name": "postgres", "type": "cdcSource", "properties": self.properties}},
                {"name": "lake", "plugin": {"name": "kept", "type": "cdcTarget"}},
            ],
            "connections": [{"from": "db", "to": "lake"}],
            "retries": {"maxDurationSeconds": 30, "delaySeconds": 0.1},
            "batch": {"maxIntervalSeconds": 0.05},
            "edits": "apply",
            "tables": [{"database": database.name, "schema": "public", "table": name} for name in tables],
        }

    def run(self) -> RunResult:
        """A run until the target is current."""
        return run(build_pipeline(self.document, host=Host()), until_current=True)  # type: ignore[arg-type]

    @contextmanager
    def running(self) -> Iterator[None]:
        """A run that lasts as long as the block."""

        def body(stop: threading.Event) -> None:
            with suppress(FencedError):
                run(build_pipeline(self.document, host=Host()), stop=stop)  # type: ignore[arg-type]

        with beside(body):
            yield

    def run_that_dies_at(self, step: str, table: str = "") -> list[str]:
        """A run that dies at the target's next `step`, of this table if one is given; returns where it did."""
        died = self._die_at(step, table)
        with suppress(FencedError):
            self.run()
        self._live()
        return died

    @contextmanager
    def running_until_it_dies_at(self, step: str, seconds: float = 10) -> Iterator[None]:
        """A run that dies at the target's next `step` within or soon after the block; it is stopped if it does not."""
        died = self._die_at(step)
        with self.running():
            yield
            deadline = time.monotonic() + seconds
            while not died and time.monotonic() < deadline:
                time.sleep(0.02)
        self._live()

    def _die_at(self, step: str, table: str = "") -> list[str]:
        died: list[str] = []

        def fault(at: str, where: TableId) -> None:
            if at == step and table in {"", where.table} and not died:
                died.append(at)
                raise FencedError("the process dies", code="RPL-8001", table=str(where))

        in_memory_target.STORAGE.fault = fault
        return died

    def _live(self) -> None:
        in_memory_target.STORAGE.fault = lambda step, table: None

    def forget_target(self) -> None:
        """Another place for the target's tables."""
        in_memory_target.STORAGE = TargetStorage()

    def source_rows(self, table: str) -> list[dict[str, Any]]:
        """The rows at the source."""
        with self.database.connect() as connection:
            cursor = connection.execute(f'SELECT * FROM "{table}"'.encode())
            assert cursor.description is not None
            names = [column.name for column in cursor.description]
            return [dict(zip(names, row, strict=True)) for row in cursor]

    def differs(self) -> list[str]:
        """Tables of which source and target differ in rows or columns."""

        def rows(found: list[dict[str, Any]]) -> list[Any]:
            return sorted((tuple(sorted(row.items(), key=str)) for row in found), key=str)

        return [
            name for name in self.tables if rows(self.source_rows(name)) != rows(in_memory_target.STORAGE.rows(name))
        ]

    def assert_equal(self) -> None:
        """Source and target are equal."""
        assert self.differs() == []

    def wait_until_equal(self, seconds: float = 120) -> None:
        """Wait until a running pipeline has brought the target up to date."""
        deadline = time.monotonic() + seconds
        while self._differs_now():
            assert time.monotonic() < deadline, f"still different: {self.differs()}"
            time.sleep(0.05)

    def _differs_now(self) -> bool:
        """Whether they differ while the pipeline runs, which may be changing a table's columns just then."""
        try:
            return bool(self.differs())
        except ValueError:
            return True
