"""A pipeline that reads an archive and was killed at a step has every row once, three runs and changes of structure later."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

from tests.crash.kills import killed
from tests.crash.sqlite.archive.test_archive_kills import archived
from tests.crash.sqlite.conftest import MakePair
from tests.crash.sqlite.pair import Pair
from tests.crash.three_runs import ThreeRuns
from tests.end_to_end.replicator import Replicator

AT_THE_BEGINNING = ("engine.snapshot.planned", "engine.snapshot.finished", "file.commit.after")
ON_THE_WAY = (
    "engine.table.after_apply",
    "engine.ddl.after_apply",
    "engine.offset.before_save",
    "state.offset.after_write",
)


@dataclass
class Writer:
    """The database, and the pipeline that archives it after each change."""

    pair: Pair

    def change_rows(self) -> None:
        self.pair.change_rows()
        self.pair.run_until_current()

    def change_structure(self) -> None:
        self.pair.change_structure()
        self.pair.run_until_current()


def replay(writer: Pair, archive: Path, name: str) -> Pair:
    """A pipeline from the archive into a folder of its own."""
    folder, shop = writer.replicator.folder.parent / name, writer.replicator
    replicator = Replicator(
        folder,
        ("archive", {"path": str(archive), "pollIntervalSeconds": 0.1}),
        ("file", {"path": str(folder / "target")}),
        settings={key: value for key, value in shop.settings.items() if key != "archive"},
        environment=shop.environment,
    )
    return Pair(writer.database, replicator, random.Random(name))


def test_three_runs_after_a_kill_have_every_row_once(make_pair: MakePair) -> None:
    writer = make_pair()
    archive = archived(writer)
    writer.run_until_current()
    copies = [replay(writer, archive, point) for point in (*AT_THE_BEGINNING, *ON_THE_WAY)]
    for copy, point in zip(copies, AT_THE_BEGINNING, strict=False):
        killed(copy.start("--until-current", point=point), point)
    late = copies[len(AT_THE_BEGINNING) :]
    for copy in late:
        copy.run_until_current()
    writer.change_everything()
    writer.run_until_current()
    for copy, point in zip(late, ON_THE_WAY, strict=True):
        killed(copy.start("--until-current", point=point), point)
    ThreeRuns(Writer(writer), copies).check()
