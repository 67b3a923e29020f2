"""A snapshot interrupted between its chunks and resumed later overlaps with the log; nothing may get lost in it.

A run that resumes it and ends is tried with the target `file`, and one that is killed as well with Delta.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.crash import kill_points
from tests.crash.file_target import file_target_rows
from tests.crash.kill_points import Twin
from tests.crash.kills import harms, killed
from tests.crash.one_process import CopyInProcess, OneProcess
from tests.crash.three_runs import ThreeRuns
from tests.depth import ALL_CASES
from tests.end_to_end.comparison import copies_differ
from tests.end_to_end.replicator import Replicator, postgres_source
from tests.services.postgres.server import PostgresDatabase


class Documents:
    """A table whose large values do not travel with every update."""

    def __init__(self, database: PostgresDatabase, lake: Path) -> None:
        self._database, self._lake = database, lake
        self._structures = 0

    def create(self) -> None:
        """Make the table, with rows."""
        self.execute(
            "CREATE TABLE document (id bigint PRIMARY KEY, body text)",
            "ALTER TABLE document ALTER body SET STORAGE EXTERNAL",
            "INSERT INTO document SELECT i, repeat(md5(i::text), CASE WHEN i > 7000 THEN 100 ELSE 1 END)"
            " FROM generate_series(1, 8000) i",
            "ANALYZE document",
        )

    def execute(self, *statements: str) -> None:
        """Run statements, each a transaction."""
        for statement in statements:
            self._database.execute(statement)

    def change_rows(self) -> None:
        """Rows come, move and go."""
        self.execute(
            "INSERT INTO document SELECT max(id) + 1, repeat('new', 1000) FROM document",
            "UPDATE document SET id = id + 100000 WHERE id = (SELECT min(id) FROM document)",
            "DELETE FROM document WHERE id = (SELECT min(id) FROM document)",
        )

    def change_structure(self) -> None:
        """Another column, then another name of it."""
        self._structures += 1
        self.execute(
            "ALTER TABLE document RENAME COLUMN title TO heading"
            if self._structures % 2 == 0
            else "ALTER TABLE document ADD COLUMN title text DEFAULT 'untitled'"
        )

    def differences(self) -> str:
        """How the table and its copy in Delta differ."""
        with self._database.connect() as connection:
            return copies_differ(connection, self._lake, [("public", "document")])

    def rows(self) -> Counter[tuple[Any, ...]]:
        """The table's rows, as a bag."""
        return Counter(self._database.execute("SELECT * FROM document"))


@dataclass(frozen=True)
class InFile:
    """The copy in the target `file`, a process for each run."""

    documents: Documents
    replicator: Replicator

    def run_until_current(self) -> object:
        """Run until the target has all changes."""
        return self.replicator.until_current(seconds=120)

    def differences(self) -> int:
        """How many rows differ."""
        source, copy = self.documents.rows(), file_target_rows(self.replicator.folder / "target", "document")
        return (source - copy).total() + (copy - source).total()


def test_three_runs_after_a_kill_between_chunks_and_a_move_of_later_rows_are_equal(
    postgres_database: PostgresDatabase, tmp_path: Path, file_target_package: str
) -> None:
    """One kill: the next run resumes the snapshot and ends. The log holds a move that the rows of later chunks have already."""
    source = postgres_source(postgres_database, chunkRows=1000)
    target = ("file", {"path": str(tmp_path / "target")})
    replicator = Replicator(tmp_path, source, target, environment={"PYTHONPATH": file_target_package})
    documents = Documents(postgres_database, replicator.lake)
    documents.create()
    killed(
        replicator.start("--until-current", REPLICATOR_FAILPOINTS="engine.snapshot.chunks_loaded=kill"),
        "engine.snapshot.chunks_loaded",
    )
    documents.execute("UPDATE document SET id = id + 10000 WHERE id BETWEEN 7901 AND 7910")
    ThreeRuns(documents, [InFile(documents, replicator)]).check()


@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    "twin", [None, kill_points.RESUMED_SNAPSHOT["engine.snapshot.finished"]] if ALL_CASES else [None]
)
def test_rows_moved_before_and_after_a_resumed_snapshot_keep_what_their_updates_do_not_carry(
    postgres_database: PostgresDatabase, tmp_path: Path, twin: Twin | None
) -> None:
    """The harder history: the run that resumes is killed as well, and no run ends between the two kills.

    The first four chunks are read before a move of rows in the others, the others after it; the log begins before it.

    So the log holds a move that the rows have already, and then one that they do not have. No update carries the large
    values. A run that does not know about the overlap looks for them where no row is.
    """
    replicator = Replicator(tmp_path, postgres_source(postgres_database, chunkRows=1000))
    documents = Documents(postgres_database, replicator.lake)
    documents.create()
    with OneProcess(tmp_path / "process") as process:
        process.kill_at(replicator.document(), "engine.snapshot.chunks_loaded")
        documents.execute("UPDATE document SET id = id + 10000 WHERE id BETWEEN 7901 AND 7910")
        process.kill_at(replicator.document(), "engine.snapshot.finished")
        documents.execute("UPDATE document SET id = id + 10000 WHERE id > 17000")
        if twin is not None:
            assert process.run(replicator.document(), twin.removed) == twin.harm
            harms.append(twin.removed)
        else:
            ThreeRuns(documents, [CopyInProcess(process, replicator.document, documents.differences)]).check()
