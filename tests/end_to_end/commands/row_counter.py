"""A reader that counts a table's rows all the time, and the source of the tables that it counts."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, Self


class RowCounter:
    """Counts the rows of a table in a thread, as long as the block lasts.

    Args:
        count: Reads the table.
        pause: Seconds between two readings.

    Attributes:
        counts: How many rows each reading found.
    """

    def __init__(self, count: Callable[[], int], pause: float = 0.0) -> None:
        self._count, self._pause = count, pause
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.counts: list[int] = []

    def _run(self) -> None:
        while not self._stop.wait(self._pause):
            self.counts.append(self._count())

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(120)


def execute(path: Path, *statements: str) -> list[Any]:
    """Run statements at a SQLite file, in one transaction; the rows of the last one."""
    with closing(sqlite3.connect(path, timeout=30)) as database, database:
        return [database.execute(statement).fetchall() for statement in statements][-1]
