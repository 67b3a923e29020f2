"""`replicator table resync` beside a run, writers, and a reader of Delta that shares no code with ours and reads all the time."""

from __future__ import annotations

import sqlite3
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder

from tests.end_to_end.comparison import delta_rows
from tests.end_to_end.replicator import Replicator

_ROWS = 20_000


class Reader:
    """Reads the table in a thread, as long as the block lasts.

    Attributes:
        counts: How many rows each reading found.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.counts: list[int] = []

    def _run(self) -> None:
        while not self._stop.is_set():
            reader = QueryBuilder().register("t", DeltaTable(str(self._path)))
            self.counts.append(pa.table(reader.execute("select id from t").read_all()).num_rows)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(60)


def _sql(path: Path, *statements: str) -> list[Any]:
    with closing(sqlite3.connect(path, timeout=30)) as database, database:
        return [database.execute(statement).fetchall() for statement in statements][-1]


def _files(path: Path) -> set[str]:
    """The table's live files; a batch leaves those with rows that stay."""
    return set(DeltaTable(str(path)).file_uris())


@pytest.mark.timeout(600)
def test_a_reader_never_sees_fewer_rows_than_either_copy_under_writers(tmp_path: Path) -> None:
    """In place it does, which shows that this reader would."""
    database = tmp_path / "shop.db"
    _sql(database, "PRAGMA journal_mode=WAL", "CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT)")
    _sql(
        database,
        "INSERT INTO item WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n"
        f" WHERE i < {_ROWS}) SELECT i, 'row ' || i FROM n",
    )
    replicator = Replicator(tmp_path, ("sqlite", {"path": str(database), "chunkRows": 2_000}))
    path = replicator.lake / "main" / "item"
    running = replicator.start()
    added = 0

    def is_equal() -> bool:
        if not DeltaTable.is_deltatable(str(path)):
            return False
        return sorted(delta_rows(path, ["id", "name"])) == sorted(_sql(database, "SELECT id, name FROM item"))

    def wait_until_equal() -> None:
        deadline = time.monotonic() + 120
        while not is_equal():
            assert time.monotonic() < deadline, running.log.read_text()[-3000:]
            time.sleep(0.3)

    def resync(*more: str) -> list[int]:
        """What the reader saw from before the command until the copy was current, while rows are written."""
        nonlocal added
        wait_until_equal()
        before = _files(path)
        with Reader(path) as reader:
            ended = replicator.start_command("table", "resync", str(replicator.pipeline), "item", "--yes", *more).wait()
            assert ended.status == 0, ended.messages
            deadline = time.monotonic() + 120
            while _files(path) & before:
                assert time.monotonic() < deadline, running.log.read_text()[-3000:]
                added += 1
                _sql(
                    database,
                    f"INSERT INTO item VALUES ({_ROWS + added}, 'later')",
                    f"UPDATE item SET name = 'changed {added}' WHERE id % 100 = {added % 100}",
                )
                time.sleep(0.1)
            wait_until_equal()
        assert len(reader.counts) > 5
        return reader.counts

    counts = resync()
    assert min(counts) >= _ROWS, sorted(set(counts))
    assert max(counts) > _ROWS
    assert counts == sorted(counts)
    had = _ROWS + added
    assert min(resync("--in-place")) < had
    assert running.stop().status == 143
