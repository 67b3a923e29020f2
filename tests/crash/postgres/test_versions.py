"""Delta in the mode `scd2` from a real Postgres, killed at its steps: each change is one version, and none is lost or doubled.

Versions are read by `deltalake`.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

from tests.crash.one_process import OneProcess
from tests.depth import some
from tests.end_to_end.replicator import Replicator, postgres_source
from tests.plugins.targets.version_model import assert_in_order
from tests.services.postgres.server import PostgresDatabase

AT_THE_BEGINNING = ("delta.snapshot.whole_written", "delta.snapshot.finished")
POINTS = (
    "delta.files.written",
    "delta.vectors.written",
    "delta.commit.before",
    "delta.commit.after",
    "engine.offset.before_save",
    "delta.ddl.before",
    "delta.ddl.after",
)
LARGE = "repeat(md5(random()::text), 200)"


class Documents:
    """A table whose large values do not travel with every update, and a replicator of it; counts the versions that should be there."""

    def __init__(self, database: PostgresDatabase, folder: Path) -> None:
        self.database, self.columns = database, 0
        self.replicator = Replicator(folder, postgres_source(database))
        self.replicator.lake_settings = {"mode": "scd2"}
        self.expected = 0
        self.execute(
            "CREATE TABLE document (id bigint PRIMARY KEY, title text, body text)",
            "ALTER TABLE document ALTER body SET STORAGE EXTERNAL",
            f"INSERT INTO document SELECT i, 'copied', {LARGE} FROM generate_series(1, 60) i",
        )

    def execute(self, *statements: str) -> None:
        """Run statements, each a transaction."""
        for statement in statements:
            self.database.execute(statement)

    def change(self) -> None:
        """Several versions of one key in one transaction, partial updates, a row that moves, rows that come, go and come back."""
        before = self.count()
        self.execute(
            "BEGIN; UPDATE document SET title = 'one' WHERE id = 5; UPDATE document SET title = 'two' WHERE id = 5; COMMIT",
            "UPDATE document SET title = title || '+' WHERE id BETWEEN 10 AND 19",
            f"UPDATE document SET body = {LARGE} WHERE id BETWEEN 15 AND 24",
            "UPDATE document SET id = id + 1000 WHERE id = (SELECT min(id) FROM document WHERE id > 24)",
            f"INSERT INTO document SELECT max(id) + 1, 'new', {LARGE} FROM document",
            f"BEGIN; DELETE FROM document WHERE id = 7; INSERT INTO document (id, title, body) VALUES (7, 'back', {LARGE}); COMMIT",
            "DELETE FROM document WHERE id = (SELECT max(id) FROM document)",
        )
        assert self.count() == before
        self.expected += 2 + 10 + 10 + 1 + 1 + 1

    def restructure(self) -> None:
        """Another column, with a default; then no row any more, and some."""
        self.columns += 1
        self.execute(
            f"ALTER TABLE document ADD COLUMN later_{self.columns} text DEFAULT 'later'",
            "UPDATE document SET title = 'restructured' WHERE id = 12",
        )
        self.expected += 1

    def count(self) -> int:
        """How many rows the source has."""
        return int(self.database.execute("SELECT count(*) FROM document")[0][0])

    def versions(self) -> list[dict[str, Any]]:
        """All that the lake has."""
        table = deltalake.DeltaTable(str(self.replicator.lake / "public" / "document"))
        found = deltalake.QueryBuilder().register("t", table).execute("select * from t").read_all()
        rows: list[dict[str, Any]] = pa.table(found).to_pylist()
        return rows

    def check(self) -> list[dict[str, Any]]:
        """Current versions equal the source, versions follow one another, and there are as many as changes were made."""
        versions = self.versions()
        names = ["id", "title", "body", *(f"later_{number + 1}" for number in range(self.columns))]
        source = self.database.execute(f"SELECT {', '.join(names)} FROM document")
        current = Counter(tuple(one[name] for name in names) for one in versions if one["_is_current"])
        assert current == Counter(tuple(one) for one in source)
        assert_in_order(versions)
        assert len(versions) == self.expected
        return versions


@pytest.fixture
def documents(postgres_database: PostgresDatabase, tmp_path: Path) -> Documents:
    return Documents(postgres_database, tmp_path / "pair")


@pytest.mark.timeout(1800)
def test_after_a_kill_at_each_step_each_change_is_one_version(documents: Documents, tmp_path: Path) -> None:
    with OneProcess(tmp_path / "process") as process:
        for point in AT_THE_BEGINNING:
            process.kill_at(documents.replicator.document(), point)
        assert process.run(documents.replicator.document()) == ""
        documents.expected = documents.count()
        documents.check()
        for point in some(POINTS, 2, name="versions"):
            documents.change()
            if "ddl" in point:
                documents.restructure()
            process.kill_at(documents.replicator.document(), point)
            documents.change()
            for _ in range(2):
                assert process.run(documents.replicator.document()) == "", point
                documents.check()
        documents.execute("TRUNCATE document", f"INSERT INTO document (id, title, body) VALUES (5, 'after', {LARGE})")
        documents.expected += 1
        assert process.run(documents.replicator.document()) == ""
        found = documents.check()
        assert sum(one["_is_current"] for one in found) == 1
