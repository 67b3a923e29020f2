"""A copy beside a Delta table that is killed at any step leaves a whole table; three runs later it is equal and nothing is left over."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from deltalake import DeltaTable

from replicator_state import ReplicatorDirectory
from tests.crash import kill_points
from tests.crash.orphans import unnamed_files
from tests.crash.sqlite.conftest import MakePair
from tests.crash.sqlite.pair import Pair
from tests.depth import some
from tests.end_to_end.comparison import delta_rows

pytestmark = pytest.mark.timeout(900)


def rows(pair: Pair) -> Counter[tuple[Any, ...]]:
    """The customers as a reader of Delta has them."""
    return Counter(delta_rows(pair.replicator.lake / "main" / "customer", ["id", "name", "visits"]))


def test_three_runs_after_kills_at_every_step_are_equal_and_readers_always_had_a_whole_table(
    make_pair: MakePair,
) -> None:
    pair = make_pair(delta=True)
    pair.replicator.source = ("sqlite", {**pair.replicator.source[1], "chunkRows": 50})
    pair.run_until_current()
    requests = ReplicatorDirectory(str(pair.replicator.state), "default", "shop").requests()
    path = pair.replicator.lake / "main" / "customer"
    for number, point in enumerate(some(kill_points.OF_COPY_BESIDE, 2, name="copy beside")):
        old = rows(pair)
        pair.database.run(f"INSERT INTO customer VALUES ({10_000 + number}, 'new', 0)")
        new = pair.database.rows("customer")
        requests.submit("table.resync", {"tables": ["customer"]})
        pair.kill_at(point)
        assert rows(pair) in (old, new), point
        assert len(old) >= 200
    assert DeltaTable(str(path)).version() > 0
    pair.change_everything()
    pair.assert_recovered()
    assert unnamed_files(path) == []
