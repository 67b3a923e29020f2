"""Tables that begin empty (`snapshot.mode` "never") lose no change after a kill: what was committed since they began is in the log.

The first table is empty at the source, too, so that source and copy must be equal from its beginning on.
"""

from __future__ import annotations

import pytest

from tests.crash.sqlite.conftest import MakePair
from tests.crash.sqlite.pair import Pair


def assert_equal(pair: Pair) -> None:
    assert (pair.lost()["customer"], pair.doubled()) == (0, {"customer": 0, "note": 0})


@pytest.mark.parametrize("point", ["engine.snapshot.planned", "engine.snapshot.finished"])
def test_what_is_committed_after_a_kill_is_at_the_target(point: str, make_pair: MakePair) -> None:
    pair = make_pair()
    pair.database.run("DELETE FROM customer")
    pair.replicator.settings = {
        **pair.replicator.settings,
        "snapshot": {"mode": "never", "order": ["customer"]},
        "parallelism": {"tables": 1},
    }
    pair.kill_at(point)
    pair.change_everything()
    for _ in range(3):
        pair.run_until_current()
        assert_equal(pair)
        assert pair.lost()["note"]
        pair.change_structure()
        pair.change_rows()
    pair.run_until_current()
    assert_equal(pair)
    assert pair.database.rows("customer")
