"""What is kept of tables that were renamed and dropped does not grow over runs, however short each is."""

from __future__ import annotations

from pathlib import Path

from tests.plugins.sources.postgres.pipeline import Pipeline
from tests.runtime.engine import in_memory_target
from tests.services.postgres.server import PostgresDatabase

_ROUNDS = 8
_EMPTY = 50


def _kept(folder: Path) -> int:
    """The bytes of the source's documents, without former ones; an empty document holds a few words. There are 64 at most."""
    documents = (file for file in folder.rglob("*postgres-*") if file.is_file() and file.suffix != ".previous")
    return sum(size for document in documents if (size := document.stat().st_size) > _EMPTY)


def test_what_is_kept_of_renamed_and_dropped_tables_is_forgotten_over_short_runs(
    postgres_database: PostgresDatabase, tmp_path: Path
) -> None:
    db = postgres_database
    db.execute("CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (-1)")
    pipeline = Pipeline(db, tmp_path)
    pipeline.document["tables"] = [{"database": db.name, "schema": "public", "table": "*"}]
    pipeline.document["offsets"] = {"keepCount": 4, "keepDays": 0}
    pipeline.tables = ("t",)
    in_memory_target.STORAGE.drops = True
    sizes = []
    for number in range(_ROUNDS):
        db.execute(f"CREATE TABLE night_{number} (id int PRIMARY KEY); INSERT INTO night_{number} VALUES (1)")
        pipeline.run()
        db.execute(f"ALTER TABLE night_{number} RENAME TO day_{number}; INSERT INTO t VALUES ({number})")
        pipeline.run()
        db.execute(f"DROP TABLE day_{number}; INSERT INTO t VALUES ({number + 100})")
        pipeline.run()
        pipeline.assert_equal()
        sizes.append(_kept(tmp_path))
    assert sizes[-1] <= 1.1 * sizes[2] > 0, sizes
