"""Where state and tables are on S3, kills and runs that go on late change nothing, as on a disk; three runs after each are equal.

`make test` tries a few points, `make test-all` every one that writes to the store.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.object_store.pair import StoredPair, stored_pair
from tests.crash.object_store.stores import on_s3
from tests.crash.three_runs import ThreeRuns
from tests.depth import ALL_CASES
from tests.services.s3.server import S3Server

SEED = int(os.environ.get("SOAK_SEED") or 0) or random.SystemRandom().randrange(1, 10**9)
ZOMBIES = ("delta.commit.before", "delta.files.written", "state.offset.before_write", "state.put.before")
"""Before a write that comes late; the first in `make test`, too."""
ZOMBIE_ENDS = {"RPL-4407", "RPL-7131", "RPL-8401"}
BEGINNING = (
    "state.lease.claimed",
    "state.put.between",
    "delta.snapshot.whole_written",
    "delta.snapshot.whole_committed",
)
"""Kills while tables are copied."""
ON_THE_WAY = (
    "delta.commit.after",
    "state.lease.claimed",
    "state.put.between",
    "state.put.after",
    "state.status.after",
    "state.offset.before_write",
    "state.offset.after_write",
    "delta.files.written",
    "delta.vectors.written",
    "delta.commit.before",
)
"""Kills while changes are applied; the first, of a version that the store has, in `make test`, too."""
OFTEN = 0.02
"""The part of the requests that meets a fault at random."""

pytestmark = pytest.mark.timeout(3600 if ALL_CASES else 600)


@pytest.fixture
def pair(s3_server: S3Server, s3_bucket: str, tmp_path: Path) -> Iterator[StoredPair]:
    """A database and its replicator, whose state and tables are on the S3 server."""
    with stored_pair(on_s3(s3_server, s3_bucket), tmp_path) as made:
        yield made


def test_three_runs_after_kills_and_zombies_are_equal_whatever_requests_fail(
    pair: StoredPair, s3_server: S3Server
) -> None:
    """One test for all: each process that starts Spark costs ten seconds."""
    for point in BEGINNING if ALL_CASES else ():
        pair.kill_at(point)
    pair.run_until_current()
    assert pair.differences() == {}
    for point in ZOMBIES if ALL_CASES else ZOMBIES[:1]:
        _assert_zombie_changes_nothing(pair, point)
    s3_server.let_chance(SEED, OFTEN)
    for point in ON_THE_WAY if ALL_CASES else ON_THE_WAY[:1]:
        pair.change_rows()
        pair.kill_at(point)
        ThreeRuns(pair, [pair]).check()
    assert s3_server.met, "no fault was met"


def _assert_zombie_changes_nothing(pair: StoredPair, point: str) -> None:
    """A run is stopped at `point`, another one takes over, then the first one goes on."""
    pair.stop_at(point)
    pair.change_rows()
    pair.run_until_current()
    assert pair.differences() == {}
    assert pair.other.go_on() in ZOMBIE_ENDS
    assert pair.differences() == {}
    if ALL_CASES:
        ThreeRuns(pair, [pair]).check()
