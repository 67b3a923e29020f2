"""A snapshot interrupted before its chunks were read and resumed later overlaps with the log; nothing may get lost in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crash.one_process import CopyInProcess, OneProcess
from tests.crash.three_runs import ThreeRuns
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
            "INSERT INTO document SELECT i, repeat(md5(i::text), 100) FROM generate_series(1, 20) i",
        )

    def execute(self, *statements: str) -> None:
        """Run statements, each a transaction."""
        for statement in statements:
            self._database.execute(statement)

    def change_rows(self) -> None:
        """Rows come, move and go."""
        self.execute(
            "INSERT INTO document SELECT max(id) + 1, repeat('new', 1000) FROM document",
            "UPDATE document SET id = id + 10000 WHERE id = (SELECT min(id) FROM document)",
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
        """How the table and its copy differ."""
        with self._database.connect() as connection:
            return copies_differ(connection, self._lake, [("public", "document")])


@pytest.mark.timeout(400)
def test_a_row_moved_before_and_after_a_resumed_snapshot_keeps_what_its_updates_do_not_carry(
    postgres_database: PostgresDatabase, tmp_path: Path
) -> None:
    """The plan is of one moment, the rows are of a later one, the log begins at the first and goes on after the second.

    One batch then holds a move that the rows have already and one that they do not have: the large value, which neither
    update carries, is at the target under the key in between.
    """
    replicator = Replicator(tmp_path, postgres_source(postgres_database))
    documents = Documents(postgres_database, replicator.lake)
    documents.create()
    with OneProcess(tmp_path / "process") as process:
        process.kill_at(replicator.document(), "engine.snapshot.planned")
        documents.execute("UPDATE document SET id = id + 1000 WHERE id <= 10")
        process.kill_at(replicator.document(), "engine.snapshot.finished")
        documents.execute("UPDATE document SET id = id + 1000 WHERE id > 1000")
        ThreeRuns(documents, [CopyInProcess(process, replicator.document, documents.differences)]).check()
