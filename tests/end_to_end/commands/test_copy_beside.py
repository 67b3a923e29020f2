"""`replicator table resync` beside a run, writers, and a reader of Delta that shares no code with ours and reads all the time."""

from __future__ import annotations

import os
import time
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder

from tests.end_to_end.commands.row_counter import RowCounter, execute
from tests.end_to_end.comparison import delta_rows
from tests.end_to_end.replicator import Replicator

_ROWS = 1_000_000 if os.environ.get("ALL_CASES") else 20_000
_SECONDS = 600.0
"""For what takes seconds on an idle machine."""


def _count(path: Path) -> int:
    reader = QueryBuilder().register("t", DeltaTable(str(path)))
    return int(pa.table(reader.execute("select id from t").read_all()).num_rows)


def _files(path: Path) -> set[str]:
    """The table's live files; a batch leaves those with rows that stay."""
    return set(DeltaTable(str(path)).file_uris())


@pytest.mark.timeout(3000)
def test_a_reader_never_sees_fewer_rows_than_either_copy_under_writers(tmp_path: Path) -> None:
    """In place it does, which shows that this reader would."""
    database = tmp_path / "shop.db"
    execute(database, "PRAGMA journal_mode=WAL", "CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT)")
    execute(
        database,
        "INSERT INTO item WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n"
        f" WHERE i < {_ROWS}) SELECT i, 'row ' || i FROM n",
    )
    replicator = Replicator(tmp_path, ("sqlite", {"path": str(database), "chunkRows": _ROWS // 10}))
    path = replicator.lake / "main" / "item"
    running = replicator.start()
    added = 0

    def is_equal() -> bool:
        if not DeltaTable.is_deltatable(str(path)):
            return False
        return sorted(delta_rows(path, ["id", "name"])) == sorted(execute(database, "SELECT id, name FROM item"))

    def wait_until_equal() -> None:
        deadline = time.monotonic() + _SECONDS
        while not is_equal():
            assert time.monotonic() < deadline, running.log.read_text()[-3000:]
            time.sleep(0.3)

    def resync(*more: str) -> list[int]:
        """What the reader saw from before the command until the copy was current, while rows are written."""
        nonlocal added
        wait_until_equal()
        before = _files(path)
        with RowCounter(partial(_count, path)) as reader:
            ended = replicator.start_command("table", "resync", str(replicator.pipeline), "item", "--yes", *more).wait()
            assert ended.status == 0, ended.messages
            deadline = time.monotonic() + _SECONDS
            while _files(path) & before:
                assert time.monotonic() < deadline, running.log.read_text()[-3000:]
                added += 1
                execute(
                    database,
                    f"INSERT INTO item VALUES ({_ROWS + added}, 'later')",
                    f"UPDATE item SET name = 'changed {added}' WHERE id % {_ROWS // 200} = {added % (_ROWS // 200)}",
                )
                time.sleep(0.1)
            wait_until_equal()
            while len(reader.counts) <= 5:
                assert time.monotonic() < deadline
                time.sleep(0.1)
        return reader.counts

    counts = resync()
    assert min(counts) >= _ROWS, sorted(set(counts))
    assert max(counts) > _ROWS
    assert counts == sorted(counts)
    for _ in range(3):  # a reader that waits for the processor for long may miss it
        had = _ROWS + added
        if min(resync("--in-place")) < had:
            break
    else:
        pytest.fail("a copy in place is seen half")
    assert running.stop().status == 143
