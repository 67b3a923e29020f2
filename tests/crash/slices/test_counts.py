"""Counts of a log in slices over SIGKILLs: none is counted twice, and only those of tables that the slice had reached may be missing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.crash.slices.test_kills import Pair, pair

__all__ = ["pair"]
INSERTS = 9


def counted(folder: Path) -> int:
    """How many inserts are counted of the table `stock`."""
    [file] = folder.glob("**/state.json")
    tables = json.loads(file.read_text())["metrics"]["tables"]
    [counters] = [metrics["counters"] for name, metrics in tables.items() if name.endswith("stock")]
    return sum(count for name, count in counters.items() if name.endswith(".dml.insert"))


@pytest.mark.timeout(600)
def test_a_slice_that_a_kill_cut_is_counted_once_or_not_at_all(pair: Pair, tmp_path: Path) -> None:
    """Before its commit it is counted when it is applied; after it no one knows of its counts, as decision 51 says."""
    pair.change_rows()
    pair.copy.run_until_current()
    made = counted(tmp_path)
    kills = (("delta.slice.written", 0), ("engine.slice.applied", INSERTS))
    for number, (point, may_be_missing) in enumerate(kills):
        pair.change_stock(1000 + 100 * number)
        pair.process.kill_at(pair.document(), point)
        pair.copy.run_until_current()
        found = counted(tmp_path)
        assert made + INSERTS - may_be_missing <= found <= made + INSERTS
        made = found
        assert pair.differences() == []
    pair.change_stock(2000)
    pair.copy.run_until_current()
    assert counted(tmp_path) == made + INSERTS
