"""Counts of a log in slices over SIGKILLs: every change is counted, once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.crash.slices.test_kills import Pair, pair

__all__ = ["pair"]
INSERTS = 9


def counted(folder: Path, name: str = "dml.insert", *, table: str | None = "stock") -> int:
    """What is counted under this name of the table; of all together where it is None."""
    [file] = folder.glob("**/state.json")
    tables = json.loads(file.read_text())["metrics"]["tables"]
    counters = [metrics["counters"] for found, metrics in tables.items() if table is None or found.endswith(table)]
    return sum(count for one in counters for found, count in one.items() if found.endswith(f".{name}"))


@pytest.mark.timeout(600)
def test_a_slice_that_a_kill_cut_is_counted_once(pair: Pair, tmp_path: Path) -> None:
    """Before its commit it is counted when it is applied; after it the table's own commit says what is counted of it."""
    pair.change_rows()
    pair.copy.run_until_current()
    made = counted(tmp_path)
    for number, point in enumerate(("delta.slice.written", "engine.slice.applied", "engine.offset.before_save")):
        pair.change_stock(1000 + 100 * number)
        pair.process.kill_at(pair.document(), point)
        pair.copy.run_until_current()
        made += INSERTS
        assert counted(tmp_path) == made, point
        assert pair.differences() == []
    pair.change_stock(2000)
    pair.copy.run_until_current()
    assert counted(tmp_path) == made + INSERTS


@pytest.mark.timeout(600)
def test_a_column_that_executors_find_is_counted_once(pair: Pair, tmp_path: Path) -> None:
    """Whatever step a kill cuts: after the column's commit its event is stored until it is counted."""
    pair.change_rows()
    pair.copy.run_until_current()
    made = counted(tmp_path, "ddl", table=None)
    for point in ("engine.slice.schema_applied", "engine.slice.applied"):
        pair.change_structure()
        pair.change_rows()
        pair.process.kill_at(pair.document(), point)
        pair.copy.run_until_current()
        assert pair.differences() == []
        now = counted(tmp_path, "ddl", table=None)
        assert now == made + 1, point
        made = now
