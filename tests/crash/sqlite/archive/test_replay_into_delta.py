"""An archive that a run into Delta has written is replayed into another Delta, read by deltalake."""

from __future__ import annotations

import random

from tests.crash.sqlite.archive.test_archive_kills import archived
from tests.crash.sqlite.conftest import MakePair
from tests.crash.sqlite.pair import Pair
from tests.end_to_end.replicator import Replicator


def test_a_lake_of_an_archive_is_that_of_the_database(make_pair: MakePair) -> None:
    writer = make_pair(delta=True)
    archive = archived(writer)
    writer.run_until_current()
    writer.change_everything()
    writer.run_until_current()
    folder = writer.replicator.folder.parent / "replay"
    replicator = Replicator(
        folder, ("archive", {"path": str(archive)}), settings={"batch": {"maxIntervalSeconds": 0.1}}
    )
    replay = Pair(writer.database, replicator, random.Random(1))
    for _ in range(2):
        replay.run_until_current()
        assert replay.differences() == {}
        writer.change_rows()
        writer.change_structure()
        writer.run_until_current()
    replay.run_until_current()
    assert replay.differences() == {}
