"""A snapshot interrupted before its chunks were read and resumed later overlaps with the log; nothing may get lost in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crash.conftest import killed
from tests.end_to_end.comparison import assert_equal_copies
from tests.end_to_end.replicator import Replicator, postgres_source
from tests.services.postgres.server import PostgresDatabase


@pytest.mark.timeout(400)
def test_a_row_moved_before_and_after_a_resumed_snapshot_keeps_what_its_updates_do_not_carry(
    postgres_database: PostgresDatabase, tmp_path: Path
) -> None:
    """The plan is of one moment, the rows are of a later one, the log begins at the first and goes on after the second.

    One batch then holds a move that the rows have already and one that they do not have: the large value, which neither
    update carries, stands at the target under the key in between.
    """
    replicator = Replicator(tmp_path, postgres_source(postgres_database))
    with postgres_database.connect() as connection:
        connection.execute("CREATE TABLE document (id bigint PRIMARY KEY, body text)")
        connection.execute("ALTER TABLE document ALTER body SET STORAGE EXTERNAL")
        connection.execute("INSERT INTO document SELECT i, repeat(md5(i::text), 100) FROM generate_series(1, 20) i")
        killed(replicator.start(REPLICATOR_FAILPOINTS="engine.snapshot.planned=kill"), "engine.snapshot.planned")
        connection.execute("UPDATE document SET id = id + 1000 WHERE id <= 10")
        killed(replicator.start(REPLICATOR_FAILPOINTS="engine.snapshot.finished=kill"), "engine.snapshot.finished")
        connection.execute("UPDATE document SET id = id + 1000 WHERE id > 1000")
        replicator.until_current()
        assert_equal_copies(connection, replicator.lake, [("public", "document")])
