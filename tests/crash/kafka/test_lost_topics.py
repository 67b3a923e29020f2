"""A process killed while a table stops whose topic is lost: three runs follow that stop it again, and replicate the other one."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from tests.crash.copied import copied
from tests.crash.kafka.pair import KafkaPair
from tests.crash.kill_points import OF_LOST_TOPICS
from tests.end_to_end.replicator import Ended

_BESIDE = ("engine.table.before_apply", "engine.table.after_apply")
_POINTS = {"deleted": _BESIDE, "created again": (*sorted(OF_LOST_TOPICS), *_BESIDE)}
"""Of one that is created again it is stored that its records are lost, since the offset passes them."""
_RUNS = 3


@pytest.mark.parametrize("loss", _POINTS)
def test_three_runs_after_kills_while_a_table_of_a_lost_topic_stops_have_the_others_equal(
    pair: KafkaPair, loss: str
) -> None:
    pair.assert_nothing_lost()
    pair.tables.lose_notes(replaced=loss == "created again")
    pair.change_rows()
    points = _POINTS[loss]
    pairs = [replace(pair, replicator=copied(pair.replicator, f"kill {number}")) for number in range(len(points))]
    with ThreadPoolExecutor(len(pairs)) as pool:
        list(pool.map(KafkaPair.kill_at, pairs, points))
        for number in range(_RUNS):
            if number:
                pair.change_rows()
                pair.change_structure()
                pair.change_rows()
            _check(loss, pairs, list(pool.map(lambda one: one.replicator.run("--until-current"), pairs)))


def _check(loss: str, pairs: Sequence[KafkaPair], runs: Sequence[Ended]) -> None:
    """The other table is equal, the lost one is as it was, and each run says why."""
    for one, ended in zip(pairs, runs, strict=True):
        assert one.differences() == {}, ended.messages[-2000:]
        assert ended.status == 3, ended.messages[-2000:]
        assert ended.error["code"] in _CODES[loss]
        assert "note" in ended.error["table"]


_CODES = {"deleted": {"RPL-3954"}, "created again": {"RPL-3986", "RPL-2005"}}
"""Its topic is gone; its changes were lost, and it cannot go on where it stopped in an earlier run."""
