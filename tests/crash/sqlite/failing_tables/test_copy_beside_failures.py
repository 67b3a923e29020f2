"""A copy goes on while the stream rejoins for another table, and what a kill leaves of it is resumed."""

from __future__ import annotations

import pytest

from tests.crash import kill_points
from tests.crash.kills import killed
from tests.crash.sqlite.conftest import MakePair
from tests.crash.sqlite.failing_tables.copy_beside_failures import COMMAND, FAILURES
from tests.crash.sqlite.pair import Pair
from tests.end_to_end.replicator import COMMAND as REPLICATOR

WAVES = {"customer": 10, "note": 5}
"""Of four chunks of five rows; `customer` has two chunks more, for keys below and above."""


def begin_beside_failures(pair: Pair, copied: str) -> None:
    """One table is replicated; `copied` is selected as well, and the next run meets the failures."""
    [other] = {"customer", "note"} - {copied}
    settings = {**pair.replicator.settings, "retries": {"maxDurationSeconds": 300, "delaySeconds": 0.2}}
    pair.replicator.source = ("sqlite", {**pair.replicator.source[1], "chunkRows": 5})
    pair.replicator.settings = {**settings, "tables": [{"table": other}]}
    pair.run_until_current()
    pair.replicator.settings = settings
    pair.replicator.command = (*COMMAND, copied)
    pair.change_rows()


@pytest.mark.timeout(900)
@pytest.mark.parametrize("delta", [False, True], ids=["file", "delta"])
@pytest.mark.parametrize("copied", ["customer", "note"])
def test_a_copy_reads_each_chunk_once_though_the_stream_rejoins(make_pair: MakePair, copied: str, delta: bool) -> None:
    pair = make_pair(delta=delta)
    begin_beside_failures(pair, copied)
    ended = pair.run_until_current()
    [said] = [line for line in ended.messages.splitlines() if line.endswith(" waves")]
    failures, copies, waves = (int(part.split()[0]) for part in said.split(", "))
    assert (failures, copies) == (FAILURES, 1)
    assert abs(waves - WAVES[copied]) <= 1, "the changes before the run made some rows more or fewer"
    assert ended.messages.count("table.failing") == FAILURES, "each but the first comes after a rejoin"
    assert pair.differences() == {}


@pytest.mark.timeout(900)
@pytest.mark.parametrize("copied", ["customer", "note"])
def test_three_runs_after_a_kill_while_a_copy_goes_on_over_rejoins_are_equal(make_pair: MakePair, copied: str) -> None:
    """The twin does not know which chunks are loaded."""
    pair, point = make_pair(), "engine.snapshot.chunks_loaded"
    begin_beside_failures(pair, copied)
    running = pair.replicator.start("--until-current", REPLICATOR_FAILPOINTS=f"{point}=kill@3")
    killed(running, point)
    assert running.log.read_text().count("table.failing") >= FAILURES - 1, "the kill may come before the last is logged"
    pair.replicator.command = REPLICATOR
    pair.change_rows()
    twin = kill_points.AT_THE_BEGINNING[point]
    other = make_pair(like=pair, removed=twin.removed, name="twin")
    other.replicator.source = ("sqlite", {**other.replicator.source[1], "chunkRows": 5})
    other.assert_next_run_harms(twin)
    pair.assert_recovered()
